"""Compiled sizes of three-atom bodies; the arrays are described in ``amie_index``.

Every body is read from the functional end v of its head: which u does it reach? The shapes are
those of ``Shape`` with v for ``?x`` and u for ``?y``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_support import seek
from rulerag.mining.jit import compiled

__all__ = ["meet", "three_sizes"]

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

# The values of ``Shape``, which compiled code cannot read.
_CHAIN, _TRIANGLE, _NEAR_SIDE, _FAR_SIDE, _NEAR_PAIR, _FAR_PAIR, _TRIPLE = range(3, 10)
_ALL = 2**62


@compiled
def _holds(target: Ints, start: int, stop: int, wanted: int) -> bool:
    """Whether the sorted ``target[start:stop]`` has a value."""
    place = seek(target, start, stop, wanted)
    return bool(place < stop and target[place] == wanted)


@compiled
def meet(one: int, two: int, group_starts: Longs, target: Ints) -> bool:
    """Whether two groups (-1: none) share a target."""
    if one < 0 or two < 0:
        return False
    i = group_starts[one]
    j = group_starts[two]
    while i < group_starts[one + 1] and j < group_starts[two + 1]:
        if target[i] < target[j]:
            i = seek(target, i, group_starts[one + 1], target[j])
        elif target[j] < target[i]:
            j = seek(target, j, group_starts[two + 1], target[i])
        else:
            return True
    return False


@compiled
def _chain(
    group: int, second: Ints, third: Ints, stamp: int, limit: int,
    group_starts: Longs, target: Ints, seen: Longs,
) -> int:  # fmt: skip
    """Distinct u of ``d1(v, z), d2(z, w), d3(w, u)``; marks w with ``stamp``, u one higher."""
    size = 0
    for i in range(group_starts[group], group_starts[group + 1]):
        g = second[target[i]]
        if g < 0:
            continue
        for j in range(group_starts[g], group_starts[g + 1]):
            w = target[j]
            h = third[w]
            # An entity may be both a w and a u, so each kind has a bit of its own.
            if h < 0 or (seen[w] >= stamp and seen[w] & 1):
                continue
            seen[w] = (seen[w] if seen[w] >= stamp else stamp) | 1
            for k in range(group_starts[h], group_starts[h + 1]):
                u = target[k]
                if seen[u] < stamp or not seen[u] & 2:
                    seen[u] = (seen[u] if seen[u] >= stamp else stamp) | 2
                    size += 1
            if size > limit:
                return size
    return size


@compiled
def _triangle(
    group: int, second: int, third: Ints, stamp: int,
    group_starts: Longs, target: Ints, seen: Longs,
) -> int:  # fmt: skip
    """Distinct u of ``d1(v, u), d2(v, z), d3(z, u)``; ``second`` is the group of v."""
    if second < 0:
        return 0
    left = group_starts[group + 1] - group_starts[group]
    size = 0
    for i in range(group_starts[group], group_starts[group + 1]):
        seen[target[i]] = stamp
    for j in range(group_starts[second], group_starts[second + 1]):
        g = third[target[j]]
        if g < 0:
            continue
        for k in range(group_starts[g], group_starts[g + 1]):
            if seen[target[k]] == stamp:
                seen[target[k]] = stamp + 1
                size += 1
        if size == left:
            break
    return size


@compiled
def _near_pair(
    group: int, second: int, third: Ints, stamp: int,
    group_starts: Longs, target: Ints, seen: Longs,
) -> int:  # fmt: skip
    """Distinct u of ``d1(v, z), d2(v, z), d3(z, u)``; ``second`` is the group of v."""
    if second < 0:
        return 0
    size = 0
    for i in range(group_starts[group], group_starts[group + 1]):
        z = target[i]
        g = third[z]
        if g < 0 or not _holds(target, group_starts[second], group_starts[second + 1], z):
            continue
        for k in range(group_starts[g], group_starts[g + 1]):
            if seen[target[k]] < stamp:
                seen[target[k]] = stamp
                size += 1
    return size


@compiled
def _far_pair(
    group: int, second: Ints, third: Ints, stamp: int, limit: int,
    group_starts: Longs, target: Ints, seen: Longs,
) -> int:  # fmt: skip
    """Distinct u of ``d1(v, z), d2(z, u), d3(z, u)``."""
    size = 0
    for i in range(group_starts[group], group_starts[group + 1]):
        one = second[target[i]]
        two = third[target[i]]
        if one < 0 or two < 0:
            continue
        j = group_starts[two]
        for k in range(group_starts[one], group_starts[one + 1]):
            j = seek(target, j, group_starts[two + 1], target[k])
            if j == group_starts[two + 1]:
                break
            if target[j] == target[k] and seen[target[k]] < stamp:
                seen[target[k]] = stamp
                size += 1
        if size > limit:
            return size
    return size


@compiled
def _triple(group: int, second: int, third: int, group_starts: Longs, target: Ints) -> int:
    """Distinct u of ``d1(v, u), d2(v, u), d3(v, u)``, from the groups of v."""
    size = 0
    if second < 0 or third < 0:
        return size
    for i in range(group_starts[group], group_starts[group + 1]):
        u = target[i]
        if _holds(target, group_starts[second], group_starts[second + 1], u):
            size += _holds(target, group_starts[third], group_starts[third + 1], u)
    return size


@compiled
def _reach(
    shape: int, v: int, group: int, second: Ints, third: Ints, stamp: int, limit: int,
    group_starts: Longs, target: Ints, seen: Longs,
) -> int:  # fmt: skip
    """How many u a body reaches from v; above ``limit`` the count may be cut short."""
    if shape == _CHAIN:
        return _chain(group, second, third, stamp, limit, group_starts, target, seen)
    if shape == _TRIANGLE:
        return _triangle(group, second[v], third, stamp, group_starts, target, seen)
    if shape == _NEAR_SIDE:
        all_of_it = group_starts[group + 1] - group_starts[group]
        return all_of_it if meet(second[v], third[v], group_starts, target) else 0
    if shape == _FAR_SIDE:
        size = 0
        for i in range(group_starts[group], group_starts[group + 1]):
            size += meet(second[target[i]], third[target[i]], group_starts, target)
        return size
    if shape == _NEAR_PAIR:
        return _near_pair(group, second[v], third, stamp, group_starts, target, seen)
    if shape == _FAR_PAIR:
        return _far_pair(group, second, third, stamp, limit, group_starts, target, seen)
    return _triple(group, second[v], third[v], group_starts, target)


@compiled
def _fill(
    place: Ints, directed: int, group_bounds: Longs, group_source: Ints, filled: bool
) -> None:
    """Write a directed relation's group of each entity into ``place``, or -1 again."""
    for g in range(group_bounds[directed], group_bounds[directed + 1]):
        place[group_source[g]] = g if filled else -1


