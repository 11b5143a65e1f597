"""Compiled counts of the bodies of temporal rules, all of them or a sample.

Liu et al. 2022 (TLogic, arXiv:2112.08025), section 4.2: the confidence of a rule is estimated over
the distinct ones among sampled bodies.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.application_stairs import find_group
from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs
from rulerag.mining.walks_columns import first_after, followed
from rulerag.mining.walks_index import WalkIndex
from rulerag.mining.walks_random import Stream, below, mixed, stream

__all__ = ["body_counts"]

Bools = npt.NDArray[np.bool_]


@compiled
def body_counts(index: WalkIndex, rules: Ints, count: int, seed: int) -> Longs:
    """Count bodies of rules: how many the head follows, and how many distinct ones there are.

    Where a body's relations, and those that it begins with, have no more groundings than ``count``,
    all of them are counted. Elsewhere ``count`` bodies are drawn, the first fact alike from its
    relation, each further one alike from those of the node at the same time or later, and the
    distinct ones count. Where a rule's variables return, a body counts if exactly these places hold
    the same entity. Rules whose bodies begin alike share these beginnings.

    Args:
        index: the graph.
        rules: rows of :class:`~rulerag.mining.tlogic_rules.TemporalRules`, sorted by body.
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
            _mark_distinct(drawn[:length], kept)
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
        every[0, 0, : high - low] = np.arange(low, high)
        return int(high - low)
    edges = index.by_relation if step == 1 else index.onward
    bits, onward, graph = index.has[relation], index.onward.time, index.graph
    for body in range(sizes[step - 1]):
        before = every[step - 1, step - 1, body]
        node = edges.target[before]
        if not _has(bits, node):
            continue
        group = find_group(graph.entity_bounds, graph.group_relation, node, relation)
        low = graph.pair_bounds[graph.group_bounds[group]]
        high = graph.pair_bounds[graph.group_bounds[group + 1]]
        low = first_after(onward, low, high, edges.time[before] - 1)
        if size + high - low > room:
            return -1
        for place in range(low, high):
            for earlier in range(step):
                every[step, earlier, size] = every[step - 1, earlier, body]
            every[step, step, size] = place
            size += 1
    return size if sizes[step - 1] >= 0 else -1


@compiled
def _has(bits: npt.NDArray[np.uint8], node: int) -> bool:
    """Whether a node has facts with the directed relation of these bits."""
    return bool((bits[node >> 3] >> (node & 7)) & 1)


@compiled
def _draw_step(index: WalkIndex, relation: int, step: int, facts: Longs, state: Stream) -> None:
    """Draw the next fact of every body: a place in ``by_relation`` or ``onward``, or -1."""
    if step == 0:
        low, high = index.relation_bounds[relation], index.relation_bounds[relation + 1]
        for body in range(facts.shape[1]):
            facts[0, body] = low + below(state, high - low) if high > low else -1
        return
    edges = index.by_relation if step == 1 else index.onward
    bits, onward, graph = index.has[relation], index.onward.time, index.graph
    for body in range(facts.shape[1]):
        before = facts[step - 1, body]
        facts[step, body] = -1
        if before < 0:
            continue
        node = edges.target[before]
        if _has(bits, node):
            group = find_group(graph.entity_bounds, graph.group_relation, node, relation)
            low = graph.pair_bounds[graph.group_bounds[group]]
            high = graph.pair_bounds[graph.group_bounds[group + 1]]
            low = first_after(onward, low, high, edges.time[before] - 1)
            if low < high:
                facts[step, body] = low + below(state, high - low)


@compiled
def _mark_distinct(facts: Longs, kept: Bools) -> None:
    """Mark complete bodies, each distinct one once."""
    slots = 4
    while slots < 4 * len(kept):
        slots *= 2
    table = np.full(slots, -1, np.int64)
    for body in range(len(kept)):
        kept[body] = facts[-1, body] >= 0
        if not kept[body]:
            continue
        code = np.uint64(0)
        for step in range(len(facts)):
            code = mixed(code ^ np.uint64(facts[step, body]))
        slot = np.int64(code & np.uint64(slots - 1))
        while table[slot] >= 0 and kept[body]:
            kept[body] = np.any(facts[:, table[slot]] != facts[:, body])
            slot = (slot + 1) % slots
        if kept[body]:
            table[slot] = body


@compiled
def _count(index: WalkIndex, rule: Ints, facts: Longs, kept: Bools, counts: Longs) -> None:
    directed, entities = len(index.relation_bounds) - 1, len(index.bounds) - 1
    length, link = rule[1], rule[5:9]
    bound = False
    for place in range(length + 1):
        bound |= link[place] != place
    nodes = np.zeros(4, np.int64)
    last = index.by_relation if length == 1 else index.onward
    for body in range(len(kept)):
        if not kept[body]:
            continue
        nodes[0] = index.by_relation.source[facts[0, body]]
        nodes[1] = index.by_relation.target[facts[0, body]]
        for step in range(1, length):
            nodes[step + 1] = index.onward.target[facts[step, body]]
        if bound and not _as_linked(nodes, link, length):
            continue
        time = last.time[facts[length - 1, body]]
        counts[1] += 1
        code = (nodes[0] * directed + rule[0]) * entities + nodes[length]
        counts[0] += followed(index.last_key, index.last_time, code, time)


@compiled
def _as_linked(nodes: Longs, link: Ints, length: int) -> bool:
    """Whether exactly the linked places hold the same entities."""
    for place in range(length + 1):
        first = place
        for other in range(place):
            if nodes[other] == nodes[place]:
                first = other
                break
        if first != link[place]:
            return False
    return True
