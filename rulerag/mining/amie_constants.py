"""Rules with constants, as AMIE mines them with its option ``-const``: at most three atoms.

An atom with a constant may stand in a body, and in a head in place of the end that is not
functional. A head ``r(v, C)`` needs as many facts as a head relation does; its head coverage is
its support over *all* facts of ``r``. As in AMIE, an atom with a constant must fit two entities,
and no atom with a constant is added that an atom of the same relation in the rule covers
(Galárraga et al. 2015, AMIE+, doi:10.1007/s00778-015-0394-1, section 5, and AMIE 3's source).
Rules to which AMIE adds an inequality, ``r(v, z), z != C`` under a head ``r(v, C)``, have no form
here and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.amie_constant_kernels import (
    common_sizes,
    hanging_sizes,
    reached_sizes,
    side_sizes,
)
from rulerag.mining.amie_constant_support import (
    ConstantGraph,
    ConstantShape,
    binary_bodies,
    unary_bodies,
)
from rulerag.mining.amie_index import Ints, Longs
from rulerag.mining.amie_joins import heads_by_size

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex
    from rulerag.mining.amie_unary import UnaryAtoms
    from rulerag.mining.amie_work import Arrays, Work

__all__ = ["ConstantRules", "mine_constants"]

Bools = npt.NDArray[np.bool_]
_NO_LIMIT = 2**62


@dataclass(frozen=True)
class ConstantRules:
    """Rules with constants as columns of equal length, all int64; row i is one rule.

    Args:
        head: relation ids.
        head_atom: the head as a unary atom; -1 where it has no constant.
        shape: values of :class:`~rulerag.mining.amie_constant_support.ConstantShape`.
        first: directed relation or unary atom, as the shape says.
        second: the same of the second body atom; -1 where there is none.
        support: facts of the head that the body predicts.
        pca_body_size: bindings of the head's variables whose functional one starts a fact of it.
        body_size: bindings of the head's variables in the body.
    """

    head: Longs
    head_atom: Longs
    shape: Longs
    first: Longs
    second: Longs
    support: Longs
    pca_body_size: Longs
    body_size: Longs

    def __len__(self) -> int:
        return len(self.head)

    def rows(self, rows: npt.NDArray[np.generic]) -> ConstantRules:
        """Some rows, by an index array or a Boolean mask."""
        return ConstantRules(*(column[rows] for column in self.columns()))

    def columns(self) -> tuple[Longs, ...]:
        """The columns in the order of the fields."""
        return (
            self.head,
            self.head_atom,
            self.shape,
            self.first,
            self.second,
            self.support,
            self.pca_body_size,
            self.body_size,
        )

    @property
    def pca_confidence(self) -> npt.NDArray[np.float64]:
        """float64 array of shape (n,)."""
        return self.support / np.maximum(self.pca_body_size, 1)


def mine_constants(
    index: DirectedIndex,
    on_object: Bools,
    work: Work,
    atoms: Candidates,
    min_support: Longs,
    *,
    max_atoms: int,
    min_head_size: int,
    min_pca_confidence: float,
    max_memory_gb: float | None,
) -> tuple[ConstantRules, UnaryAtoms]:
    """Every rule with a constant that has the support and the PCA confidence.

    Args:
        index: the graph.
        on_object: bool array of shape (R,), whether a head's functional end is its object.
        work: where the joins run.
        atoms: the one-atom candidates without constants.
        min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        max_atoms: atoms of a rule, 2 or 3.
        min_head_size: least facts of a head with a constant.
        min_pca_confidence: least PCA confidence; counting stops once it is out of reach.
        max_memory_gb: refuse joins that would need more.
    """
    graph = ConstantGraph.of(index, max_memory_gb)
    single = atoms.rows(atoms.shape == Shape.ATOM)
    task = _MineHead(
        graph,
        on_object,
        min_support,
        index.relation_bounds,
        index.source,
        {head: single.first[single.head == head] for head in np.unique(single.head).tolist()},
        min(max_atoms, 3),
        max(min_head_size, 2),
        min_pca_confidence,
    )
    heads = heads_by_size(index, min_support)
    found = work.map("mining rules with constants", "constants", task, heads)
    rows = [bodies.reshape(-1, 5) for bodies, _ in found]
    sizes = [counts.reshape(-1, 3) for _, counts in found]
    none = np.zeros((0, 8), dtype=np.int64)
    table = np.concatenate([none, *(np.hstack(pair) for pair in zip(rows, sizes, strict=True))])
    return ConstantRules(*np.ascontiguousarray(table.T)), graph.unary


@dataclass(frozen=True)
class _MineHead:
    """All rules with constants of one head relation."""

    graph: ConstantGraph
    on_object: Bools
    min_support: Longs
    relation_bounds: Longs
    source: Ints
    direct: dict[int, Longs]
    longest: int
    min_head_size: int
    min_pca: float

    def __call__(self, head: int) -> Arrays:
        graph = self.graph
        relations = graph.directed // 2
        flip = bool(self.on_object[head])
        # Directed relations of the head: from the functional end, and from the constant.
        across, back = (head + relations, head) if flip else (head, head + relations)
        group_bounds, group_source, _, target = graph.by_relation
        domain = np.zeros(len(graph.kind_bounds) - 1, dtype=np.bool_)
        domain[group_source[group_bounds[across] : group_bounds[across + 1]]] = True
        least = int(self.min_support[head])
        parts = []
        groups = np.arange(group_bounds[back], group_bounds[back + 1])
        for atom in groups[graph.unary.size(groups) >= self.min_head_size].tolist():
            for shape, found in unary_bodies(graph, atom, across, least, self.longest).items():
                parts.append(self._sized(head, atom, shape, found, domain, flip))
        if self.longest > 2:
            rows = slice(self.relation_bounds[head], self.relation_bounds[head + 1])
            ends = self.source[rows], target[rows]
            direct = self.direct.get(head, np.zeros(0, dtype=np.int64))
            for shape, found in binary_bodies(graph, head, ends, direct, least).items():
                parts.append(self._sized(head, -1, shape, found, domain, flip))
        table = np.concatenate([np.zeros((0, 8), dtype=np.int64), *parts])
        return table[:, :5], table[:, 5:]

    def _sized(
        self, head: int, atom: int, shape: ConstantShape, found: Longs, domain: Bools, flip: bool
    ) -> Longs:
        """Rows of a table with the columns of :class:`ConstantRules`, those with confidence."""
        first, second, support = (np.ascontiguousarray(found[:, c]) for c in range(3))
        most = np.full(len(found), _NO_LIMIT)
        if self.min_pca > 0:
            most = (support / self.min_pca).astype(np.int64) + 1
        sizes = self._sizes(shape, first, second, most, domain, flip)
        keep = support / np.maximum(sizes[:, 0], 1) >= self.min_pca
        ids = np.tile(np.array([head, atom, int(shape)], dtype=np.int64), (len(found), 1))
        table = np.concatenate([ids, np.stack([first, second, support], axis=1), sizes], axis=1)
        return table[keep]

    def _sizes(
        self,
        shape: ConstantShape,
        first: Longs,
        second: Longs,
        most: Longs,
        domain: Bools,
        flip: bool,
    ) -> Longs:
        """PCA and standard size of each body; a PCA size above ``most`` may be cut short."""
        graph = self.graph
        starts, entity = graph.unary.starts, graph.unary.entity
        if shape == ConstantShape.ONE:
            return common_sizes(first, first, most, domain, starts, entity)
        if shape == ConstantShape.TWO:
            return common_sizes(first, second, most, domain, starts, entity)
        if shape == ConstantShape.SIDES:
            return side_sizes(first, second, domain, *graph.by_relation)
        if shape == ConstantShape.STEP:
            back = self._inverse(first)
            order = np.argsort(back, kind="stable")
            sizes = np.empty((len(order), 2), dtype=np.int64)
            scratch = graph.scratch.place, graph.scratch.seen
            sizes[order] = reached_sizes(
                back[order], second[order], most[order], domain, *graph.by_relation, *scratch
            )
            return sizes
        if shape == ConstantShape.NEAR:
            return hanging_sizes(first, second, most, domain, not flip, *graph.by_relation)
        if shape == ConstantShape.FAR:
            across = self._inverse(first)
            return hanging_sizes(across, second, most, domain, flip, *graph.by_relation)
        inside, other = (second, first) if flip else (first, second)
        known = common_sizes(inside, inside, np.full_like(most, _NO_LIMIT), domain, starts, entity)
        return known * graph.unary.size(other)[:, None]

    def _inverse(self, directed: Longs) -> Longs:
        return (directed + self.graph.directed // 2) % self.graph.directed