@compiled
def _size_body(
    shape: int, first: int, heads: Longs, supports: Longs, pca: Longs, min_confidence: float,
    with_standard: bool, group_bounds: Longs, group_source: Ints, group_starts: Longs,
    target: Ints, same_as: Longs, multiplicity: Longs, second: Ints, third: Ints, seen: Longs,
) -> int:  # fmt: skip
    """Write the PCA sizes of one body under several heads; return its standard size."""
    low = group_bounds[first]
    stop = group_bounds[first + 1]
    # What these shapes reach depends only on which entities the first relation reaches.
    shared = shape in (_CHAIN, _FAR_SIDE, _FAR_PAIR)
    memo = np.full(stop - low, -1, np.int64)
    stamp = seen[-1]
    kept = False
    for task in range(heads.shape[0]):
        most = int(supports[task] / min_confidence) + 1 if min_confidence > 0 else _ALL
        i = low
        j = group_bounds[heads[task]]
        end = group_bounds[heads[task] + 1]
        size = 0
        while i < stop and j < end and size <= most:
            if group_source[i] < group_source[j]:
                i = seek(group_source, i, stop, group_source[j])
            elif group_source[j] < group_source[i]:
                j = seek(group_source, j, end, group_source[i])
            else:
                own = same_as[i] if shared else i
                count = memo[own - low]
                if count < 0:
                    stamp += 4
                    count = _reach(
                        shape, group_source[i], own, second, third, stamp, most - size,
                        group_starts, target, seen,
                    )  # fmt: skip
                    if count <= most - size:
                        memo[own - low] = count
                size += count
                i += 1
                j += 1
        pca[task] = size
        kept = kept or supports[task] / size >= min_confidence
    standard = 0
    if kept and with_standard:
        for g in range(low, stop):
            if shared and same_as[g] != g:
                continue
            if memo[g - low] < 0:
                stamp += 4
                memo[g - low] = _reach(
                    shape, group_source[g], g, second, third, stamp, _ALL,
                    group_starts, target, seen,
                )  # fmt: skip
            standard += memo[g - low] * (multiplicity[g] if shared else 1)
    seen[-1] = stamp
    return standard


