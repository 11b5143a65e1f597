"""Compiled sizes of two-atom bodies; the arrays are described in ``amie_index``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_support import seek
from rulerag.mining.jit import compiled

__all__ = ["equal_groups", "parallel_sizes", "path_sizes"]

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@compiled
def equal_groups(group_bounds: Longs, group_starts: Longs, target: Ints) -> Longs:
    """Find the groups of each directed relation that have the same targets.

    Returns:
        int64 array of shape (G,): for each group the first one of its relation with equal targets.
    """
    first = np.empty(group_starts.shape[0] - 1, np.int64)
    for d in range(group_bounds.shape[0] - 1):
        size = 16
        while size < 2 * (group_bounds[d + 1] - group_bounds[d]):
            size *= 2
        table = np.full(size, -1, np.int64)
        for g in range(group_bounds[d], group_bounds[d + 1]):
            start = group_starts[g]
            length = group_starts[g + 1] - start
            code = length
            for i in range(start, start + length):
                code = (code ^ target[i]) * 0x9E3779B97F4A7C1
                code ^= code >> 29
            slot = code & (size - 1)
            while table[slot] >= 0:
                other = group_starts[table[slot]]
                i = 0
                if group_starts[table[slot] + 1] - other == length:
                    while i < length and target[start + i] == target[other + i]:
                        i += 1
                if i == length:
                    break
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = g
            first[g] = table[slot]
    return first


@compiled
def _reach(
    group: int, group_starts: Longs, target: Ints, place: Ints, seen: Longs, stamp: int
) -> int:
    """How many entities the second relation reaches from the targets of ``group``.

    ``place`` gives the second relation's group of an entity, or -1; ``seen`` marks with ``stamp``.
    """
    only = -1
    several = False
    for i in range(group_starts[group], group_starts[group + 1]):
        if place[target[i]] >= 0:
            several = only >= 0
            if several:
                break
            only = place[target[i]]
    if only < 0:
        return 0
    if not several:
        return int(group_starts[only + 1] - group_starts[only])
    size = 0
    for i in range(group_starts[group], group_starts[group + 1]):
        g = place[target[i]]
        if g >= 0:
            for k in range(group_starts[g], group_starts[g + 1]):
                if seen[target[k]] != stamp:
                    seen[target[k]] = stamp
                    size += 1
    return size


@compiled
def path_sizes(
    second: int,
    firsts: Longs,
    task_bounds: Longs,
    heads: Longs,
    supports: Longs,
    min_confidence: float,
    with_standard: bool,
    group_bounds: Longs,
    group_source: Ints,
    group_starts: Longs,
    target: Ints,
    same_as: Longs,
    multiplicity: Longs,
    place: Ints,
    seen: Longs,
) -> tuple[Longs, Longs]:
    """Body sizes of the paths ``d1(v, z), second(z, w)`` for the given ``d1``.

    Task t of path p (``task_bounds[p] <= t < task_bounds[p + 1]``) asks for the PCA body size
    under ``heads[t]``: the distinct (v, w) whose v starts a fact of that head. Counting stops
    once the confidence is certain to stay below ``min_confidence``.

    Args:
        second: the directed relation that all paths end with.
        firsts: int64 array of shape (p,), the directed relations that they start with.
        task_bounds: int64 array of shape (p + 1,).
        heads: int64 array of shape (t,), directed heads.
        supports: int64 array of shape (t,).
        min_confidence: least PCA confidence.
        with_standard: whether to count standard body sizes.
        group_bounds: groups of each directed relation.
        group_source: entity of each group.
        group_starts: facts of each group.
        target: targets of the facts.
        same_as: see :func:`equal_groups`.
        multiplicity: int64 array of shape (G,), how many groups are ``same_as`` it.
        place: int32 scratch of shape (N,), all -1 before and after.
        seen: int64 scratch of shape (N + 1,), only ever given to this function; starts with 0.

    Returns:
        PCA body sizes by task, and standard body sizes by path (0 where no task was kept).
    """
    pca = np.zeros(heads.shape[0], np.int64)
    standard = np.zeros(firsts.shape[0], np.int64)
    for g in range(group_bounds[second], group_bounds[second + 1]):
        place[group_source[g]] = g
    stamp = seen[-1]
    for path in range(firsts.shape[0]):
        low = group_bounds[firsts[path]]
        stop = group_bounds[firsts[path] + 1]
        memo = np.full(stop - low, -1, np.int64)
        kept = False
        for task in range(task_bounds[path], task_bounds[path + 1]):
            i = low
            j = group_bounds[heads[task]]
            end = group_bounds[heads[task] + 1]
            size = 0
            while i < stop and j < end:
                if group_source[i] < group_source[j]:
                    i = seek(group_source, i, stop, group_source[j])
                elif group_source[j] < group_source[i]:
                    j = seek(group_source, j, end, group_source[i])
                else:
                    own = same_as[i]
                    if memo[own - low] < 0:
                        stamp += 1
                        memo[own - low] = _reach(own, group_starts, target, place, seen, stamp)
                    size += memo[own - low]
                    if size > 0 and supports[task] / size < min_confidence:
                        break
                    i += 1
                    j += 1
            pca[task] = size
            kept = kept or supports[task] / size >= min_confidence
        if kept and with_standard:
            for g in range(low, stop):
                if same_as[g] == g:
                    if memo[g - low] < 0:
                        stamp += 1
                        memo[g - low] = _reach(g, group_starts, target, place, seen, stamp)
                    standard[path] += memo[g - low] * multiplicity[g]
    seen[-1] = stamp
    for g in range(group_bounds[second], group_bounds[second + 1]):
        place[group_source[g]] = -1
    return pca, standard


@compiled
def _common(values: Ints, i: int, i_end: int, j: int, j_end: int) -> int:
    """How many values the sorted ``values[i:i_end]`` and ``values[j:j_end]`` share."""
    size = 0
    while i < i_end and j < j_end:
        if values[i] < values[j]:
            i = seek(values, i, i_end, values[j])
        elif values[j] < values[i]:
            j = seek(values, j, j_end, values[i])
        else:
            size += 1
            i += 1
            j += 1
    return size


@compiled
def parallel_sizes(
    first: int,
    seconds: Longs,
    task_bounds: Longs,
    heads: Longs,
    group_bounds: Longs,
    group_source: Ints,
    group_starts: Longs,
    target: Ints,
) -> tuple[Longs, Longs]:
    """Body sizes of ``first(v, w), d2(v, w)`` for the given d2; tasks as in :func:`path_sizes`.

    Returns:
        PCA body sizes by task and standard body sizes by body.
    """
    pca = np.zeros(heads.shape[0], np.int64)
    standard = np.zeros(seconds.shape[0], np.int64)
    i_end = group_bounds[first + 1]
    sources = np.empty(i_end - group_bounds[first], np.int32)
    sizes = np.empty(sources.shape[0], np.int64)
    for body in range(seconds.shape[0]):
        i = group_bounds[first]
        j = group_bounds[seconds[body]]
        j_end = group_bounds[seconds[body] + 1]
        found = 0
        while i < i_end and j < j_end:
            if group_source[i] < group_source[j]:
                i = seek(group_source, i, i_end, group_source[j])
            elif group_source[j] < group_source[i]:
                j = seek(group_source, j, j_end, group_source[i])
            else:
                sources[found] = group_source[i]
                sizes[found] = _common(
                    target,
                    group_starts[i],
                    group_starts[i + 1],
                    group_starts[j],
                    group_starts[j + 1],
                )
                standard[body] += sizes[found]
                found += 1
                i += 1
                j += 1
        for task in range(task_bounds[body], task_bounds[body + 1]):
            k = 0
            g = group_bounds[heads[task]]
            end = group_bounds[heads[task] + 1]
            while k < found and g < end:
                if sources[k] < group_source[g]:
                    k = seek(sources, k, found, group_source[g])
                elif group_source[g] < sources[k]:
                    g = seek(group_source, g, end, sources[k])
                else:
                    pca[task] += sizes[k]
                    k += 1
                    g += 1
    return pca, standard
