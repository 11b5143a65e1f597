"""Atoms with a constant as sets of entities, as in ``lives(x, Paris) => speaks(x, French)``.

An atom ``d(v, C)`` says something of the one variable v: it is a *unary* atom. The entities it
holds for are the targets of the group of ``inverse(d)`` at C, so a unary atom is a group of
:class:`~rulerag.mining.amie_index.DirectedIndex` and bears its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rulerag.mining.amie_index import Ints, Longs

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex

__all__ = ["UnaryAtoms", "expand"]


@dataclass(frozen=True)
class UnaryAtoms:
    """The unary atoms of a graph that hold for two entities or more.

    Args:
        num_relations: R.
        relation: int32 array of shape (G,), directed relation of each group, from the constant.
        constant: int32 array of shape (G,), the constant of each group.
        starts: int64 array of shape (G + 1,), the entities of each group.
        entity: int32 array of shape (2 F,), entities, ascending within a group.
        bounds: int64 array of shape (N + 1,), the unary atoms of each entity.
        atom: int64 array, groups, ascending within an entity.
    """

    num_relations: int
    relation: Ints
    constant: Ints
    starts: Longs
    entity: Ints
    bounds: Longs
    atom: Longs

    @classmethod
    def of(cls, index: DirectedIndex) -> UnaryAtoms:
        """The unary atoms of a graph."""
        sizes = np.diff(index.group_starts)
        rows = np.flatnonzero(np.repeat(sizes, sizes) >= 2)
        groups = np.repeat(np.arange(len(sizes)), sizes)[rows]
        order = np.argsort(index.target[rows], kind="stable")  # groups stay ascending
        counts = np.bincount(index.target[rows], minlength=index.num_entities)
        return cls(
            index.num_relations,
            index.group_relation,
            index.group_source,
            index.group_starts,
            index.target,
            np.concatenate([[0], np.cumsum(counts)]),
            groups[order],
        )

    def size(self, atoms: Longs) -> Longs:
        """How many entities each unary atom holds for."""
        return self.starts[atoms + 1] - self.starts[atoms]

    def name(self, atoms: Longs) -> Longs:
        """The relation of each unary atom, without direction."""
        return self.relation[atoms].astype(np.int64) % self.num_relations

    def entities(self, atom: int) -> Ints:
        """What a unary atom holds for, ascending."""
        return self.entity[self.starts[atom] : self.starts[atom + 1]]

    def around(self, entities: Ints) -> tuple[Longs, Longs]:
        """The unary atoms of some entities: positions in ``entities``, and atoms."""
        first = self.bounds[entities]
        positions, rows = expand(first, self.bounds[entities + 1] - first)
        return positions, self.atom[rows]


def expand(first: Longs, length: Longs) -> tuple[Longs, Longs]:
    """Every ``i`` with every ``j`` in ``first[i] : first[i] + length[i]``, as two columns."""
    i = np.repeat(np.arange(len(length)), length)
    offset = np.arange(len(i)) - np.repeat(np.cumsum(length) - length, length)
    return i, first[i] + offset
