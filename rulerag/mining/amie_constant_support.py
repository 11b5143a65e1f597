"""Bodies with constants that have the support, for one head at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_constant_kernels import count_reached, count_together
from rulerag.mining.amie_index import Ints, Longs
from rulerag.mining.amie_three_support import count_sides
from rulerag.mining.amie_unary import UnaryAtoms, expand
from rulerag.mining.memory import check_join_memory

if TYPE_CHECKING:
    from rulerag.mining.amie_index import ByEntity, ByRelation, DirectedIndex

__all__ = ["ConstantGraph", "ConstantScratch", "ConstantShape", "binary_bodies", "unary_bodies"]

Bools = npt.NDArray[np.bool_]


class ConstantShape(IntEnum):
    """The bodies with constants. ``A`` and ``B`` are unary atoms, ``d`` directed relations.

    The first four stand under a head with a constant, ``H(v)``, the others under ``r(x, y)``.
    """

    ONE = 0
    """``A(v)``"""
    TWO = 1
    """``A(v), B(v)`` with ``A < B``"""
    STEP = 2
    """``d(v, z), B(z)``"""
    SIDES = 3
    """``d1(v, z), d2(v, z)`` with ``d1 < d2``"""
    NEAR = 4
    """``d(x, y), A(x)``"""
    FAR = 5
    """``d(x, y), A(y)``"""
    ENDS = 6
    """``A(x), B(y)``"""


class ConstantScratch(threading.local):
    """Arrays over groups and entities for each thread, made once.

    Args:
        groups: G.
        entities: N.
    """

    def __init__(self, groups: int, entities: int) -> None:
        self._arguments = groups, entities
        self.counts: Longs = np.zeros(groups, np.int64)
        self.last: Ints = np.zeros(groups, np.int32)
        self.first: Ints = np.zeros(groups, np.int32)
        self.place: Ints = np.full(entities, -1, np.int32)
        self.seen: Longs = np.zeros(entities + 1, np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return ConstantScratch, self._arguments


@dataclass(frozen=True)
class ConstantGraph:
    """A graph as the joins of rules with constants need it.

    Args:
        directed: D.
        unary: the unary atoms.
        by_relation: groups by directed relation.
        by_entity: pairs by entity.
        pair_code: int64 array of shape (P,), ``source * N + target`` of each pair, ascending.
        kind_bounds: int64 array of shape (N + 1,), the kinds of each entity.
        kinds: int32 array, the distinct directed relations that start at an entity.
        scratch: arrays for each thread.
        max_memory_gb: refuse joins that would need more.
    """

    directed: int
    unary: UnaryAtoms
    by_relation: ByRelation
    by_entity: ByEntity
    pair_code: Longs
    kind_bounds: Longs
    kinds: Ints
    scratch: ConstantScratch
    max_memory_gb: float | None

    @classmethod
    def of(cls, index: DirectedIndex, max_memory_gb: float | None) -> ConstantGraph:
        """The columns of a graph."""
        entities = np.arange(index.num_entities)
        sources = np.repeat(entities, np.diff(index.entity_bounds))
        return cls(
            2 * index.num_relations,
            UnaryAtoms.of(index),
            index.by_relation(),
            index.by_entity(),
            sources * index.num_entities + index.pair_target,
            *index.kinds_by_entity(),
            ConstantScratch(len(index.group_source), index.num_entities),
            max_memory_gb,
        )

    def together(
        self, left: Longs, place: Longs, right: tuple[Longs, Longs], least: int, mode: int
    ) -> Longs:
        """:func:`count_together` of rows in any order, refused where the memory is too small."""
        bounds, values = right
        visits = int((bounds[place + 1] - bounds[place]).sum())
        check_join_memory(len(left), visits // max(least, 1), self.max_memory_gb)
        order = np.argsort(left, kind="stable")
        return count_together(
            left[order], place[order], bounds, values, least, mode, self.scratch.counts
        )


def unary_bodies(
    graph: ConstantGraph, head: int, across: int, least: int, longest: int
) -> dict[ConstantShape, Longs]:
    """Bodies of a head with a constant: int64 arrays of shape (m, 3), first, second, support.

    Args:
        graph: the graph.
        head: the head, a unary atom.
        across: its directed relation from v.
        least: least support.
        longest: atoms of a rule, 2 or 3.
    """
    unary = graph.unary
    entities = unary.entities(head)
    position, atom = unary.around(entities)
    atoms, support = np.unique(atom, return_counts=True)
    # An atom that fits one entity only says nothing of the others.
    keep = (support >= max(least, 2)) & (atoms != head)
    atoms, support = atoms[keep], support[keep]
    found = {ConstantShape.ONE: np.stack([atoms, np.full_like(atoms, -1), support], axis=1)}
    if longest < 3:
        return found
    kept = np.isin(atom, atoms)
    position, atom = position[kept], atom[kept]
    by_position = _bounds(position, len(entities)), atom
    found[ConstantShape.TWO] = graph.together(atom, position, by_position, max(least, 2), 1)
    found[ConstantShape.STEP] = _steps(graph, head, across, entities, least)
    sides = count_sides(entities, graph.directed, *graph.by_entity)
    one, two = np.nonzero(sides >= least)
    found[ConstantShape.SIDES] = np.stack([one, two, sides[one, two]], axis=1)
    return found


def _steps(graph: ConstantGraph, head: int, across: int, entities: Ints, least: int) -> Longs:
    first = graph.kind_bounds[entities]
    _, rows = expand(first, graph.kind_bounds[entities + 1] - first)
    frequent = np.bincount(graph.kinds[rows], minlength=graph.directed) >= least
    # d(v, z) under d(v, C) would need z != C.
    frequent[across] = False
    steps = np.flatnonzero(frequent)
    scratch, unary = graph.scratch, graph.unary
    _check_steps(graph, entities, least)
    found = count_reached(
        steps,
        entities,
        least,
        *graph.by_relation,
        unary.bounds,
        unary.atom,
        scratch.counts,
        scratch.last,
        scratch.first,
    )
    step, atom = found[:, 0], found[:, 1]
    keep = (unary.name(atom) != step % (graph.directed // 2)) & (atom != head)
    return np.asarray(found[keep])


def _check_steps(graph: ConstantGraph, entities: Ints, least: int) -> None:
    """Every count comes from visits, so there are no more bodies than visits over the least."""
    bounds, target, starts, _ = graph.by_entity
    _, pairs = expand(bounds[entities], bounds[entities + 1] - bounds[entities])
    unary = graph.unary
    around = unary.bounds[target[pairs] + 1] - unary.bounds[target[pairs]]
    visits = int((around * (starts[pairs + 1] - starts[pairs])).sum())
    check_join_memory(len(pairs), visits // max(least, 1), graph.max_memory_gb)


def binary_bodies(
    graph: ConstantGraph, head: int, ends: tuple[Ints, Ints], direct: Longs, least: int
) -> dict[ConstantShape, Longs]:
    """Bodies of a head without constants: int64 arrays of shape (m, 3), first, second, support.

    Args:
        graph: the graph.
        head: the head relation.
        ends: subjects and objects of its facts.
        direct: directed relations, its one-atom bodies with enough support.
        least: least support.
    """
    near, far = (_End.of(graph.unary, head, end, least) for end in ends)
    wanted = np.zeros(graph.directed, dtype=np.bool_)
    wanted[direct] = True
    _, _, starts, relation = graph.by_entity
    entities = len(graph.kind_bounds) - 1
    pair = np.searchsorted(graph.pair_code, ends[0].astype(np.int64) * entities + ends[1])
    fact, rows = expand(starts[pair], starts[pair + 1] - starts[pair])
    kept = wanted[relation[rows]]
    fact, across = fact[kept], relation[rows[kept]].astype(np.int64)
    width = near.bounds[near.place + 1] - near.bounds[near.place]
    other, place = expand(near.bounds[near.place], width)
    return {
        ConstantShape.NEAR: graph.together(across, near.place[fact], near.values, least, 0),
        ConstantShape.FAR: graph.together(across, far.place[fact], far.values, least, 0),
        # Two facts at least: of a single one, one of the atoms fits one entity only.
        ConstantShape.ENDS: graph.together(
            near.atom[place], far.place[other], far.values, max(least, 2), 2
        ),
    }


@dataclass(frozen=True)
class _End:
    """The unary atoms at one end of a head's facts that have the support.

    Args:
        place: int64 array of shape (facts,), the entity's place among the distinct ones.
        bounds: int64 array, the atoms of each place.
        atom: int64 array, atoms, distinct within a place.
    """

    place: Longs
    bounds: Longs
    atom: Longs

    @classmethod
    def of(cls, unary: UnaryAtoms, head: int, end: Ints, least: int) -> _End:
        distinct, place, facts = np.unique(end, return_inverse=True, return_counts=True)
        position, atom = unary.around(distinct)
        atoms, which, fitting = np.unique(atom, return_inverse=True, return_counts=True)
        support = np.bincount(which, facts[position], len(atoms))
        keep = (support >= least) & (fitting >= 2) & (unary.name(atoms) != head)
        kept = keep[which]
        return cls(place, _bounds(position[kept], len(distinct)), atom[kept])

    @property
    def values(self) -> tuple[Longs, Longs]:
        return self.bounds, self.atom


def _bounds(ascending: Longs, count: int) -> Longs:
    return np.concatenate([[0], np.cumsum(np.bincount(ascending, minlength=count))])
