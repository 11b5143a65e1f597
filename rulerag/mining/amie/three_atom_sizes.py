"""Compiled sizes of three-atom bodies, over the columns of a :class:`StaticIndex`."""

from __future__ import annotations

import numpy as np

from rulerag.arrays import Ints, Longs
from rulerag.mining.amie.candidates import Shape
from rulerag.mining.amie.kernels import next_equal, seek, turned
from rulerag.mining.amie.three_atom_kernels import Outgoing, group_of
from rulerag.mining.indexes import StaticIndex
from rulerag.mining.runtime import compiled, doubled, int64


@compiled
def _share(index: StaticIndex, one: int, two: int) -> bool:
    """Whether two groups have a target in common."""
    if one < 0 or two < 0:
        return False
    starts = index.group_starts
    i, j = next_equal(
        index.target, starts[one], starts[one + 1], index.target, starts[two], starts[two + 1]
    )
    return bool(i < starts[one + 1] and j < starts[two + 1])


@compiled
def _marked(index: StaticIndex, group: int, seen: Longs) -> int:
    """How many targets of a group are new; they are no more."""
    size = 0
    for k in range(index.group_starts[group], index.group_starts[group + 1]):
        if seen[index.target[k]] != seen[-1]:
            seen[index.target[k]] = seen[-1]
            size += 1
    return size


@compiled
def _ends(
    index: StaticIndex, out: Outgoing, shape: int, body: Longs, lead: int, seen: Longs
) -> int:
    """How many entities a body leads to from one, read from its functional end.

    Args:
        index: the graph.
        out: its groups by entity.
        shape: of the body as it is read.
        body: its three directed relations, as :class:`Shape` names them.
        lead: the entity's group of the relation that is read first.
        seen: int64 array of shape (N + 1,), marks; the last entry is the last mark given.
    """
    starts, target = index.group_starts, index.target
    one, two, three = body[0], body[1], body[2]
    v = index.group_source[lead]
    size = 0
    if shape == Shape.TRIANGLE:
        first = group_of(out, v, one)
        back = turned(two, index.num_relations)
        for k in range(starts[lead], starts[lead + 1]):
            size += _share(index, first, group_of(out, target[k], back))
    elif shape == Shape.TWIN_SUBJECT:
        if _share(index, group_of(out, v, one), group_of(out, v, two)):
            size = starts[lead + 1] - starts[lead]
    elif shape == Shape.TWIN_OBJECT:
        for k in range(starts[lead], starts[lead + 1]):
            size += _share(index, group_of(out, target[k], one), group_of(out, target[k], two))
    elif shape == Shape.TRIPLE:
        a, b = group_of(out, v, two), group_of(out, v, three)
        if a >= 0 and b >= 0:
            i, j, k = starts[lead], starts[a], starts[b]
            while True:
                i, j = next_equal(target, i, starts[lead + 1], target, j, starts[a + 1])
                if i == starts[lead + 1] or j == starts[a + 1]:
                    break
                k = seek(target, k, starts[b + 1], target[i])
                if k == starts[b + 1]:
                    break
                size += target[k] == target[i]
                i, j = i + 1, j + 1
    elif shape == Shape.TWIN_FIRST:
        second = group_of(out, v, two)
        if second >= 0:
            seen[-1] += 1
            i, j = starts[lead], starts[second]
            while True:
                i, j = next_equal(target, i, starts[lead + 1], target, j, starts[second + 1])
                if i == starts[lead + 1] or j == starts[second + 1]:
                    break
                last = group_of(out, target[i], three)
                if last >= 0:
                    size += _marked(index, last, seen)
                i, j = i + 1, j + 1
    else:  # TWIN_LAST
        seen[-1] += 1
        for k in range(starts[lead], starts[lead + 1]):
            a, b = group_of(out, target[k], two), group_of(out, target[k], three)
            if a < 0 or b < 0:
                continue
            i, j = starts[a], starts[b]
            while True:
                i, j = next_equal(target, i, starts[a + 1], target, j, starts[b + 1])
                if i == starts[a + 1] or j == starts[b + 1]:
                    break
                if seen[target[i]] != seen[-1]:
                    seen[target[i]] = seen[-1]
                    size += 1
                i, j = i + 1, j + 1
    return int(size)


@compiled
def short_sizes(
    index: StaticIndex,
    out: Outgoing,
    lead: int,
    shape: Longs,
    body: Longs,
    head: Longs,
    support: Longs,
    least: float,
    least_standard: float,
    seen: Longs,
) -> Longs:
    """Body sizes of three-atom bodies, paths of three left out, as :func:`path_sizes` gives them.

    Args:
        index: the graph.
        out: its groups by entity.
        lead: the directed relation that all are read from first.
        shape: int64 array of shape (t,), as they are read from the functional end.
        body: int64 array of shape (t, 3).
        head: int64 array of shape (t,), directed heads.
        support: int64 array of shape (t,).
        least: PCA confidence; counting stops where one is certain to stay below.
        least_standard: standard confidence, likewise.
        seen: see :func:`_ends`.

    Returns:
        int64 array of shape (2, t): PCA sizes and sizes; 0 for sizes of rules below ``least``.
    """
    bounds, source = index.group_bounds, index.group_source
    sizes = np.zeros((2, shape.shape[0]), np.int64)
    for task in range(shape.shape[0]):
        low, stop = bounds[lead], bounds[lead + 1]
        end = bounds[head[task] + 1]
        size = int64(0)
        i, j = next_equal(source, low, stop, source, bounds[head[task]], end)
        while i < stop and j < end:
            size += _ends(index, out, shape[task], body[task], i, seen)
            if size > 0 and support[task] / size < least:
                break
            i, j = next_equal(source, i + 1, stop, source, j + 1, end)
        sizes[0, task] = size
        if support[task] / size < least:
            continue
        for g in range(low, stop):
            sizes[1, task] += _ends(index, out, shape[task], body[task], g, seen)
            if sizes[1, task] > 0 and support[task] / sizes[1, task] < least_standard:
                break
    return sizes


