"""Bodies of two atoms: support by intersecting neighbourhoods, sizes by memoised unions.

For each fact (x, y) of a head the neighbours that x and y share give every path that predicts it.
Candidates with enough support are then measured relation by relation; a path's size at v depends
only on *which* entities its first relation reaches from v, so entities with equal reach share one
count.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rulerag.arrays import Ints, Longs
from rulerag.mining.amie.candidates import CandidateRules, Shape
from rulerag.mining.amie.kernels import count_bodies, equal_groups, parallel_sizes, path_sizes
from rulerag.mining.indexes import StaticIndex, functional_on_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from rulerag.mining.runtime import Arrays, TaskRunner

# Directed first or second relations, directed heads and supports of the bodies with one relation.
Tasks = dict[int, tuple[Longs, ...]]


def two_atom_candidates(
    index: StaticIndex, min_support: Longs, min_pca_confidence: float, runner: TaskRunner
) -> CandidateRules:
    """Every two-atom body with enough support, counted, sorted by head and body.

    Args:
        index: the graph.
        min_support: int64 array of shape (R,), least support by head; 0 leaves a head out.
        min_pca_confidence: bodies that are certain to stay below it are not counted to the end.
        runner: where relations are worked on.
    """
    # The largest relation first, so that no worker is left alone with it at the end.
    heads = np.flatnonzero(min_support)
    heads = heads[np.argsort(-index.head_size[heads], kind="stable")]
    task = partial(_count_bodies, index, min_support)
    found = runner.map("counting two-atom bodies", "count", task, heads.tolist())
    keys, support = (np.concatenate(column) for column in zip(*found, strict=True))
    head = np.repeat(heads, [len(keys) for keys, _ in found])
    order = np.lexsort((keys, head))
    head, support = head[order], support[order]
    directed = 2 * index.num_relations
    parallel, body = np.divmod(keys[order], directed * directed)
    first, second = np.divmod(body, directed)
    shape = np.where(parallel > 0, Shape.PARALLEL, Shape.PATH).astype(np.int64)

    # From here on bodies and heads are read from the head's functional end.
    flip = functional_on_object(index)[head]
    known = np.where(flip, index.inverse(head), head)
    back = index.inverse(first), index.inverse(second)
    sizes = np.zeros((2, len(head)), dtype=np.int64)
    same_as = equal_groups(index.group_bounds, index.group_starts, index.target)
    equal = same_as, np.bincount(same_as, minlength=len(same_as))
    paths = partial(
        _size_paths, index, min_pca_confidence, equal, ThreadBuffers(index.num_entities)
    )
    rows = np.flatnonzero(shape == Shape.PATH)
    one, two = np.where(flip, back[1], first)[rows], np.where(flip, back[0], second)[rows]
    columns = two, one, known[rows], support[rows]
    sizes[:, rows] = measured(runner, "measuring paths", "path", paths, *columns)
    rows = np.flatnonzero(shape == Shape.PARALLEL)
    one, two = np.where(flip, back[0], first)[rows], np.where(flip, back[1], second)[rows]
    columns = one, two, known[rows], support[rows]
    parallels = partial(_size_parallels, index)
    sizes[:, rows] = measured(runner, "measuring parallel bodies", "parallel", parallels, *columns)
    none = np.full_like(head, -1)
    return CandidateRules(head, shape, first, second, none, support, sizes[0], sizes[1])


class ThreadBuffers(threading.local):
    """Arrays over entities for each thread, made once: clearing them would cost more.

    Args:
        entities: N.

    Attributes:
        place: int32 array of shape (N,), all -1 between two tasks.
        seen: int64 array of shape (N + 1,), marks; the last entry is the last mark given.
    """

    def __init__(self, entities: int) -> None:
        self.place: Ints = np.full(entities, -1, np.int32)
        self.seen: Longs = np.zeros(entities + 1, np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        return ThreadBuffers, (len(self.place),)


def measured(
    runner: TaskRunner,
    label: str,
    stage: str,
    kernel: Callable[[Tasks, int], Arrays],
    *columns: Longs,
) -> Longs:
    """PCA and standard sizes of bodies, int64 array of shape (2, n).

    Args:
        runner: where relations are worked on.
        label: the bar's words.
        stage: names the results on disk.
        kernel: called with all tasks and a relation.
        columns: int64 arrays of shape (n,): the relation that a kernel call is made for, and what
            it is called with, in the order of which it gets the bodies.
    """
    order = np.lexsort(columns[::-1])
    relation, *rest = (column[order] for column in columns)
    relations, starts = np.unique(relation, return_index=True)
    parts = zip(*(np.split(column, starts[1:]) for column in rest), strict=True)
    tasks: Tasks = dict(zip(relations.tolist(), parts, strict=False))
    found = runner.map(label, stage, partial(kernel, tasks), list(tasks))
    sizes = np.zeros((2, len(order)), dtype=np.int64)
    if found:
        sizes[:, order] = np.concatenate(found, axis=1)
    return sizes


def _count_bodies(index: StaticIndex, min_support: Longs, head: int) -> Arrays:
    keys, support, _ = count_bodies(index, head)
    enough = (keys >= 0) & (support >= min_support[head])
    return keys[enough], support[enough]


def _size_paths(
    index: StaticIndex,
    min_confidence: float,
    equal: tuple[Longs, Longs],
    buffers: ThreadBuffers,
    tasks: Tasks,
    second: int,
) -> Arrays:
    first, head, support = tasks[second]
    place, seen = buffers.place, buffers.seen
    return path_sizes(index, second, first, head, support, min_confidence, *equal, place, seen)


def _size_parallels(index: StaticIndex, tasks: Tasks, first: int) -> Arrays:
    second, head, _ = tasks[first]
    return parallel_sizes(index, first, second, head)
