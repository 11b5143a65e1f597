"""Bodies of two atoms: support by intersecting neighbourhoods, sizes by memoised unions.

For each fact (x, y) of a head the neighbours that x and y share give every path that predicts it.
Candidates with enough support are then measured relation by relation; a path's size at v depends
only on *which* entities its first relation reaches from v, so entities with equal reach share one
count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_candidates import Candidates, Shape
from rulerag.mining.amie_index import Ints, Longs
from rulerag.mining.amie_sizes import equal_groups, parallel_sizes, path_sizes
from rulerag.mining.amie_support import count_bodies

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex
    from rulerag.mining.checkpoint import Checkpoint

__all__ = ["TwoAtomJoins"]

Arrays = tuple[Longs, Longs]


class TwoAtomJoins:
    """The joins of one mining run.

    Args:
        index: the graph.
        on_object: bool array of shape (R,), whether a head's functional end is its object.
        min_pca_confidence: candidates certain to stay below it are not counted to the end.
        standard_confidence: whether to count standard body sizes.
        threads: kernels that run at once; the result does not depend on it.
        progress: show a bar for each stage.
        checkpoint: keeps finished relations on disk.
    """

    def __init__(
        self,
        index: DirectedIndex,
        on_object: npt.NDArray[np.bool_],
        *,
        min_pca_confidence: float,
        standard_confidence: bool,
        threads: int,
        progress: bool = False,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._index = index
        self._on_object = on_object
        self._min_pca = min_pca_confidence
        self._standard = standard_confidence
        self._threads = threads
        self._progress = progress
        self._checkpoint = checkpoint
        self._local = threading.local()

    def candidates(self, min_support: Longs) -> Candidates:
        """Every two-atom body with enough support, not sized yet, sorted by head and body.

        Args:
            min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        """
        index = self._index
        columns = (index.entity_bounds, index.pair_target, index.pair_starts, index.pair_relation)
        bounds = index.relation_bounds

        def count(head: int) -> Arrays:
            rows = slice(bounds[head], bounds[head + 1])
            ends = index.source[rows], index.target[rows]
            return count_bodies(head, index.num_relations, min_support[head], *ends, *columns)

        heads = np.flatnonzero(min_support).tolist()
        # The largest relation first, so that no thread is left alone with it at the end.
        heads.sort(key=lambda head: (bounds[head] - bounds[head + 1], head))
        found = self._map("counting two-atom bodies", "count", count, heads)
        head = np.repeat(np.asarray(heads, np.int64), [len(keys) for keys, _ in found])
        keys, support = _join(found)
        order = np.lexsort((keys, head))
        directed = 2 * index.num_relations
        parallel, body = np.divmod(keys[order], directed * directed)
        shape = np.where(parallel > 0, Shape.PARALLEL, Shape.PATH).astype(np.int64)
        return Candidates.unsized(head[order], shape, *np.divmod(body, directed), support[order])

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
        tasks = _Tasks(second, first, head[path], rules.support[path])
        pca[path], body[path] = self._measure("measuring paths", "path", self._size_paths, tasks)

        parallel = np.flatnonzero(rules.shape == Shape.PARALLEL)
        first = np.where(flip, back_first, rules.first)[parallel]
        second = np.where(flip, back_second, rules.second)[parallel]
        tasks = _Tasks(first, second, head[parallel], rules.support[parallel])
        pca[parallel], body[parallel] = self._measure(
            "measuring parallel bodies", "parallel", self._size_parallels, tasks
        )
        return rules.sized(pca, body)

    def _size_paths(self, second: int, tasks: _Tasks) -> Arrays:
        index = self._index
        return path_sizes(
            second,
            *tasks.bodies(),
            tasks.head,
            tasks.support,
            self._min_pca,
            self._standard,
            index.group_bounds,
            index.group_source,
            index.group_starts,
            index.target,
            *self._equal_groups,
            *self._scratch(),
        )

    def _size_parallels(self, first: int, tasks: _Tasks) -> Arrays:
        index = self._index
        return parallel_sizes(
            first,
            *tasks.bodies(),
            tasks.head,
            index.group_bounds,
            index.group_source,
            index.group_starts,
            index.target,
        )

    def _scratch(self) -> tuple[Ints, Longs]:
        """Two arrays over entities for this thread, made once: clearing them would cost more."""
        if not hasattr(self._local, "arrays"):
            entities = self._index.num_entities
            self._local.arrays = np.full(entities, -1, np.int32), np.zeros(entities + 1, np.int64)
        return self._local.arrays  # type: ignore[no-any-return]

    @cached_property
    def _equal_groups(self) -> tuple[Longs, Longs]:
        """For each group the first one with equal targets, and how many groups equal it."""
        index = self._index
        same_as = equal_groups(index.group_bounds, index.group_starts, index.target)
        return same_as, np.bincount(same_as, minlength=len(same_as))

    def _measure(
        self, label: str, stage: str, kernel: Callable[[int, _Tasks], Arrays], tasks: _Tasks
    ) -> Arrays:
        """Run a kernel once for each directed relation that ``tasks`` names as its key."""
        order = np.lexsort((tasks.head, tasks.other, tasks.key))
        ordered = tasks.rows(order)
        units, starts = np.unique(ordered.key, return_index=True)
        bounds = np.append(starts, len(order)).tolist()
        slices = {
            unit: ordered.rows(slice(bounds[i], bounds[i + 1]))
            for i, unit in enumerate(units.tolist())
        }

        def measure(unit: int) -> Arrays:
            part = slices[unit]
            pca, body = kernel(unit, part)
            return pca, np.repeat(body, np.diff(part.bodies()[1]))

        pca, body = _join(self._map(label, stage, measure, list(slices)))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pca[back], body[back]

    def _map(
        self, label: str, stage: str, function: Callable[[int], Arrays], items: list[int]
    ) -> list[Arrays]:
        """The results in order of the items; on disk, in threads and with a bar as asked for."""
        run = function if self._checkpoint is None else self._checkpoint.wrap(stage, function)
        if self._threads == 1:
            return list(self._bar(map(run, items), label, len(items)))
        pool = ThreadPoolExecutor(self._threads)
        try:
            return list(self._bar(pool.map(run, items), label, len(items)))
        finally:
            # On an error or Ctrl-C the relations that wait are dropped, not run to the end.
            pool.shutdown(cancel_futures=True)

    def _bar(self, results: Iterator[Arrays], label: str, total: int) -> Iterator[Arrays]:
        if not self._progress:
            return results
        from tqdm import tqdm

        return iter(tqdm(results, desc=label, total=total, unit=" relations"))


@dataclass(frozen=True)
class _Tasks:
    """Size questions read from the functional end: one body (key, other) under one head.

    Args:
        key: int64 array of shape (n,), the directed relation that a kernel call is made for.
        other: int64 array of shape (n,), the body's other relation.
        head: int64 array of shape (n,), directed heads.
        support: int64 array of shape (n,).
    """

    key: Longs
    other: Longs
    head: Longs
    support: Longs

    def rows(self, rows: Longs | slice) -> _Tasks:
        return _Tasks(self.key[rows], self.other[rows], self.head[rows], self.support[rows])

    def bodies(self) -> tuple[Longs, Longs]:
        """The distinct others of sorted tasks, and where the tasks of each start and end."""
        others, starts = np.unique(self.other, return_index=True)
        return others, np.append(starts, len(self.other))


def _join(parts: Sequence[Arrays]) -> Arrays:
    none = np.zeros(0, dtype=np.int64)
    first = np.concatenate([none, *(first for first, _ in parts)])
    return first, np.concatenate([none, *(second for _, second in parts)])
