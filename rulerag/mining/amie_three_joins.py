"""Bodies of three atoms: counted where their parts have the support, then measured.

Shapes, keys and marks are those of :class:`~rulerag.mining.amie_candidates.Shape`,
:mod:`~rulerag.mining.amie_three_support` and :mod:`~rulerag.mining.amie_three_sizes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.amie_index import ByEntity, ByRelation, Ints, Longs
from rulerag.mining.amie_joins import EqualGroups, heads_by_size
from rulerag.mining.amie_tasks import SizeTasks, measure
from rulerag.mining.amie_three_sizes import three_sizes
from rulerag.mining.amie_three_support import count_open_paths, count_sides, count_three
from rulerag.mining.amie_work import Arrays, Counting, Scratch, Work, join
from rulerag.mining.memory import Parts

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex

__all__ = ["ThreeAtomJoins"]

Bools = npt.NDArray[np.bool_]


class ThreeAtomJoins:
    """The joins of one mining run; made after the bodies of one and two atoms are counted.

    Args:
        index: the graph.
        on_object: bool array of shape (R,), whether a head's functional end is its object.
        work: where they run.
        shorter: every body of one and two atoms with enough support.
        min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        counting: what is counted.
    """

    def __init__(
        self,
        index: DirectedIndex,
        on_object: npt.NDArray[np.bool_],
        work: Work,
        shorter: Candidates,
        min_support: Longs,
        counting: Counting,
    ) -> None:
        self._index = index
        self._on_object = on_object
        self._work = work
        self._counting = counting
        self._heads = heads_by_size(index, min_support)
        self._count = _CountThree.of(index, shorter, min_support)

    def parts(self) -> list[Parts]:
        """What bodies could be made of, by head: what the memory of the join depends on."""
        rows = self._work.map("counting parts of bodies", "parts", self._count.parts, self._heads)
        return [Parts.of(bodies, facts) for bodies, facts in rows]

    def candidates(self) -> Candidates:
        """Every three-atom body with enough support, not sized yet, sorted by head and body."""
        found = self._work.map(
            "counting three-atom bodies", "count-three", self._count, self._heads
        )
        head = np.repeat(np.asarray(self._heads, np.int64), [len(keys) for keys, _ in found])
        keys, support = join(found)
        order = np.lexsort((keys, head))
        directed = 2 * self._index.num_relations
        rest, third = np.divmod(keys[order], directed)
        rest, second = np.divmod(rest, directed)
        shape, first = np.divmod(rest, directed)
        return Candidates.unsized(head[order], shape, first, second, third, support=support[order])

    def sizes(self, rules: Candidates) -> Candidates:
        """The candidates with their body sizes; counts below the PCA threshold are partial."""
        index = self._index
        directed = 2 * index.num_relations
        flip = self._on_object[rules.head]
        head = np.where(flip, rules.head + index.num_relations, rules.head)
        shape, first, second, third = _from_functional_end(index, rules, flip)
        tasks = SizeTasks(shape * directed + third, second * directed + first, head, rules.support)
        kernel = partial(
            _SizeThree,
            directed,
            index.by_relation(),
            self._counting,
            EqualGroups.of(index),
            Scratch(index.num_entities, 2),
        )
        sizes = measure(self._work, "measuring three-atom bodies", "three", kernel, tasks)
        return rules.sized(*sizes)


def _from_functional_end(
    index: DirectedIndex, rules: Candidates, flip: Bools
) -> tuple[Longs, Longs, Longs, Longs]:
    """Shape and relations of each body, read from ``?y`` to ``?x`` where ``flip`` says so."""
    columns = np.stack([rules.shape, rules.first, rules.second, rules.third])
    shape, _, second, third = columns
    one, two, three = (index.inverse(column) for column in columns[1:])
    # A side hangs on ?x or ?y whichever way the body is read: its relations stay as they are.
    flipped = {
        Shape.CHAIN: (Shape.CHAIN, three, two, one),
        Shape.TRIANGLE: (Shape.TRIANGLE, one, three, two),
        Shape.NEAR_SIDE: (Shape.FAR_SIDE, one, second, third),
        Shape.FAR_SIDE: (Shape.NEAR_SIDE, one, second, third),
        Shape.NEAR_PAIR: (Shape.FAR_PAIR, three, one, two),
        Shape.FAR_PAIR: (Shape.NEAR_PAIR, two, three, one),
        Shape.TRIPLE: (Shape.TRIPLE, one, two, three),
    }
    result = columns.copy()
    for kind, (other, *relations) in flipped.items():
        rows = np.flatnonzero(flip & (shape == kind))
        result[0, rows] = other
        for column, relation in enumerate(relations, start=1):
            result[column, rows] = relation[rows]
    return result[0], result[1], result[2], result[3]


@dataclass(frozen=True)
class _CountThree:
    """Three-atom bodies of one head: their keys and supports."""

    directed: int
    min_support: Longs
    bounds: Longs
    source: Ints
    target: Ints
    by_entity: ByEntity
    kind_bounds: Longs
    kinds: Ints
    shorter: Candidates
    shorter_bounds: Longs

    @classmethod
    def of(cls, index: DirectedIndex, shorter: Candidates, min_support: Longs) -> _CountThree:
        ordered = shorter.rows(np.argsort(shorter.head, kind="stable"))
        counts = np.bincount(ordered.head, minlength=index.num_relations)
        return cls(
            2 * index.num_relations,
            min_support,
            index.relation_bounds,
            index.source,
            index.target,
            index.by_entity(),
            *index.kinds_by_entity(),
            ordered,
            np.concatenate([[0], np.cumsum(counts)]),
        )

    def __call__(self, head: int) -> Arrays:
        rows = slice(self.bounds[head], self.bounds[head + 1])
        near, far, near_sides, far_sides = self._ends(head)
        atoms, paths, parallels = self._bodies(head)
        return count_three(
            self.min_support[head],
            self.source[rows],
            self.target[rows],
            near,
            far,
            near_sides,
            far_sides,
            atoms,
            paths,
            parallels,
            *self.by_entity,
        )

    def parts(self, head: int) -> Arrays:
        """How many bodies of each kind the parts allow, and the head's facts."""
        near, _, near_sides, far_sides = ends = self._ends(head)
        far = ends[1]
        atoms, paths, parallels = self._bodies(head)
        through = paths.sum(axis=0).astype(np.int64), paths.sum(axis=1).astype(np.int64)
        num_atoms = int(atoms.sum())
        bodies = [
            int(near.sum(axis=0).astype(np.int64) @ far.sum(axis=1)),
            num_atoms * int(paths.sum()),
            num_atoms * int(near_sides.sum()),
            num_atoms * int(far_sides.sum()),
            int((through[0] * (through[0] - 1) // 2).sum()),
            int((through[1] * (through[1] - 1) // 2).sum()),
            int(parallels.sum()) * num_atoms // 3,
        ]
        facts = self.bounds[head + 1] - self.bounds[head]
        return np.array(bodies, np.int64), np.array([facts, self.min_support[head]], np.int64)

    def _ends(self, head: int) -> tuple[Bools, Bools, Bools, Bools]:
        """Open paths and sides with enough support, at ``?x`` and at ``?y``."""
        least = self.min_support[head]
        relations = self.directed // 2

        def frequent(directed_head: int) -> tuple[Bools, Bools]:
            starts = self.source[self.bounds[directed_head] : self.bounds[directed_head + 1]]
            kinds = self.kind_bounds, self.kinds
            paths = count_open_paths(starts, self.directed, *kinds, *self.by_entity)
            return paths >= least, count_sides(starts, self.directed, *self.by_entity) >= least

        near, near_sides = frequent(head)
        backward, far_sides = frequent(head + relations)
        # What is e1, e2 seen from ?y is (inverse of e2), (inverse of e1) on the way to it.
        inverse = np.roll(np.arange(self.directed), relations)
        far = np.ascontiguousarray(backward[inverse][:, inverse].T)
        return near, far, near_sides, far_sides

    def _bodies(self, head: int) -> tuple[Bools, Bools, Bools]:
        """One-atom, path and parallel bodies with enough support."""
        rules = self.shorter.rows(
            np.arange(self.shorter_bounds[head], self.shorter_bounds[head + 1])
        )
        atoms = np.zeros(self.directed, np.bool_)
        paths, parallels = np.zeros((2, self.directed, self.directed), np.bool_)
        atoms[rules.first[rules.shape == Shape.ATOM]] = True
        path, parallel = rules.shape == Shape.PATH, rules.shape == Shape.PARALLEL
        paths[rules.first[path], rules.second[path]] = True
        parallels[rules.first[parallel], rules.second[parallel]] = True
        return atoms, paths, parallels


@dataclass(frozen=True)
class _SizeThree:
    """Sizes of the three-atom bodies of one shape with one third relation."""

    directed: int
    by_relation: ByRelation
    counting: Counting
    equal: EqualGroups
    scratch: Scratch
    tasks: dict[int, SizeTasks]

    def __call__(self, unit: int) -> Arrays:
        tasks = self.tasks[unit]
        return three_sizes(
            unit // self.directed,
            unit % self.directed,
            *tasks.bodies(),
            tasks.head,
            tasks.support,
            self.counting.min_pca_confidence,
            self.counting.standard,
            *self.by_relation,
            self.equal.same_as,
            self.equal.multiplicity,
            self.scratch.place[0],
            self.scratch.place[1],
            self.scratch.seen,
        )