@compiled
def _reached(
    index: StaticIndex,
    out: Outgoing,
    z: int,
    second: int,
    third: int,
    found: Ints,
    used: int,
    seen: Longs,
) -> tuple[Ints, int]:
    """Write the entities that two relations reach from another one behind those that are there."""
    group = group_of(out, z, second)
    if group < 0:
        return found, used
    seen[-1] += 1
    for k in range(index.group_starts[group], index.group_starts[group + 1]):
        last = group_of(out, index.target[k], third)
        if last < 0:
            continue
        for n in range(index.group_starts[last], index.group_starts[last + 1]):
            if seen[index.target[n]] != seen[-1]:
                seen[index.target[n]] = seen[-1]
                if used == found.shape[0]:
                    found = doubled(found)
                found[used] = index.target[n]
                used += 1
    return found, used


@compiled
def long_sizes(
    index: StaticIndex,
    out: Outgoing,
    second: int,
    third: int,
    first: Longs,
    head: Longs,
    support: Longs,
    least: float,
    least_standard: float,
    same_as: Longs,
    multiplicity: Longs,
    seen: Longs,
) -> Longs:
    """Body sizes of the paths ``first(v, z), second(z, w), third(w, u)``, as :func:`path_sizes`.

    What the last two relations reach from an entity is written down once, and what a path reaches
    is counted once for all groups of its first relation with equal targets.

    Args:
        index: the graph.
        out: its groups by entity.
        second: a directed relation.
        third: a directed relation.
        first: int64 array of shape (t,), directed relations, ascending.
        head: int64 array of shape (t,), directed heads.
        support: int64 array of shape (t,).
        least: PCA confidence; counting stops where one is certain to stay below.
        least_standard: standard confidence, likewise.
        same_as: see :func:`~rulerag.mining.amie.kernels.equal_groups`.
        multiplicity: int64 array of shape (G,), how many groups are ``same_as`` it.
        seen: int64 array of shape (N + 1,), marks; the last entry is the last mark given.

    Returns:
        As :func:`short_sizes`.
    """
    bounds, source = index.group_bounds, index.group_source
    starts, target = index.group_starts, index.target
    sizes = np.zeros((2, first.shape[0]), np.int64)
    begin = np.full(index.num_entities, -1, np.int64)
    end = np.zeros(index.num_entities, np.int64)
    found = np.empty(1024, np.int32)
    used = int64(0)
    memo = np.empty(0, np.int64)
    for task in range(first.shape[0]):
        low, stop = bounds[first[task]], bounds[first[task] + 1]
        if task == 0 or first[task] != first[task - 1]:
            memo = np.full(stop - low, -1, np.int64)
        h_end = bounds[head[task] + 1]
        i, j = next_equal(source, low, stop, source, bounds[head[task]], h_end)
        whole = int64(0)  # 0: groups of the head; 1: all groups
        g = i
        while whole < 2:
            if whole == 0 and (i == stop or j == h_end):
                if support[task] / sizes[0, task] < least:
                    break
                whole, g = 1, low
            if whole == 1 and g == stop:
                break
            own = same_as[g]
            if memo[own - low] < 0:
                reach = int64(0)
                seen_before = int64(0)
                for k in range(starts[own], starts[own + 1]):
                    z = target[k]
                    if begin[z] < 0:
                        begin[z] = used
                        found, used = _reached(index, out, z, second, third, found, used, seen)
                        end[z] = used
                    if end[z] > begin[z]:
                        seen_before += 1
                        reach = end[z] - begin[z]
                if seen_before > 1:
                    seen[-1] += 1
                    reach = int64(0)
                    for k in range(starts[own], starts[own + 1]):
                        for n in range(begin[target[k]], end[target[k]]):
                            if seen[found[n]] != seen[-1]:
                                seen[found[n]] = seen[-1]
                                reach += 1
                memo[own - low] = reach
            if whole == 1:
                if own == g:
                    sizes[1, task] += memo[own - low] * multiplicity[own]
                    if sizes[1, task] > 0 and support[task] / sizes[1, task] < least_standard:
                        break
                g += 1
                continue
            sizes[0, task] += memo[own - low]
            if sizes[0, task] > 0 and support[task] / sizes[0, task] < least:
                break
            i, j = next_equal(source, i + 1, stop, source, j + 1, h_end)
            g = i
    return sizes
