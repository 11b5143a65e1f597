"""Longer temporal rules: walks suggest them, bodies count them, one relation at a time.

Liu et al. 2022 (TLogic, arXiv:2112.08025), section 4.2: the confidence of a rule is estimated over
the distinct ones among sampled bodies.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Bools, Ints, Longs
from rulerag.mining.indexes import TemporalIndex, find_group, find_pair, first_after
from rulerag.mining.runtime import compiled, inlined
from rulerag.mining.temporal.random_walks import Stream, below, cyclic_walks, mixed, stream
from rulerag.mining.temporal.rules import TemporalRules
from rulerag.mining.temporal.walk_index import (
    BY_RELATION,
    ONWARD,
    SOURCE,
    TARGET,
    TIME,
    WalkIndex,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulerag.mining.runtime import TaskRunner


def suggest_rules(
    index: WalkIndex,
    lengths: Sequence[int],
    num_walks: int,
    uniform: bool,
    seed: int,
    runner: TaskRunner,
) -> Ints:
    """The distinct rules that walks suggest, rows of :class:`TemporalRules`, sorted by body.

    Args:
        index: the facts.
        lengths: body lengths of rules to look for.
        num_walks: walks tried for each directed relation and length.
        uniform: whether walks draw all facts alike, or recent ones more.
        seed: of all random streams.
        runner: where relations are worked on.
    """
    heads = np.flatnonzero(np.diff(index.relation_bounds)).tolist()
    task = partial(_suggest, index, tuple(lengths), num_walks, uniform, seed)
    parts = runner.map("random walks", "walks", task, heads)
    rows = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in parts)])
    rules = rows.reshape(-1, 9)
    order = np.lexsort((*rules[:, [8, 7, 6, 5, 0]].T, *rules[:, [4, 3, 2]].T))
    return np.ascontiguousarray(rules[order], np.int32)


def count_rules(
    index: WalkIndex, rules: Ints, num_bodies: int, seed: int, runner: TaskRunner
) -> TemporalRules:
    """Rules of two and three body atoms with their counts; those without any body are left out.

    Args:
        index: the facts.
        rules: rows as :func:`suggest_rules` gives them, in that order.
        num_bodies: bodies held for each rule: all, or so many samples.
        seed: of all random streams.
        runner: where relations are worked on.
    """
    first, starts = np.unique(rules[:, 2], return_index=True)
    groups = dict(zip(first.tolist(), np.split(rules, starts[1:]), strict=False))
    task = partial(_count_group, index, groups, num_bodies, seed)
    parts = runner.map("bodies", "bodies", task, list(groups))
    none = np.zeros(0, np.int64)
    support = np.concatenate([none, *(support for support, _ in parts)])
    body_size = np.concatenate([none, *(size for _, size in parts)])
    keep = body_size > 0
    return TemporalRules(rules[keep], support[keep], body_size[keep])


def _suggest(
    index: WalkIndex,
    lengths: tuple[int, ...],
    num_walks: int,
    uniform: bool,
    seed: int,
    head: int,
) -> tuple[Longs, Longs]:
    """The rules that walks from one directed relation suggest; the second array is empty."""
    parts = []
    for length in lengths:
        state = stream(seed, length, head)
        bodies = _distinct(cyclic_walks(index, head, length, num_walks, uniform, state))
        bodies[:, length:3] = -1
        front = np.tile(np.array([head, length]), (len(bodies), 1))
        parts.append(np.concatenate([front, bodies], axis=1))
    return np.concatenate(parts).reshape(-1), np.zeros(0, np.int64)


def _distinct(rows: Ints) -> Ints:
    """Distinct rows in ascending order.

    NumPy's own compares structured values, and where an interrupt falls into that it says that they
    cannot be compared, in place of the interrupt.
    """
    if not len(rows):
        return rows
    ordered = rows[np.lexsort(rows.T[::-1])]
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[first]


def _count_group(
    index: WalkIndex, groups: dict[int, Ints], num_bodies: int, seed: int, first: int
) -> tuple[Longs, Longs]:
    """Support and body size of the rules whose bodies begin with one directed relation."""
    support, body_size = body_counts(index, groups[first], num_bodies, seed).T.copy()
    return support, body_size


@compiled
def body_counts(index: WalkIndex, rules: Ints, count: int, seed: int) -> Longs:
    """Count bodies of rules: how many the head follows, and how many distinct ones there are.

    Where a body's relations, and those that it begins with, have no more groundings than ``count``,
    all of them are counted. Elsewhere ``count`` bodies are drawn, the first fact alike from its
    relation, each further one alike from those of the node at the same time or later, and the
    distinct ones count. Where a rule's variables return, a body counts if exactly these nodes are
    the same entity. Rules whose bodies begin alike share these beginnings.

    Args:
        index: the graph.
        rules: rows of :class:`TemporalRules`, sorted by body.
        count: how many bodies are held at most.
        seed: of the random streams.

    Returns:
        int64 array of shape (n, 2).
    """
    directed = len(index.relation_bounds) - 1
    counts = np.zeros((len(rules), 2), np.int64)
    drawn, kept = np.zeros((3, count), np.int64), np.zeros(count, np.bool_)
    # All bodies of the first one, two and three relations, as far as they are few enough; or -1.
    every, sizes = np.zeros((3, 3, count), np.int64), np.zeros(3, np.int64)
    for row in range(len(rules)):
        length, known = rules[row, 1], 0
        # The rule before has the same first facts: its bodies, which are longer, begin this one.
        while row and known < length and rules[row - 1, 2 + known] == rules[row, 2 + known]:
            known += 1
        for step in range(known, length):
            number = 0
            for relation in rules[row, 2 : 3 + step]:
                number = number * directed + relation
            _draw_step(index, rules[row, 2 + step], step, drawn, stream(seed, step, number))
            sizes[step] = _all_steps(index, rules[row, 2 + step], step, every, sizes)
        size = sizes[length - 1]
        if size >= 0:
            kept[:size], kept[size:] = True, False
            _count(index, rules[row], every[length - 1], kept, counts[row])
        else:
            _mark_distinct(drawn, length, kept)
            _count(index, rules[row], drawn, kept, counts[row])
    return counts


@compiled
def _all_steps(index: WalkIndex, relation: int, step: int, every: Longs, sizes: Longs) -> int:
    """List all bodies one fact longer; their number, or -1 where they are too many."""
    room, size = every.shape[2], 0
    if step == 0:
        low, high = index.relation_bounds[relation], index.relation_bounds[relation + 1]
        if high - low > room:
            return -1
        for row in range(low, high):
            every[0, 0, row - low] = row
        return int(high - low)
    order = BY_RELATION if step == 1 else ONWARD
    target, time = index.facts[order, TARGET], index.facts[order, TIME]
    graph, bits, onward = index.graph, index.has[relation], index.facts[ONWARD, TIME]
    for body in range(sizes[step - 1]):
        before = every[step - 1, step - 1, body]
        low, high = _onward(graph, bits, onward, relation, target[before], time[before])
        if size + high - low > room:
            return -1
        for row in range(low, high):
            for earlier in range(step):
                every[step, earlier, size] = every[step - 1, earlier, body]
            every[step, step, size] = row
            size += 1
    return size if sizes[step - 1] >= 0 else -1


@inlined
def _has(bits: npt.NDArray[np.uint8], node: int) -> int:
    """1 where a node has facts with the directed relation of these bits, else 0."""
    bit: int = (bits[node >> 3] >> (node & 7)) & 1
    return bit  # ``bool(bit)`` would double the time of a draw


# What a loop reads is fetched in front of it: handing on the whole index costs more than a look-up.
@inlined
def _onward(
    graph: TemporalIndex,
    bits: npt.NDArray[np.uint8],
    onward: Ints,
    relation: int,
    node: int,
    now: int,
) -> tuple[int, int]:
    """The facts of a node by a relation, at a time or later."""
    if not _has(bits, node):
        return 0, 0
    group = first_after(
        graph.group_relation, graph.entity_bounds[node], graph.entity_bounds[node + 1], relation - 1
    )
    low = graph.pair_bounds[graph.group_bounds[group]]
    high = graph.pair_bounds[graph.group_bounds[group + 1]]
    return first_after(onward, low, high, now - 1), high


@compiled
def _draw_step(index: WalkIndex, relation: int, step: int, facts: Longs, state: Stream) -> None:
    """Draw the next fact of every body: its row in ``BY_RELATION``, later ``ONWARD``; or -1."""
    if step == 0:
        low, high = index.relation_bounds[relation], index.relation_bounds[relation + 1]
        for body in range(facts.shape[1]):
            facts[0, body] = low + below(state, high - low) if high > low else -1
        return
    order = BY_RELATION if step == 1 else ONWARD
    target, time = index.facts[order, TARGET], index.facts[order, TIME]
    graph, bits, onward = index.graph, index.has[relation], index.facts[ONWARD, TIME]
    for body in range(facts.shape[1]):
        before = facts[step - 1, body]
        facts[step, body] = -1
        if before >= 0:
            low, high = _onward(graph, bits, onward, relation, target[before], time[before])
            if high > low:
                facts[step, body] = low + below(state, high - low)


@compiled
def _mark_distinct(facts: Longs, length: int, kept: Bools) -> None:
    """Mark complete bodies of a length, each distinct one once."""
    slots = 4
    while slots < 4 * len(kept):
        slots *= 2
    table = np.full(slots, -1, np.int64)
    for body in range(len(kept)):
        kept[body] = facts[length - 1, body] >= 0
        if not kept[body]:
            continue
        code = np.uint64(0)
        for step in range(length):
            code = mixed(code ^ np.uint64(facts[step, body]))
        slot = np.int64(code & np.uint64(slots - 1))
        while table[slot] >= 0 and kept[body]:
            step = 0
            while step < length and facts[step, table[slot]] == facts[step, body]:
                step += 1
            kept[body] = step < length
            slot = (slot + 1) % slots
        if kept[body]:
            table[slot] = body


@compiled
def _count(index: WalkIndex, rule: Ints, facts: Longs, kept: Bools, counts: Longs) -> None:
    """Add the kept bodies of a rule to its support and body size."""
    length, link, graph, bits = rule[1], rule[5:9], index.graph, index.has[rule[0]]
    bound = False
    for number in range(length + 1):
        bound = bound or link[number] != number
    nodes = np.zeros(4, np.int64)
    source, target = index.facts[BY_RELATION, SOURCE], index.facts[BY_RELATION, TARGET]
    onward = index.facts[ONWARD, TARGET]
    time = index.facts[BY_RELATION if length == 1 else ONWARD, TIME]
    for body in range(len(kept)):
        if not kept[body]:
            continue
        nodes[0], nodes[1] = source[facts[0, body]], target[facts[0, body]]
        for step in range(1, length):
            nodes[step + 1] = onward[facts[step, body]]
        if bound and not _as_linked(nodes, link, length):
            continue
        counts[1] += 1
        if not _has(bits, nodes[0]):
            continue
        pair = find_pair(graph, find_group(graph, nodes[0], rule[0]), nodes[length])
        if pair >= 0:
            latest = graph.times[graph.pair_bounds[pair + 1] - 1]
            counts[0] += latest > time[facts[length - 1, body]]


@compiled
def _as_linked(nodes: Longs, link: Ints, length: int) -> bool:
    """Whether exactly the linked nodes are the same entities."""
    for number in range(length + 1):
        first = 0
        while nodes[first] != nodes[number]:
            first += 1
        if first != link[number]:
            return False
    return True
