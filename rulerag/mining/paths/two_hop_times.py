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
from rulerag.mining.paths.coded_rules import CodedRules
from rulerag.mining.runtime import compiled


class Frontier(NamedTuple):
    """For each node that some facts reach: times of the last fact, latest times of the first.

    Attributes:
        node: int32 array of shape (n,).
        bounds: int64 array of shape (n + 1,), steps of each node.
        last: int32 array, times of the last fact, ascending for each node.
        first: int32 array, the latest time of a first fact that leads there; ascending too.
    """

    node: Ints
    bounds: Longs
    last: Ints
    first: Ints


@compiled
def frontier_of(index: TemporalIndex, rules: CodedRules, rule: int, subject: int) -> Frontier:
    """The frontier of all nodes that a rule's first two relations reach from a subject.

    Args:
        index: the graph.
        rules: the rules.
        rule: which one; the frontier is empty for -1, and where the rule has no use for it.
        subject: where the walk starts.
    """
    times, bounds, target = index.times, index.pair_bounds, index.pair_target
    start, end, home = 0, 0, False
    if rule >= 0 and rules.frontier[rule] >= 0:
        group = find_group(index, subject, rules.body[rule, 0])
        if group >= 0:
            start, end = index.group_bounds[group], index.group_bounds[group + 1]
        home = rules.link[rule, 2] == 0
    # The pairs of the second relation behind each pair of the first one.
    low, high = np.zeros(end - start, np.int64), np.zeros(end - start, np.int64)
    room = 0
    for pair in range(start, end):
        middle = find_group(index, target[pair], rules.body[rule, 1])
        if middle < 0:
            continue
        one, other = index.group_bounds[middle], index.group_bounds[middle + 1]
        if home:
            one = find_pair(index, middle, subject)
            other = one + 1
        if one >= 0:
            low[pair - start], high[pair - start] = one, other
            room += bounds[other] - bounds[one]
    # Every first time with the earliest last time at or after it, in a sorted run for each pair.
    code, begun, size = np.zeros(room, np.int64), np.zeros(room, np.int32), 0
    runs = np.zeros(end - start + 1, np.int64)
    for pair in range(start, end):
        for onward in range(low[pair - start], high[pair - start]):
            before = bounds[pair]
            for later in range(bounds[onward], bounds[onward + 1]):
                passed = before
                while before < bounds[pair + 1] and times[before] <= times[later]:
                    before += 1
                if before > passed:
                    code[size] = (np.int64(target[onward]) << 32) + (np.int64(times[later]) + 2**31)
                    begun[size] = times[before - 1]
                    size += 1
        runs[pair - start + 1] = size
    return _latest_begun(code, begun, _merged(code, runs))


@compiled
def _merged(code: Longs, runs: Longs) -> Longs:
    """The order of sorted runs of codes when they are merged; ``runs`` is used up."""
    size, count = runs[-1], len(runs) - 1
    order, other = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for row in range(size):
        order[row] = row
    while count > 1:
        kept = 0
        for run in range(0, count, 2):
            left, middle = runs[run], runs[run + 1]
            right, end = middle, runs[min(run + 2, count)]
            for row in range(left, end):
                if right >= end or (left < middle and code[order[left]] <= code[order[right]]):
                    other[row] = order[left]
                    left += 1
                else:
                    other[row] = order[right]
                    right += 1
            runs[kept + 1] = end
            kept += 1
        count = kept
        order, other = other, order
    return order


@compiled
def _latest_begun(code: Longs, begun: Ints, order: Longs) -> Frontier:
    """By node, in the order of last times, the steps that begin later than all before them."""
    node, bounds = np.zeros(len(order), np.int32), np.zeros(len(order) + 1, np.int64)
    last, first = np.zeros(len(order), np.int32), np.zeros(len(order), np.int32)
    nodes, size = 0, 0
    for row in order:
        reached, time = code[row] >> 32, (code[row] & (2**32 - 1)) - 2**31
        if nodes == 0 or node[nodes - 1] != reached:
            node[nodes] = reached
            bounds[nodes] = size
            nodes += 1
        elif first[size - 1] >= begun[row]:
            continue
        elif last[size - 1] == time:
            size -= 1
        last[size] = time
        first[size] = begun[row]
        size += 1
    bounds[nodes] = size
    return Frontier(
        node[:nodes].copy(), bounds[: nodes + 1].copy(), last[:size].copy(), first[:size].copy()
    )
