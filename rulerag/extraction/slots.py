"""Which entities can stand where: kinds of entities, found from the facts that they have."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import combinations

from rulerag.types import Fact

Slot = tuple[str, str]
"""A relation, and ``subject`` or ``object``."""

# Two slots hold one kind where they share this fraction of the smaller one's entities, and two.
_SHARED, _LEAST = 0.1, 2
_UNKNOWN = 0.8
# Two groups of entities drawn by chance share nobody with a probability of exp(-expected), where
# so many are expected to be shared. Where it is this many, the two are of two kinds.
_EXPECTED = 3.0
# Of a group with fewer entities too little is known.
_ENOUGH = 5


class EntityKinds:
    """Groups the ends of relations by the entities that they share.

    Args:
        facts: what is known.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        slots: dict[Slot, set[str]] = {}
        for fact in facts:
            slots.setdefault((fact.relation, "subject"), set()).add(fact.subject)
            slots.setdefault((fact.relation, "object"), set()).add(fact.object)
        self._kind: dict[Slot, Slot] = {slot: slot for slot in slots}
        of_entity: dict[str, list[Slot]] = {}
        for slot in sorted(slots):
            for name in slots[slot]:
                of_entity.setdefault(name, []).append(slot)
        # Only slots that share somebody are compared.
        both = Counter(pair for own in of_entity.values() for pair in combinations(own, 2))
        for (one, other), shared in sorted(both.items()):
            least = min(len(slots[one]), len(slots[other]))
            if shared >= _LEAST and shared >= _SHARED * least:
                self._kind[self._root(one)] = self._root(other)
        self._kind = {slot: self._root(slot) for slot in self._kind}
        members: dict[Slot, set[str]] = {}
        for slot, names in slots.items():
            members.setdefault(self._root(slot), set()).update(names)
        self._size = {root: len(names) for root, names in members.items()}
        self._kinds: dict[str, set[Slot]] = {}
        for slot, names in slots.items():
            for name in names:
                self._kinds.setdefault(name, set()).add(self._root(slot))
        self._largest = {
            name: max(self._size[kind] for kind in own) for name, own in self._kinds.items()
        }

    def _root(self, slot: Slot) -> Slot:
        while (above := self._kind[slot]) != slot:
            self._kind[slot] = slot = self._kind[above]
        return slot

    def fits(self, entity: str, relation: str, place: str) -> float:
        """How well an entity fits an end of a relation: 1, less where its kind is unknown, or 0.

        Args:
            entity: a canonical name.
            relation: a raw name.
            place: ``subject`` or ``object``.
        """
        slot = (relation, place)
        if slot not in self._kind or entity not in self._kinds:
            return _UNKNOWN
        if self._root(slot) in self._kinds[entity]:
            return 1.0
        sizes = self._size[self._root(slot)], self._largest[entity]
        if min(sizes) < _ENOUGH:
            return _UNKNOWN
        expected = sizes[0] * sizes[1] / len(self._kinds)
        return 0.0 if expected >= _EXPECTED else _UNKNOWN * math.exp(-expected)
