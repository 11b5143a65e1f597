"""Compiled walks of temporal rules: which entities a body reaches, and from how late a start.

A body of a temporal rule is a walk from the known entity, its facts in time order, all before the
query. Of all walks to a candidate only the latest first time counts (Liu et al. 2022, TLogic,
section 4.3), so that walks need not be listed: for each node it is enough to know, for each time of
the walk's last fact, the latest time at which the walk may have begun. Such a *staircase* does not
depend on the query's time, so all queries of one entity share it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs, TemporalIndex

__all__ = [
    "Reached",
    "Staircases",
    "find_group",
    "find_pair",
    "last_at",
    "new_reached",
    "reach",
    "stairs",
    "uses_stairs",
]

NEVER = -(2**31)
"""A time before all times."""


class Reached(NamedTuple):
    """The candidates that one body reaches.

    Attributes:
        first: int64 array of shape (N,), the latest first time by entity; NEVER where none.
        entity: int32 array of shape (N,), the reached entities, in its first ``count`` places.
        count: int64 array of shape (1,).
    """

    first: Longs
    entity: Ints
    count: Longs


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
def new_reached(num_entities: int) -> Reached:
    """An empty set of candidates."""
    return Reached(
        np.full(num_entities, NEVER, np.int64),
        np.zeros(num_entities, np.int32),
        np.zeros(1, np.int64),
    )


@compiled
def find_group(index: TemporalIndex, entity: int, relation: int) -> int:
    """The group of an entity's facts with a directed relation, or -1."""
    low, high = index.entity_bounds[entity], index.entity_bounds[entity + 1]
    while low < high:
        middle = (low + high) // 2
        if index.group_relation[middle] < relation:
            low = middle + 1
        else:
            high = middle
    if low < index.entity_bounds[entity + 1] and index.group_relation[low] == relation:
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
def _note(reached: Reached, entity: int, first: int) -> None:
    if reached.first[entity] == NEVER:
        reached.entity[reached.count[0]] = entity
        reached.count[0] += 1
    if first > reached.first[entity]:
        reached.first[entity] = first


@compiled
def _fits(link: int, place: int, node: int, subject: int, before: int) -> bool:
    """Whether a node may stand at a place of a walk: see ``link`` of :func:`reach`."""
    if link == place:
        return True
    if link == 0:
        return node == subject
    return link != place - 1 or node == before


@compiled
def stairs(index: TemporalIndex, subject: int, first: int, second: int) -> Staircases:
    """The staircases of all nodes that two facts reach from a subject.

    Args:
        index: the graph.
        subject: where the walk starts.
        first: directed relation of the first fact.
        second: directed relation of the second, at the same time or later.
    """
    group = find_group(index, subject, first)
    if group < 0:
        nothing = np.zeros(0, np.int32)
        return Staircases(nothing, np.zeros(1, np.int64), nothing, nothing)
    size = 0
    for pair in range(index.group_bounds[group], index.group_bounds[group + 1]):
        middle = find_group(index, index.pair_target[pair], second)
        if middle >= 0:
            start, end = index.group_bounds[middle], index.group_bounds[middle + 1]
            size += index.pair_bounds[end] - index.pair_bounds[start]
    steps = np.empty((size, 3), np.int32)
    size = 0
    for pair in range(index.group_bounds[group], index.group_bounds[group + 1]):
        middle = find_group(index, index.pair_target[pair], second)
        if middle >= 0:
            for onward in range(index.group_bounds[middle], index.group_bounds[middle + 1]):
                size = _merge(index, pair, onward, steps, size)
    return _sorted_stairs(steps[:size])


@compiled
def _merge(index: TemporalIndex, pair: int, onward: int, steps: Ints, size: int) -> int:
    """Append (node, last, first) for every first time and the earliest last time at or after it."""
    times = index.times
    place, end = index.pair_bounds[pair], index.pair_bounds[pair + 1]
    for later in range(index.pair_bounds[onward], index.pair_bounds[onward + 1]):
        found = False
        while place < end and times[place] <= times[later]:
            place += 1
            found = True
        if found:
            steps[size, 0] = index.pair_target[onward]
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


@compiled
def reach(
    index: TemporalIndex,
    subject: int,
    time: int,
    length: int,
    body: Ints,
    link: Ints,
    steps: Staircases,
    reached: Reached,
) -> None:
    """Find all ends of a body's walks, in ``reached``, which has to be empty.

    Args:
        index: the graph.
        subject: where the walks start.
        time: all their facts are before it.
        length: facts of the body, 1 to 3.
        body: int32 array of shape (3,), directed relations in time order.
        link: int32 array of shape (4,), for each place of the walk the first place that holds the
            same entity.
        steps: of the first two relations, where :func:`uses_stairs` says so.
        reached: the result.
    """
    if length == 3 and not uses_stairs(length, link):
        _reach_around(index, subject, time, body, link, reached)
    elif length == 3:
        _reach_by_stairs(index, subject, time, body[2], link, steps, reached)
    else:
        _reach_short(index, subject, time, length, body, link, reached)


