"""Compiled look-ups in a temporal index, and staircases: walks of two facts, summed up.

Of all walks to a candidate only the latest first time counts (Liu et al. 2022, TLogic, section
4.3), so that walks need not be listed: for each node it is enough to know, for each time of the
walk's last fact, the latest time at which the walk may have begun. Such a *staircase* does not
depend on the query's time, so all queries of one entity share it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs, TemporalIndex

__all__ = ["Staircases", "find_group", "find_pair", "last_at", "stairs"]


class Staircases(NamedTuple):
    """For each node that two facts reach: times of the second, and latest times of the first.

    Attributes:
        node: int32 array of shape (n,).
        bounds: int64 array of shape (n + 1,), steps of each node.
        last: int32 array, times of the second fact, ascending for each node.
        first: int32 array, the latest time of a first fact that leads there; ascending too.
    """

    node: Ints
    bounds: Longs
    last: Ints
    first: Ints


@compiled
def find_group(entity_bounds: Longs, group_relation: Ints, entity: int, relation: int) -> int:
    """The group of an entity's facts with a directed relation, or -1."""
    low, end = entity_bounds[entity], entity_bounds[entity + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if group_relation[middle] < relation:
            low = middle + 1
        else:
            high = middle
    if low < end and group_relation[low] == relation:
        return int(low)
    return -1


@compiled
def find_pair(index: TemporalIndex, group: int, target: int) -> int:
    """The pair of a group with a neighbour, or -1."""
    low, end = index.group_bounds[group], index.group_bounds[group + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if index.pair_target[middle] < target:
            low = middle + 1
        else:
            high = middle
    if low < end and index.pair_target[low] == target:
        return int(low)
    return -1


@compiled
def last_at(times: Ints, low: int, high: int, limit: int) -> int:
    """The place of the last of ``times[low:high]`` (ascending) up to a limit, or -1."""
    if high > low and times[high - 1] <= limit:
        return high - 1
    start = low
    while low < high:
        middle = (low + high) // 2
        if times[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > start else -1


@compiled
def stairs(index: TemporalIndex, subject: int, first: int, second: int, home: bool) -> Staircases:
    """The staircases of all nodes that two facts reach from a subject.

    Args:
        index: the graph.
        subject: where the walk starts; -1 for no staircases.
        first: directed relation of the first fact.
        second: directed relation of the second, at the same time or later.
        home: only the subject's own staircase.
    """
    if home:
        half = index.num_relations
        second = second - half if second >= half else second + half
        return _sorted_stairs(_steps_home(index, subject, first, second))
    return _sorted_stairs(_steps(index, subject, first, second))


@compiled
def _steps(index: TemporalIndex, subject: int, first: int, second: int) -> Ints:
    """Rows (node, last, first) of all nodes."""
    group_bounds, target = index.group_bounds, index.pair_target
    group, size = -1, 0
    if subject >= 0:
        group = find_group(index.entity_bounds, index.group_relation, subject, first)
    if group < 0:
        return np.empty((0, 3), np.int32)
    middles = np.empty(group_bounds[group + 1] - group_bounds[group], np.int64)
    for place in range(len(middles)):
        through = target[group_bounds[group] + place]
        middle = find_group(index.entity_bounds, index.group_relation, through, second)
        middles[place] = middle
        if middle >= 0:
            start, end = group_bounds[middle], group_bounds[middle + 1]
            size += index.pair_bounds[end] - index.pair_bounds[start]
    steps = np.empty((size, 3), np.int32)
    size = 0
    for place, middle in enumerate(middles):
        if middle >= 0:
            for onward in range(group_bounds[middle], group_bounds[middle + 1]):
                pair = group_bounds[group] + place
                size = _merge(index, pair, onward, target[onward], steps, size)
    return steps[:size]


@compiled
def _steps_home(index: TemporalIndex, subject: int, first: int, second: int) -> Ints:
    """Rows of the subject alone: ``second`` is read from it, to the nodes that it comes from."""
    group_bounds, target = index.group_bounds, index.pair_target
    out = find_group(index.entity_bounds, index.group_relation, subject, first)
    back = find_group(index.entity_bounds, index.group_relation, subject, second)
    if out < 0 or back < 0:
        return np.empty((0, 3), np.int32)
    start, end = group_bounds[back], group_bounds[back + 1]
    steps = np.empty((index.pair_bounds[end] - index.pair_bounds[start], 3), np.int32)
    left, right, size = group_bounds[out], start, 0
    while left < group_bounds[out + 1] and right < end:
        if target[left] == target[right]:
            size = _merge(index, left, right, subject, steps, size)
        if target[left] <= target[right]:
            left += 1
        else:
            right += 1
    return steps[:size]


@compiled
def _merge(index: TemporalIndex, pair: int, onward: int, node: int, steps: Ints, size: int) -> int:
    """Append (node, last, first) for every first time and the earliest last time at or after it."""
    times = index.times
    place, end = index.pair_bounds[pair], index.pair_bounds[pair + 1]
    for later in range(index.pair_bounds[onward], index.pair_bounds[onward + 1]):
        found = False
        while place < end and times[place] <= times[later]:
            place += 1
            found = True
        if found:
            steps[size, 0] = node
            steps[size, 1] = times[later]
            steps[size, 2] = times[place - 1]
            size += 1
    return size


@compiled
def _sorted_stairs(steps: Ints) -> Staircases:
    """Group steps by node, sort them by last time, keep those that begin later than all before."""
    code = (steps[:, 0].astype(np.int64) << 32) + (steps[:, 1].astype(np.int64) + 2**31)
    order = np.argsort(code)
    node = np.empty(len(steps), np.int32)
    last, first = np.empty_like(node), np.empty_like(node)
    bounds = np.zeros(len(steps) + 1, np.int64)
    nodes, size = 0, 0
    for row in order:
        new = nodes == 0 or node[nodes - 1] != steps[row, 0]
        if new:
            node[nodes] = steps[row, 0]
            bounds[nodes] = size
            nodes += 1
        elif first[size - 1] >= steps[row, 2]:
            continue
        elif last[size - 1] == steps[row, 1]:
            size -= 1
        last[size] = steps[row, 1]
        first[size] = steps[row, 2]
        size += 1
    bounds[nodes] = size
    return Staircases(
        node[:nodes].copy(), bounds[: nodes + 1].copy(), last[:size].copy(), first[:size].copy()
    )
