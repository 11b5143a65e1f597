"""Sorted columns of a static graph, as the joins of AMIE's rules need them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.errors import MiningError

if TYPE_CHECKING:
    from rulerag.kg.graph import FactTable

__all__ = ["ByEntity", "ByRelation", "DirectedIndex", "Ints", "Longs"]

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
ByEntity = tuple[Longs, Ints, Longs, Ints]
ByRelation = tuple[Longs, Ints, Longs, Ints]


@dataclass(frozen=True)
class DirectedIndex:
    """Every fact in both directions, sorted by relation and by entity.

    A *directed relation* ``d`` is a relation (``d < R``) or its inverse (``d - R``), so a body is
    a path of directed relations and an inverse head is a head. Duplicate facts count once.

    Args:
        num_entities: N.
        num_relations: R; there are 2 R directed relations.
        source: int32 array of shape (2 F,), where a directed fact starts; sorted by ``(relation,
            source, target)``, as are the next two.
        relation: int32 array of shape (2 F,), directed relation ids.
        target: int32 array of shape (2 F,), where it ends.
    """

    num_entities: int
    num_relations: int
    source: Ints
    relation: Ints
    target: Ints

    @classmethod
    def build(cls, facts: FactTable) -> DirectedIndex:
        """Index the distinct triples of a table.

        Raises:
            MiningError: the graph's ids do not fit 64-bit codes.
        """
        entities, relations = max(len(facts.entities), 1), max(len(facts.relations), 1)
        if 2 * relations * entities * entities >= 2**63:
            raise MiningError(
                f"{entities:,} entities and {relations:,} relations are too many for this miner"
            )
        forward = _codes(facts.relation, facts.subject, facts.object, entities)
        if len(forward):
            forward = forward[np.append(True, forward[1:] != forward[:-1])]
        relation, source, target = _decode(forward, entities)
        inverse = _decode(_codes(relation, target, source, entities), entities)
        return cls(
            entities,
            relations,
            np.concatenate([source, inverse[1]]),
            np.concatenate([relation, inverse[0] + np.int32(relations)]),
            np.concatenate([target, inverse[2]]),
        )

    @property
    def num_facts(self) -> int:
        """Distinct facts, F."""
        return len(self.source) // 2

    def inverse(self, directed: npt.NDArray[np.integer]) -> Longs:
        """The same relations read from their other ends."""
        wide = directed.astype(np.int64)
        return np.where(
            wide < self.num_relations, wide + self.num_relations, wide - self.num_relations
        )

    @cached_property
    def relation_bounds(self) -> Longs:
        """int64 array of shape (2 R + 1,): the facts of each directed relation."""
        return _bounds(self.relation, 2 * self.num_relations)

    @cached_property
    def head_size(self) -> Longs:
        """int64 array of shape (R,): distinct facts of each relation."""
        return np.diff(self.relation_bounds)[: self.num_relations]

    def by_relation(self) -> ByRelation:
        """``group_bounds, group_source, group_starts, target``, as kernels take them."""
        return self.group_bounds, self.group_source, self.group_starts, self.target

    def by_entity(self) -> ByEntity:
        """``entity_bounds, pair_target, pair_starts, pair_relation``, as kernels take them."""
        return self.entity_bounds, self.pair_target, self.pair_starts, self.pair_relation

    def kinds_by_entity(self) -> tuple[Longs, Ints]:
        """The distinct directed relations that start at each entity: bounds and relations."""
        order = np.argsort(self.group_source, kind="stable")
        return _bounds(self.group_source, self.num_entities), self.group_relation[order]

    # --- by relation: one group per (directed relation, source) with facts -----------------------

    @cached_property
    def group_starts(self) -> Longs:
        """int64 array of shape (G + 1,): the facts of group ``g``."""
        return _run_starts(self.relation, self.source)

    @cached_property
    def group_bounds(self) -> Longs:
        """int64 array of shape (2 R + 1,): the groups of each directed relation."""
        return _bounds(self.group_relation, 2 * self.num_relations)

    @cached_property
    def group_source(self) -> Ints:
        """int32 array of shape (G,): where a group starts from; ascending within a relation."""
        return self.source[self.group_starts[:-1]]

    @cached_property
    def group_relation(self) -> Ints:
        """int32 array of shape (G,): the directed relation of a group."""
        return self.relation[self.group_starts[:-1]]

    # --- by entity: one pair per (source, target) that some relation joins -----------------------

    @cached_property
    def _by_entity(self) -> Longs:
        codes = self.source.astype(np.int64) * self.num_entities + self.target
        return np.argsort(codes, kind="stable")  # stable: relations stay ascending within a pair

    @cached_property
    def pair_relation(self) -> Ints:
        """int32 array of shape (2 F,): directed relations, sorted by ``(source, target)``."""
        return self.relation[self._by_entity]

    @cached_property
    def pair_starts(self) -> Longs:
        """int64 array of shape (P + 1,): the directed relations of pair ``p``."""
        return _run_starts(self.source[self._by_entity], self.target[self._by_entity])

    @cached_property
    def pair_target(self) -> Ints:
        """int32 array of shape (P,): the neighbour; ascending within an entity."""
        return self.target[self._by_entity][self.pair_starts[:-1]]

    @cached_property
    def entity_bounds(self) -> Longs:
        """int64 array of shape (N + 1,): the pairs of each entity."""
        sources = self.source[self._by_entity][self.pair_starts[:-1]]
        return _bounds(sources, self.num_entities)


def _codes(relation: Ints, source: Ints, target: Ints, entities: int) -> Longs:
    """One sorted number for each fact; made in place, since ten million facts are many bytes."""
    codes = relation.astype(np.int64)
    codes *= entities
    codes += source
    codes *= entities
    codes += target
    codes.sort()
    return codes


def _decode(codes: Longs, entities: int) -> tuple[Ints, Ints, Ints]:
    """Relation, source and target of each code."""
    rest, target = np.divmod(codes, entities)
    relation, source = np.divmod(rest, entities)
    return relation.astype(np.int32), source.astype(np.int32), target.astype(np.int32)


def _run_starts(first: Ints, second: Ints) -> Longs:
    """Where runs of equal ``(first, second)`` start, and the length of the arrays at the end."""
    if not len(first):
        return np.zeros(1, dtype=np.int64)
    changes = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [len(first)]])


def _bounds(ascending: Ints, count: int) -> Longs:
    """int64 array of shape (count + 1,): where each value of 0 .. count - 1 starts and ends."""
    return np.concatenate([[0], np.cumsum(np.bincount(ascending, minlength=count))])