@compiled
def uses_stairs(length: int, link: Ints) -> bool:
    """Whether a body is walked by staircases: three facts, the second node not bound otherwise."""
    return length == 3 and link[1] == 1 and link[2] == 2 and link[3] != 1


@compiled
def _reach_short(
    index: TemporalIndex,
    subject: int,
    time: int,
    length: int,
    body: Ints,
    link: Ints,
    reached: Reached,
) -> None:
    """Bodies of one or two facts."""
    times = index.times
    group = find_group(index, subject, body[0])
    if group < 0:
        return
    for pair in range(index.group_bounds[group], index.group_bounds[group + 1]):
        through, start = index.pair_target[pair], index.pair_bounds[pair]
        if times[start] >= time or not _fits(link[1], 1, through, subject, subject):
            continue
        if length == 1:
            last = last_at(times, start, index.pair_bounds[pair + 1], time - 1)
            _note(reached, through, times[last])
            continue
        onward = find_group(index, through, body[1])
        if onward < 0:
            continue
        end = last_at(times, start, index.pair_bounds[pair + 1], time - 1) + 1
        for step in range(index.group_bounds[onward], index.group_bounds[onward + 1]):
            node = index.pair_target[step]
            if times[end - 1] <= reached.first[node] or not _fits(
                link[2], 2, node, subject, through
            ):
                continue
            low, high = index.pair_bounds[step], index.pair_bounds[step + 1]
            last = last_at(times, low, high, time - 1)
            if last >= 0:
                first = last_at(times, start, end, times[last])
                if first >= 0:
                    _note(reached, node, times[first])


@compiled
def _reach_by_stairs(
    index: TemporalIndex,
    subject: int,
    time: int,
    relation: int,
    link: Ints,
    steps: Staircases,
    reached: Reached,
) -> None:
    """The third fact, from every node that the first two reach."""
    times = index.times
    for row in range(len(steps.node)):
        low, high = steps.bounds[row], steps.bounds[row + 1]
        if steps.last[low] >= time:
            continue
        through = steps.node[row]
        group = find_group(index, through, relation)
        if group < 0:
            continue
        high = last_at(steps.last, low, high, time - 1) + 1
        for pair in range(index.group_bounds[group], index.group_bounds[group + 1]):
            node = index.pair_target[pair]
            if steps.first[high - 1] <= reached.first[node] or not _fits(
                link[3], 3, node, subject, through
            ):
                continue
            last = last_at(times, index.pair_bounds[pair], index.pair_bounds[pair + 1], time - 1)
            if last >= 0:
                step = last_at(steps.last, low, high, times[last])
                if step >= 0:
                    _note(reached, node, steps.first[step])


@compiled
def _reach_around(
    index: TemporalIndex,
    subject: int,
    time: int,
    body: Ints,
    link: Ints,
    reached: Reached,
) -> None:
    """Three facts whose second or last node is bound to an earlier one: node by node.

    The latest second fact that some third fact follows decides the latest first one.
    """
    times = index.times
    group = find_group(index, subject, body[0])
    if group < 0:
        return
    for pair in range(index.group_bounds[group], index.group_bounds[group + 1]):
        through, start = index.pair_target[pair], index.pair_bounds[pair]
        if times[start] >= time or not _fits(link[1], 1, through, subject, subject):
            continue
        end = last_at(times, start, index.pair_bounds[pair + 1], time - 1) + 1
        onward = find_group(index, through, body[1])
        if onward < 0:
            continue
        low, high = index.group_bounds[onward], index.group_bounds[onward + 1]
        if link[2] == 0 or link[2] == 1:
            low = find_pair(index, onward, subject if link[2] == 0 else through)
            high = low + 1
            if low < 0:
                continue
        for step in range(low, high):
            _third(index, subject, time, body[2], link, start, end, step, through, reached)


@compiled
def _third(
    index: TemporalIndex,
    subject: int,
    time: int,
    relation: int,
    link: Ints,
    start: int,
    end: int,
    step: int,
    through: int,
    reached: Reached,
) -> None:
    """Walk on from the second fact's pair to all ends that the links allow."""
    times, node = index.times, index.pair_target[step]
    if times[index.pair_bounds[step]] >= time:
        return
    group = find_group(index, node, relation)
    if group < 0:
        return
    low, high = index.group_bounds[group], index.group_bounds[group + 1]
    if link[3] < 2:
        low = find_pair(index, group, subject if link[3] == 0 else through)
        high = low + 1
        if low < 0:
            return
    for pair in range(low, high):
        target = index.pair_target[pair]
        if times[end - 1] <= reached.first[target] or not _fits(
            link[3], 3, target, subject, node
        ):
            continue
        last = last_at(times, index.pair_bounds[pair], index.pair_bounds[pair + 1], time - 1)
        if last < 0:
            continue
        second = last_at(
            times, index.pair_bounds[step], index.pair_bounds[step + 1], times[last]
        )
        if second < 0:
            continue
        first = last_at(times, start, end, times[second])
        if first >= 0:
            _note(reached, target, times[first])
