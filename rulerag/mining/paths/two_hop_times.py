"""The entities that two facts lead to, and when: walks of two facts, summed up; compiled.

Of all walks to a candidate only the latest first time counts (Liu et al. 2022, TLogic, section
4.3), so that walks need not be listed: for each node it is enough to know, for each time of the
walk's last fact, the latest time at which the walk may have begun. Such a *two-hop time frontier*
does not depend on the query's time, so all queries of one entity share it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rulerag.arrays import Ints, Longs
from rulerag.mining.indexes import TemporalIndex, find_group, find_pair
from rulerag.mining.runtime import compiled

__all__ = ["Frontier", "two_hop_frontier"]


class Frontier(NamedTuple):
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
def two_hop_frontier(
    index: TemporalIndex, subject: int, first: int, second: int, home: bool
) -> Frontier:
    """The frontier of all nodes that two facts reach from a subject.

    Args:
        index: the graph.
        subject: where the walk starts; -1 for an empty frontier.
        first: directed relation of the first fact.
        second: directed relation of the second, at the same time or later.
        home: only the subject's own part.
    """
    steps = _steps(index, subject, first, second, home)
    # Grouped by node and sorted by last time; those stay that begin later than all before.
    code = (steps[:, 0].astype(np.int64) << 32) + (steps[:, 1].astype(np.int64) + 2**31)
    node = np.empty(len(steps), np.int32)
    last, earliest = np.empty_like(node), np.empty_like(node)
    bounds = np.zeros(len(steps) + 1, np.int64)
    nodes, size = 0, 0
    for row in np.argsort(code):
        if nodes == 0 or node[nodes - 1] != steps[row, 0]:
            node[nodes] = steps[row, 0]
            bounds[nodes] = size
            nodes += 1
        elif earliest[size - 1] >= steps[row, 2]:
            continue
        elif last[size - 1] == steps[row, 1]:
            size -= 1
        last[size] = steps[row, 1]
        earliest[size] = steps[row, 2]
        size += 1
    bounds[nodes] = size
    return Frontier(
        node[:nodes].copy(), bounds[: nodes + 1].copy(), last[:size].copy(), earliest[:size].copy()
    )


@compiled
def _steps(index: TemporalIndex, subject: int, first: int, second: int, home: bool) -> Ints:
    """Rows (node, last, first): every first time with the earliest last time at or after it."""
    times, bounds, target = index.times, index.pair_bounds, index.pair_target
    group = find_group(index, subject, first) if subject >= 0 else -1
    if group < 0:
        return np.empty((0, 3), np.int32)
    start = index.group_bounds[group]
    ranges = np.zeros((index.group_bounds[group + 1] - start, 2), np.int64)
    size = 0
    for place in range(len(ranges)):
        middle = find_group(index, target[start + place], second)
        if middle >= 0:
            low, high = index.group_bounds[middle], index.group_bounds[middle + 1]
            if home:
                low = find_pair(index, middle, subject)
                low, high = (low, low + 1) if low >= 0 else (0, 0)
            ranges[place] = low, high
            size += bounds[high] - bounds[low]
    steps, size = np.empty((size, 3), np.int32), 0
    for place in range(len(ranges)):
        for onward in range(ranges[place, 0], ranges[place, 1]):
            before, end = bounds[start + place], bounds[start + place + 1]
            for later in range(bounds[onward], bounds[onward + 1]):
                found = False
                while before < end and times[before] <= times[later]:
                    before += 1
                    found = True
                if found:
                    steps[size] = target[onward], times[later], times[before - 1]
                    size += 1
    return steps[:size]
