"""Sorted columns of a static graph, as the joins of AMIE's rules need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.mining.indexes.temporal_index import directed_facts, run_starts

if TYPE_CHECKING:
    from rulerag.kg import FactTable


class StaticIndex(NamedTuple):
    """Every distinct fact in both directions, sorted by relation and by entity.

    A *directed relation* ``d`` is a relation (``d < R``) or its inverse (``d - R``), so a body is
    a path of directed relations and an inverse head is a head. By relation there is one *group*
    for each (directed relation, source) that has facts, by entity one *pair* for each (source,
    target) that some relation joins.

    Attributes:
        num_entities: N.
        num_relations: R; there are 2 R directed relations.
        source: int32 array of shape (2 F,), where a directed fact starts; sorted by ``(relation,
            source, target)``, as are the next two.
        relation: int32 array of shape (2 F,), directed relation ids.
        target: int32 array of shape (2 F,), where it ends.
        relation_bounds: int64 array of shape (2 R + 1,), the facts of each directed relation.
        group_bounds: int64 array of shape (2 R + 1,), the groups of each directed relation.
        group_source: int32 array of shape (G,), where a group starts; ascending within a relation.
        group_starts: int64 array of shape (G + 1,), the facts of each group.
        entity_bounds: int64 array of shape (N + 1,), the pairs of each entity.
        pair_target: int32 array of shape (P,), the neighbour; ascending within an entity.
        pair_starts: int64 array of shape (P + 1,), the directed relations of each pair.
        pair_relation: int32 array of shape (2 F,), directed relations, ascending within a pair.
    """

    num_entities: int
    num_relations: int
    source: Ints
    relation: Ints
    target: Ints
    relation_bounds: Longs
    group_bounds: Longs
    group_source: Ints
    group_starts: Longs
    entity_bounds: Longs
    pair_target: Ints
    pair_starts: Longs
    pair_relation: Ints

    @property
    def num_facts(self) -> int:
        """Distinct facts, F."""
        return len(self.source) // 2

    @property
    def head_size(self) -> Longs:
        """int64 array of shape (R,): distinct facts of each relation."""
        return np.diff(self.relation_bounds)[: self.num_relations]

    def inverse(self, directed: npt.NDArray[np.integer]) -> Longs:
        """The same relations read from their other ends."""
        return (directed.astype(np.int64) + self.num_relations) % (2 * self.num_relations)


def build_static_index(facts: FactTable) -> StaticIndex:
    """Index the distinct triples of a table.

    Raises:
        MiningError: the graph's ids do not fit 64-bit codes.
    """
    entities, relations = max(len(facts.entities), 1), max(len(facts.relations), 1)
    source, relation, target = directed_facts([facts], (1, 0, 2))
    group_starts = _run_starts(relation, source)
    paired, pair_relation, other = directed_facts([facts], (0, 2, 1))
    pair_starts = _run_starts(paired, other)
    pairs = pair_starts[:-1]
    return StaticIndex(
        num_entities=entities,
        num_relations=relations,
        source=source,
        relation=relation,
        target=target,
        relation_bounds=_bounds(relation, 2 * relations),
        group_bounds=_bounds(relation[group_starts[:-1]], 2 * relations),
        group_source=source[group_starts[:-1]],
        group_starts=group_starts,
        entity_bounds=_bounds(paired[pairs], entities),
        pair_target=other[pairs],
        pair_starts=pair_starts,
        pair_relation=pair_relation,
    )


def functional_on_object(index: StaticIndex) -> npt.NDArray[np.bool_]:
    """Whether the object is a relation's functional end: bool array of shape (R,).

    AMIE predicts along the more functional direction: the object when the relation has more
    distinct objects than distinct subjects, else the subject.
    """
    distinct = np.diff(index.group_bounds)
    return distinct[index.num_relations :] > distinct[: index.num_relations]


def _run_starts(first: Ints, second: Ints) -> Longs:
    """Where runs of equal ``(first, second)`` start, and the length of the arrays at the end."""
    return np.append(np.flatnonzero(run_starts(first, second)), len(first))


def _bounds(ascending: Ints, count: int) -> Longs:
    """int64 array of shape (count + 1,): where each value of 0 .. count - 1 starts and ends."""
    return np.searchsorted(ascending, np.arange(count + 1))
