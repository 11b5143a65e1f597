"""Compiled walks of temporal rules: which entities a body reaches, and from how late a start.

A body of a temporal rule is a walk from the known entity, its facts in time order, all before the
query.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rulerag.mining.application_stairs import Staircases, find_group, find_pair, last_at
from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs, TemporalIndex

__all__ = ["NEVER", "Reached", "new_reached", "reach", "uses_stairs"]

NEVER = -(2**31)
"""A time before all times."""


class Reached(NamedTuple):
    """The candidates that one body reaches.

    Attributes:
        first: int64 array of shape (N,), the latest first time by entity; NEVER where none.
        entity: int32 array of shape (N,), the reached entities, in its first ``size`` places.
        size: int64 array of shape (1,).
    """

    first: Longs
    entity: Ints
    size: Longs


@compiled
def new_reached(num_entities: int) -> Reached:
    """An empty set of candidates."""
    return Reached(
        np.full(num_entities, NEVER, np.int64),
        np.zeros(num_entities, np.int32),
        np.zeros(1, np.int64),
    )


@compiled
def _note(reached: Reached, entity: int, first: int) -> None:
    if reached.first[entity] == NEVER:
        reached.entity[reached.size[0]] = entity
        reached.size[0] += 1
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
        steps: of the first two relations, where :func:`uses_stairs` says so; to the subject alone
            where the walk returns there.
        reached: the result.
    """
    if length < 3:
        _reach_short(index, subject, time, length, body, link, reached)
    elif uses_stairs(length, link):
        _reach_by_stairs(index, subject, time, body[2], link, steps, reached)
    elif link[1] == 1 and link[2] != 1:
        _reach_and_return(index, subject, time, body, link[2] == 0, reached)
    else:
        _reach_around(index, subject, time, body, link, reached)


@compiled
def uses_stairs(length: int, link: Ints) -> bool:
    """Whether a body is walked by staircases: three facts, neither end bound to the first node."""
    return length == 3 and link[1] == 1 and link[2] != 1 and link[3] != 1


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
    times, target, bounds = index.times, index.pair_target, index.pair_bounds
    group_bounds, best = index.group_bounds, reached.first
    group = find_group(index.entity_bounds, index.group_relation, subject, body[0])
    if group < 0:
        return
    size = reached.size[0]
    for pair in range(group_bounds[group], group_bounds[group + 1]):
        through, start = target[pair], bounds[pair]
        if times[start] >= time or (link[1] == 0 and through != subject):
            continue
        end = last_at(times, start, bounds[pair + 1], time - 1) + 1
        if length == 1:
            best[through], reached.entity[size] = times[end - 1], through
            size += 1
            continue
        onward = find_group(index.entity_bounds, index.group_relation, through, body[1])
        if onward < 0:
            continue
        for step in range(group_bounds[onward], group_bounds[onward + 1]):
            node = target[step]
            if times[end - 1] <= best[node] or not _fits(link[2], 2, node, subject, through):
                continue
            last = last_at(times, bounds[step], bounds[step + 1], time - 1)
            first = last_at(times, start, end, times[last]) if last >= 0 else -1
            if first >= 0 and times[first] > best[node]:
                if best[node] == NEVER:
                    reached.entity[size] = node
                    size += 1
                best[node] = times[first]
    reached.size[0] = size


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
    times, target, bounds = index.times, index.pair_target, index.pair_bounds
    group_bounds, best = index.group_bounds, reached.first
    size = reached.size[0]
    for row in range(len(steps.node)):
        low, high = steps.bounds[row], steps.bounds[row + 1]
        if steps.last[low] >= time:
            continue
        through = steps.node[row]
        group = find_group(index.entity_bounds, index.group_relation, through, relation)
        if group < 0:
            continue
        high = last_at(steps.last, low, high, time - 1) + 1
        latest = steps.first[high - 1]
        for pair in range(group_bounds[group], group_bounds[group + 1]):
            node = target[pair]
            if latest <= best[node] or not _fits(link[3], 3, node, subject, through):
                continue
            last = last_at(times, bounds[pair], bounds[pair + 1], time - 1)
            step = last_at(steps.last, low, high, times[last]) if last >= 0 else -1
            if step >= 0 and steps.first[step] > best[node]:
                if best[node] == NEVER:
                    reached.entity[size] = node
                    size += 1
                best[node] = steps.first[step]
    reached.size[0] = size


@compiled
def _reach_and_return(
    index: TemporalIndex, subject: int, time: int, body: Ints, home: bool, reached: Reached
) -> None:
    """Three facts, the last of which leads back to the first node, by way of any or the subject.

    The latest second fact that some third fact follows decides the latest first one.
    """
    times, target, bounds = index.times, index.pair_target, index.pair_bounds
    group_bounds, half = index.group_bounds, index.num_relations
    group = find_group(index.entity_bounds, index.group_relation, subject, body[0])
    if group < 0:
        return
    back = body[2] - half if body[2] >= half else body[2] + half
    size = reached.size[0]
    for pair in range(group_bounds[group], group_bounds[group + 1]):
        through, start = target[pair], bounds[pair]
        if times[start] >= time:
            continue
        out = find_group(index.entity_bounds, index.group_relation, through, body[1])
        home_again = find_group(index.entity_bounds, index.group_relation, through, back)
        if out < 0 or home_again < 0:
            continue
        end = last_at(times, start, bounds[pair + 1], time - 1) + 1
        best = NEVER
        left, right = group_bounds[out], group_bounds[home_again]
        while left < group_bounds[out + 1] and right < group_bounds[home_again + 1]:
            if target[left] < target[right]:
                left += 1
            elif target[left] > target[right]:
                right += 1
            else:
                if not home or target[left] == subject:
                    last = last_at(times, bounds[right], bounds[right + 1], time - 1)
                    if last >= 0:
                        second = last_at(times, bounds[left], bounds[left + 1], times[last])
                        if second >= 0 and times[second] > best:
                            best = times[second]
                            if best >= times[end - 1]:
                                break
                left += 1
                right += 1
        first = last_at(times, start, end, best)
        if first >= 0:
            reached.first[through], reached.entity[size] = times[first], through
            size += 1
    reached.size[0] = size


@compiled
def _reach_around(
    index: TemporalIndex,
    subject: int,
    time: int,
    body: Ints,
    link: Ints,
    reached: Reached,
) -> None:
    """Three facts of which one leads from a node to itself: node by node, as these are rare."""
    times = index.times
    group = find_group(index.entity_bounds, index.group_relation, subject, body[0])
    if group < 0:
        return
    for pair in range(index.group_bounds[group], index.group_bounds[group + 1]):
        through, start = index.pair_target[pair], index.pair_bounds[pair]
        if times[start] >= time or not _fits(link[1], 1, through, subject, subject):
            continue
        end = last_at(times, start, index.pair_bounds[pair + 1], time - 1) + 1
        onward = find_group(index.entity_bounds, index.group_relation, through, body[1])
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
    group = find_group(index.entity_bounds, index.group_relation, node, relation)
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
        if times[end - 1] <= reached.first[target] or not _fits(link[3], 3, target, subject, node):
            continue
        last = last_at(times, index.pair_bounds[pair], index.pair_bounds[pair + 1], time - 1)
        if last < 0:
            continue
        second = last_at(times, index.pair_bounds[step], index.pair_bounds[step + 1], times[last])
        if second < 0:
            continue
        first = last_at(times, start, end, times[second])
        if first >= 0:
            _note(reached, target, times[first])
