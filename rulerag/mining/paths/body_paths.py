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
from rulerag.mining.paths.two_hop_times import Frontier, two_hop_frontier
from rulerag.mining.runtime import compiled, inlined

__all__ = ["Reached", "frontier_of", "new_reached", "reach", "uses_frontier"]


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


@inlined
def uses_frontier(rules: CodedRules, rule: int) -> bool:
    """Whether :func:`reach` needs a frontier: three facts, neither end bound to the first node."""
    link = rules.link
    return bool(
        rules.length[rule] == 3 and link[rule, 1] == 1 and link[rule, 2] != 1 and link[rule, 3] != 1
    )


@compiled
def frontier_of(index: TemporalIndex, rules: CodedRules, rule: int, subject: int) -> Frontier:
    """The frontier of a rule's first two relations; without nodes where it is of no use."""
    body = rules.body[rule]
    known = subject if uses_frontier(rules, rule) else -1
    return two_hop_frontier(index, known, body[0], body[1], rules.link[rule, 2] == 0)


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
        frontier: see :func:`frontier_of`.
        reached: the result.
    """
    length, body, link = rules.length[rule], rules.body[rule], rules.link[rule]
    if rules.parallel[rule]:
        _reach_parallel(index, subject, body, reached)
    elif length < 3:
        _reach_short(index, subject, time, length, body, link, reached)
    elif uses_frontier(rules, rule):
        _reach_from_frontier(index, subject, time, body[2], link, frontier, reached)
    else:
        _reach_bound(index, subject, time, body, link, reached)


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
    group = find_group(index, subject, body[0])
    if group < 0:
        return
    for pair in range(group_bounds[group], group_bounds[group + 1]):
        through, start = target[pair], bounds[pair]
        if times[start] >= time or (link[1] == 0 and through != subject):
            continue
        end = last_at(times, start, bounds[pair + 1], time - 1) + 1
        if length == 1:
            _note(reached, through, times[end - 1])
            continue
        onward = find_group(index, through, body[1])
        if onward < 0:
            continue
        for step in range(group_bounds[onward], group_bounds[onward + 1]):
            node = target[step]
            if times[end - 1] <= best[node] or not _fits(link[2], 2, node, subject, through):
                continue
            last = last_at(times, bounds[step], bounds[step + 1], time - 1)
            first = last_at(times, start, end, times[last]) if last >= 0 else -1
            if first >= 0:
                _note(reached, node, times[first])


@inlined
def _fits(link: int, place: int, node: int, subject: int, before: int) -> bool:
    """Whether a node may stand at a place of a walk, the one before it being free."""
    if link == place:
        return True
    if link == 0:
        return node == subject
    return link != place - 1 or node == before


@compiled
def _reach_from_frontier(
    index: TemporalIndex,
    subject: int,
    time: int,
    relation: int,
    link: Ints,
    frontier: Frontier,
    reached: Reached,
) -> None:
    """The third fact, from every node that the first two reach."""
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
            if latest <= best[node] or not _fits(link[3], 3, node, subject, through):
                continue
            last = last_at(times, bounds[pair], bounds[pair + 1], time - 1)
            step = last_at(frontier.last, low, high, times[last]) if last >= 0 else -1
            if step >= 0:
                _note(reached, node, frontier.first[step])


@compiled
def _reach_bound(
    index: TemporalIndex, subject: int, time: int, body: Ints, link: Ints, reached: Reached
) -> None:
    """Three facts, a node of which stands twice: walk by walk."""
    times, target, bounds = index.times, index.pair_target, index.pair_bounds
    nodes = np.full(3, subject, np.int64)
    for one in range(*_pairs(index, body[0], link, 1, nodes)):
        nodes[1] = target[one]
        if times[bounds[one]] >= time:
            continue
        for two in range(*_pairs(index, body[1], link, 2, nodes)):
            nodes[2] = target[two]
            if times[bounds[two]] >= time:
                continue
            for three in range(*_pairs(index, body[2], link, 3, nodes)):
                at = last_at(times, bounds[three], bounds[three + 1], time - 1)
                if at >= 0:
                    at = last_at(times, bounds[two], bounds[two + 1], times[at])
                if at >= 0:
                    at = last_at(times, bounds[one], bounds[one + 1], times[at])
                if at >= 0:
                    _note(reached, target[three], times[at])


@compiled
def _pairs(
    index: TemporalIndex, relation: int, link: Ints, place: int, nodes: Longs
) -> tuple[int, int]:
    """The pairs that lead to a place of a walk from the node before it."""
    group = find_group(index, nodes[place - 1], relation)
    if group < 0:
        return 0, 0
    if link[place] == place:
        return index.group_bounds[group], index.group_bounds[group + 1]
    pair = find_pair(index, group, nodes[link[place]])
    return (pair, pair + 1) if pair >= 0 else (0, 0)
