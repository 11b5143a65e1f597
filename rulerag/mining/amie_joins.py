"""Bodies of two atoms: support by intersecting neighbourhoods, sizes by memoised unions.

For each fact (x, y) of a head the neighbours that x and y share give every path that predicts it.
Candidates with enough support are then measured relation by relation; a path's size at v depends
only on *which* entities its first relation reaches from v, so entities with equal reach share one
count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.amie_index import ByEntity, ByRelation, Ints, Longs
from rulerag.mining.amie_sizes import equal_groups, parallel_sizes, path_sizes
from rulerag.mining.amie_support import count_bodies
from rulerag.mining.amie_tasks import SizeTasks, measure
from rulerag.mining.amie_work import Arrays, Counting, Scratch, Work, join

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex

__all__ = ["EqualGroups", "TwoAtomJoins", "heads_by_size"]


class TwoAtomJoins:
    """The joins of one mining run.

    Args:
        index: the graph.
        on_object: bool array of shape (R,), whether a head's functional end is its object.
        work: where they run.
        counting: what is counted.
    """

    def __init__(
        self,
        index: DirectedIndex,
        on_object: npt.NDArray[np.bool_],
        work: Work,
        counting: Counting,
    ) -> None:
        self._index = index
        self._on_object = on_object
        self._work = work
        self._counting = counting

    def candidates(self, min_support: Longs) -> Candidates:
        """Every two-atom body with enough support, not sized yet, sorted by head and body.

        Args:
            min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        """
        index = self._index
        heads = heads_by_size(index, min_support)
        count = _CountBodies(
            index.num_relations,
            min_support,
            index.relation_bounds,
            index.source,
            index.target,
            index.by_entity(),
        )
        found = self._work.map("counting two-atom bodies", "count", count, heads)
        head = np.repeat(np.asarray(heads, np.int64), [len(keys) for keys, _ in found])
        keys, support = join(found)
        order = np.lexsort((keys, head))
        directed = 2 * index.num_relations
        parallel, body = np.divmod(keys[order], directed * directed)
        shape = np.where(parallel > 0, Shape.PARALLEL, Shape.PATH).astype(np.int64)
        return Candidates.unsized(
            head[order], shape, *np.divmod(body, directed), support=support[order]
        )

    def sizes(self, rules: Candidates) -> Candidates:
        """The candidates with their body sizes; counts below the PCA threshold are partial."""
        index = self._index
        flip = self._on_object[rules.head]
        head = np.where(flip, rules.head + index.num_relations, rules.head)
        back_first, back_second = index.inverse(rules.first), index.inverse(rules.second)
        pca, body = np.zeros((2, len(rules)), dtype=np.int64)

        path = np.flatnonzero(rules.shape == Shape.PATH)
        first = np.where(flip, back_second, rules.first)[path]
        second = np.where(flip, back_first, rules.second)[path]
        tasks = SizeTasks(second, first, head[path], rules.support[path])
        kernel = partial(
            _SizePaths,
            index.by_relation(),
            self._counting,
            EqualGroups.of(index),
            Scratch(index.num_entities),
        )
        pca[path], body[path] = measure(self._work, "measuring paths", "path", kernel, tasks)

        parallel = np.flatnonzero(rules.shape == Shape.PARALLEL)
        first = np.where(flip, back_first, rules.first)[parallel]
        second = np.where(flip, back_second, rules.second)[parallel]
        tasks = SizeTasks(first, second, head[parallel], rules.support[parallel])
        pca[parallel], body[parallel] = measure(
            self._work,
            "measuring parallel bodies",
            "parallel",
            partial(_SizeParallels, index.by_relation()),
            tasks,
        )
        return rules.sized(pca, body)


def heads_by_size(index: DirectedIndex, min_support: Longs) -> list[int]:
    """The heads to mine, the largest relation first: no worker is left alone with it at the end."""
    size = index.head_size
    heads: list[int] = np.flatnonzero(min_support).tolist()
    return sorted(heads, key=lambda head: (-int(size[head]), head))


@dataclass(frozen=True)
class EqualGroups:
    """Groups with equal targets: what is counted for one is counted for all.

    Args:
        same_as: int64 array of shape (G,), for each group the first one of its relation with equal
            targets.
        multiplicity: int64 array of shape (G,), how many groups are ``same_as`` it.
    """

    same_as: Longs
    multiplicity: Longs

    @classmethod
    def of(cls, index: DirectedIndex) -> EqualGroups:
        """The equal groups of a graph."""
        same_as = equal_groups(index.group_bounds, index.group_starts, index.target)
        return cls(same_as, np.bincount(same_as, minlength=len(same_as)))


@dataclass(frozen=True)
class _CountBodies:
    """Two-atom bodies of one head: their keys and supports."""

    num_relations: int
    min_support: Longs
    bounds: Longs
    source: Ints
    target: Ints
    by_entity: ByEntity

    def __call__(self, head: int) -> Arrays:
        rows = slice(self.bounds[head], self.bounds[head + 1])
        return count_bodies(
            head,
            self.num_relations,
            self.min_support[head],
            self.source[rows],
            self.target[rows],
            *self.by_entity,
        )


@dataclass(frozen=True)
class _SizePaths:
    """Sizes of the paths that end with one directed relation."""

    by_relation: ByRelation
    counting: Counting
    equal: EqualGroups
    scratch: Scratch
    tasks: dict[int, SizeTasks]

    def __call__(self, second: int) -> Arrays:
        tasks = self.tasks[second]
        return path_sizes(
            second,
            *tasks.bodies(),
            tasks.head,
            tasks.support,
            self.counting.min_pca_confidence,
            self.counting.standard,
            *self.by_relation,
            self.equal.same_as,
            self.equal.multiplicity,
            self.scratch.place[0],
            self.scratch.seen,
        )


@dataclass(frozen=True)
class _SizeParallels:
    """Sizes of the parallel bodies that begin with one directed relation."""

    by_relation: ByRelation
    tasks: dict[int, SizeTasks]

    def __call__(self, first: int) -> Arrays:
        tasks = self.tasks[first]
        return parallel_sizes(first, *tasks.bodies(), tasks.head, *self.by_relation)
