"""Compiled walks of rules: which entities a body reaches, and from how late a start.

A body of a temporal rule is a walk from the known entity, its facts in time order, all before the
query. Static facts stand at time 0 and are asked at time 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rulerag.arrays import Ints, Longs
from rulerag.mining.indexes import NEVER, TemporalIndex, find_group, find_pair, last_at
from rulerag.mining.paths.coded_rules import CodedRules
from rulerag.mining.paths.two_hop_times import Frontier
from rulerag.mining.runtime import compiled, inlined, int64


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


@inlined
def _note(reached: Reached, entity: int, first: int) -> None:
    if reached.first[entity] == NEVER:
        reached.entity[reached.size[0]] = entity
        reached.size[0] += 1
    if first > reached.first[entity]:
        reached.first[entity] = first


@compiled
def reach(
    index: TemporalIndex,
    rules: CodedRules,
    rule: int,
    subject: int,
    time: int,
    frontier: Frontier,
    reached: Reached,
) -> None:
    """Find all ends of a body's walks, in ``reached``, which has to be empty.

    Args:
        index: the graph.
        rules: the rules.
        rule: which one.
        subject: where the walks start.
        time: all their facts are before it.
        frontier: that of the rule and the subject, see :func:`frontier_of`.
        reached: the result.
    """
    length, body, link = rules.length[rule], rules.body[rule], rules.link[rule]
    if rules.parallel[rule]:
        _reach_parallel(index, subject, body, reached)
    elif length == 3 and rules.frontier[rule] >= 0:
        _reach_from(index, subject, time, length, body[2], link, frontier, reached)
    elif length == 3 and link[1] == 1 and link[2] != 1:
        _reach_back(index, subject, time, body, link[2] == 0, reached)
    elif length == 3:
        _reach_bound(index, subject, time, body, link, reached)
    else:
        group = find_group(index, subject, body[0])
        if group < 0:
            return
        start, end = index.group_bounds[group], index.group_bounds[group + 1]
        if link[1] == 0:
            start = find_pair(index, group, subject)
            start, end = (start, start + 1) if start >= 0 else (0, 0)
        if length == 1:
            for pair in range(start, end):
                last = last_at(
                    index.times, index.pair_bounds[pair], index.pair_bounds[pair + 1], time - 1
                )
                if last >= 0:
                    _note(reached, index.pair_target[pair], index.times[last])
            return
        # One fact leads to its neighbours, and is the first and the last one.
        node, bounds = index.pair_target[start:end], index.pair_bounds[start : end + 1]
        one_hop = Frontier(node, bounds, index.times, index.times)
        _reach_from(index, subject, time, length, body[1], link, one_hop, reached)


@compiled
def _reach_parallel(index: TemporalIndex, subject: int, body: Ints, reached: Reached) -> None:
    """The neighbours by both of two directed relations, in a static graph."""
    target, bounds = index.pair_target, index.group_bounds
    one, other = find_group(index, subject, body[0]), find_group(index, subject, body[1])
    if one < 0 or other < 0:
        return
    left, right = bounds[one], bounds[other]
    while left < bounds[one + 1] and right < bounds[other + 1]:
        if target[left] == target[right]:
            _note(reached, target[left], 0)
        if target[left] <= target[right]:
            left += 1
        else:
            right += 1


@inlined
def _fits(link: int, step: int, node: int, subject: int, before: int) -> bool:
    """Whether a walk may end in a node after so many steps, the node before it being free."""
    if link == step:
        return True
    if link == 0:
        return node == subject
    return link != step - 1 or node == before


@compiled
def _reach_from(
    index: TemporalIndex,
    subject: int,
    time: int,
    length: int,
    relation: int,
    link: Ints,
    frontier: Frontier,
    reached: Reached,
) -> None:
    """The last fact, from every node that the facts before it reach."""
    times, target, bounds = index.times, index.pair_target, index.pair_bounds
    group_bounds, best = index.group_bounds, reached.first
    for row in range(len(frontier.node)):
        low, high = frontier.bounds[row], frontier.bounds[row + 1]
        if frontier.last[low] >= time:
            continue
        through = frontier.node[row]
        group = find_group(index, through, relation)
        if group < 0:
            continue
        high = last_at(frontier.last, low, high, time - 1) + 1
        latest = frontier.first[high - 1]
        for pair in range(group_bounds[group], group_bounds[group + 1]):
            node = target[pair]
            if latest <= best[node] or not _fits(link[length], length, node, subject, through):
                continue
            last = last_at(times, bounds[pair], bounds[pair + 1], time - 1)
            step = last_at(frontier.last, low, high, times[last]) if last >= 0 else -1
            if step >= 0:
                _note(reached, node, frontier.first[step])


@compiled
def _reach_bound(
    index: TemporalIndex, subject: int, time: int, body: Ints, link: Ints, reached: Reached
) -> None:
    """Three facts of which one leads from a node to itself: walk by walk, as these are rare."""
    target = index.pair_target
    nodes = np.full(3, subject, np.int64)
    for one in range(*_pairs(index, body[0], link, int64(1), nodes)):
        nodes[1] = target[one]
        for two in range(*_pairs(index, body[1], link, int64(2), nodes)):
            nodes[2] = target[two]
            for three in range(*_pairs(index, body[2], link, int64(3), nodes)):
                _note_walk(index, one, two, three, time, target[three], reached)


@compiled
def _reach_back(
    index: TemporalIndex, subject: int, time: int, body: Ints, home: bool, reached: Reached
) -> None:
    """Three facts, the last of which leads back to the first node, by way of any or the subject.

    The last fact is read from its end, so that both ways to the node between are merged.
    """
    times, target, bounds = index.times, index.pair_target, index.pair_bounds
    group_bounds, half = index.group_bounds, index.num_relations
    inverse = body[2] - half if body[2] >= half else body[2] + half
    group = find_group(index, subject, body[0])
    if group < 0:
        return
    for one in range(group_bounds[group], group_bounds[group + 1]):
        end = target[one]
        if times[bounds[one]] >= time:
            continue
        onward, back = find_group(index, end, body[1]), find_group(index, end, inverse)
        if onward < 0 or back < 0:
            continue
        latest = times[last_at(times, bounds[one], bounds[one + 1], time - 1)]
        two, three = group_bounds[onward], group_bounds[back]
        while two < group_bounds[onward + 1] and three < group_bounds[back + 1]:
            if target[two] == target[three] and (not home or target[two] == subject):
                _note_walk(index, one, two, three, time, end, reached)
                if reached.first[end] >= latest:
                    break
            if target[two] <= target[three]:
                two += 1
            else:
                three += 1


@inlined
def _note_walk(
    index: TemporalIndex, one: int, two: int, three: int, time: int, end: int, reached: Reached
) -> None:
    """Note the latest start of a walk over three pairs, if their times allow one."""
    times, bounds = index.times, index.pair_bounds
    at = last_at(times, bounds[three], bounds[three + 1], time - 1)
    if at >= 0:
        at = last_at(times, bounds[two], bounds[two + 1], times[at])
    if at >= 0:
        at = last_at(times, bounds[one], bounds[one + 1], times[at])
    if at >= 0:
        _note(reached, end, times[at])


@compiled
def _pairs(
    index: TemporalIndex, relation: int, link: Ints, step: int, nodes: Longs
) -> tuple[int, int]:
    """The pairs that lead on to a step's node from the node before it."""
    group = find_group(index, nodes[step - 1], relation)
    if group < 0:
        return 0, 0
    if link[step] == step:
        return index.group_bounds[group], index.group_bounds[group + 1]
    pair = find_pair(index, group, nodes[link[step]])
    return (pair, pair + 1) if pair >= 0 else (0, 0)