@compiled
def three_sizes(
    shape: int, third: int, bodies: Longs, task_bounds: Longs, heads: Longs, supports: Longs,
    min_confidence: float, with_standard: bool, group_bounds: Longs, group_source: Ints,
    group_starts: Longs, target: Ints, same_as: Longs, multiplicity: Longs,
    second_place: Ints, third_place: Ints, seen: Longs,
) -> tuple[Longs, Longs]:  # fmt: skip
    """Body sizes of the three-atom bodies of one shape and one third relation.

    Task t of body b (``task_bounds[b] <= t < task_bounds[b + 1]``) asks for the PCA body size
    under ``heads[t]``: the distinct (v, u) whose v starts a fact of that head. Counting stops
    once the confidence is certain to stay below ``min_confidence``.

    Args:
        shape: a value of ``Shape``, read from the functional end.
        third: the directed relation d3.
        bodies: int64 array of shape (b,), codes ``d2 * D + d1``, ascending.
        task_bounds: int64 array of shape (b + 1,).
        heads: int64 array of shape (t,), directed heads.
        supports: int64 array of shape (t,).
        min_confidence: least PCA confidence.
        with_standard: whether to count standard body sizes.
        group_bounds: groups of each directed relation.
        group_source: entity of each group.
        group_starts: facts of each group.
        target: targets of the facts.
        same_as: see :func:`rulerag.mining.amie_sizes.equal_groups`.
        multiplicity: int64 array of shape (G,), how many groups are ``same_as`` it.
        second_place: int32 scratch of shape (N,), all -1 before and after.
        third_place: another.
        seen: int64 scratch of shape (N + 1,), only ever given to this function; starts with 0.

    Returns:
        PCA body sizes by task, and standard body sizes by body (0 where no task was kept).
    """
    directed = group_bounds.shape[0] - 1
    pca = np.zeros(heads.shape[0], np.int64)
    standard = np.zeros(bodies.shape[0], np.int64)
    _fill(third_place, third, group_bounds, group_source, True)
    second = -1
    for body in range(bodies.shape[0]):
        if bodies[body] // directed != second:
            if second >= 0:
                _fill(second_place, second, group_bounds, group_source, False)
            second = bodies[body] // directed
            _fill(second_place, second, group_bounds, group_source, True)
        start = task_bounds[body]
        end = task_bounds[body + 1]
        standard[body] = _size_body(
            shape, bodies[body] % directed, heads[start:end], supports[start:end], pca[start:end],
            min_confidence, with_standard, group_bounds, group_source, group_starts, target,
            same_as, multiplicity, second_place, third_place, seen,
        )  # fmt: skip
    if second >= 0:
        _fill(second_place, second, group_bounds, group_source, False)
    _fill(third_place, third, group_bounds, group_source, False)
    return pca, standard
