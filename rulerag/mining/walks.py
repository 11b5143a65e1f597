"""Compiled random walks through time: cyclic walks that suggest rules, and sampled bodies.

Liu et al. 2022 (TLogic, arXiv:2112.08025), sections 4.1 and 4.2. Walks are independent of one
another and of the order in which they are made: each draws from a stream of its own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.application_stairs import find_group
from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs
from rulerag.mining.walks_index import Edges, WalkIndex

__all__ = ["cyclic_walks", "last_times", "masses", "sampled_counts", "stream"]

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Stream = npt.NDArray[np.uint64]


@compiled
def masses(time: Ints, new: Bools, step: float) -> Doubles:
    """Running sums of ``exp(time / step)`` over runs of rows, each relative to its own row's.

    Args:
        time: int32 array of shape (n,), ascending in each run.
        new: bool array of shape (n,), where runs start.
        step: timestamps in one step of time.
    """
    mass = np.ones(len(time))
    for row in range(1, len(time)):
        if not new[row]:
            mass[row] += mass[row - 1] * np.exp((time[row - 1] - time[row]) / step)
    return mass


@compiled
def _mixed(value: np.uint64) -> np.uint64:
    """Steele et al. 2014 (SplitMix64, doi:10.1145/2660193.2660195): the output function."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def stream(seed: int, kind: int, number: int) -> Stream:
    """A stream of random numbers of its own for every seed, kind and number."""
    state = _mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    state = _mixed(state ^ (np.uint64(kind) + np.uint64(0xD1B54A32D192ED03)))
    return np.full(1, _mixed(state ^ np.uint64(number)), np.uint64)


@compiled
def _uniform(state: Stream) -> float:
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(_mixed(state[0]) >> np.uint64(11)) * 2.0**-53


@compiled
def _below(state: Stream, count: int) -> int:
    return min(int(_uniform(state) * count), count - 1)


@compiled
def _first_after(time: Ints, low: int, high: int, limit: int) -> int:
    """The first place of ``time[low:high]`` (ascending) beyond a limit."""
    while low < high:
        middle = (low + high) // 2
        if time[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _draw(edges: Edges, low: int, high: int, step: float, uniform: bool, state: Stream) -> int:
    """A place of ``low:high``, each alike or by ``exp(time)``; the rows are one run of masses."""
    if uniform:
        return low + _below(state, high - low)
    last = high - 1
    wanted = _uniform(state) * edges.mass[last]
    while low < high:
        middle = (low + high) // 2
        relative = np.exp((edges.time[middle] - edges.time[last]) / step)
        if edges.mass[middle] * relative <= wanted:
            low = middle + 1
        else:
            high = middle
    return min(low, last)


@compiled
def _draw_but(
    edges: Edges, low: int, high: int, hole: int, step: float, uniform: bool, state: Stream
) -> int:
    """The same without one place, which is of the latest time; -1 where nothing is left."""
    if hole < 0:
        return _draw(edges, low, high, step, uniform, state)
    if high - low < 2:
        return -1
    if uniform:
        place = low + _below(state, high - low - 1)
        return place + (place >= hole)
    now = edges.time[high - 1]
    block = _first_after(edges.time, low, high, now - 1)
    same, early = high - block - 1, 0.0
    if block > low:
        early = edges.mass[block - 1] * np.exp((edges.time[block - 1] - now) / step)
    if same == 0 or _uniform(state) * (same + early) >= same:
        if block > low:
            return _draw(edges, low, block, step, uniform, state)
    place = block + _below(state, same)
    return place + (place >= hole)


@compiled
def _hole(
    edges: Edges, low: int, high: int, relation: int, target: int, now: int
) -> int:
    """The place of the fact with this relation and target among those of the latest time, or -1."""
    for place in range(high - 1, low - 1, -1):
        if edges.time[place] != now:
            break
        if edges.relation[place] == relation and edges.target[place] == target:
            return place
    return -1


@compiled
def cyclic_walks(
    index: WalkIndex, head: int, length: int, count: int, uniform: bool, state: Stream
) -> Ints:
    """Walk back in time from random facts of a relation to where they start.

    The first step goes to a strictly earlier time, further ones no later than the step before and
    never straight back; the last one has to reach the start.

    Args:
        index: the graph.
        head: the directed relation.
        length: steps back, the length of the rule's body, 1 to 3.
        count: how many walks are tried.
        uniform: whether steps are drawn alike, or by ``exp(time)``.
        state: the random stream.

    Returns:
        int32 array of shape (m, 7), one row for each walk that closes: the body's three relations
        in time order, and for each of its four places the first place with the same entity.
    """
    relations = (len(index.relation_bounds) - 1) // 2
    found, size = np.zeros((count, 7), np.int32), 0
    low, high = index.relation_bounds[head], index.relation_bounds[head + 1]
    nodes, walk = np.zeros(5, np.int64), np.zeros(4, np.int64)
    for _ in range(count if high > low else 0):
        fact = low + _below(state, high - low)
        edges = index.by_relation
        start, node = edges.source[fact], edges.target[fact]
        back, now = edges.relation[fact], edges.time[fact]
        before = start
        nodes[0] = node
        closed = True
        for step in range(1, length + 1):
            place, edges = _step_back(
                index, node, before, start, back, now, step == 1, step == length, uniform, state
            )
            if place < 0:
                closed = False
                break
            before, node = node, edges.target[place]
            back, now = edges.relation[place], edges.time[place]
            walk[step - 1], nodes[step] = back, node
        if not closed:
            continue
        for place in range(length):
            relation = walk[length - 1 - place]
            found[size, place] = relation - relations if relation >= relations else relation + relations
        for place in range(length + 1):
            found[size, 3 + place] = place
            for other in range(place):
                if nodes[length - other] == nodes[length - place]:
                    found[size, 3 + place] = other
                    break
        for place in range(length + 1, 4):
            found[size, 3 + place] = place
        size += 1
    return found[:size].copy()


@compiled
def _step_back(
    index: WalkIndex,
    node: int,
    before: int,
    start: int,
    back: int,
    now: int,
    first: bool,
    last: bool,
    uniform: bool,
    state: Stream,
) -> tuple[int, Edges]:
    """Draw a fact of a node at or before a time; its place, or -1, in one of the orders."""
    relations = (len(index.relation_bounds) - 1) // 2
    low, high = index.bounds[node], index.bounds[node + 1]
    edges = index.by_time
    if last:
        edges = index.by_pair
        low = _first_after(edges.target, low, high, start - 1)
        high = _first_after(edges.target, low, high, start)
    high = _first_after(edges.time, low, high, now - 1 if first else now)
    if high <= low:
        return -1, edges
    hole = -1
    if not first:
        opposite = back - relations if back >= relations else back + relations
        hole = _hole(edges, low, high, opposite, before, now)
    return _draw_but(edges, low, high, hole, float(index.step), uniform, state), edges


@compiled
def sampled_counts(index: WalkIndex, rules: Ints, count: int, seed: int) -> Longs:
    """Sample bodies of rules: how many a head follows, and how many distinct ones there are.

    The first fact of a body is drawn alike from its relation, each further one alike from those of
    the node at the same time or later. Where a rule's variables return, a body counts if exactly
    these places hold the same entity. Rules whose bodies begin alike share these beginnings.

    Args:
        index: the graph.
        rules: int32 array of shape (n, 9), sorted by body: head, length, the body's three
            relations (-1 where it is shorter), and for each of its four places the first place with the same entity.
        count: how many bodies are drawn for each rule.
        seed: of the random streams.

    Returns:
        int64 array of shape (n, 2).
    """
    directed = len(index.relation_bounds) - 1
    counts = np.zeros((len(rules), 2), np.int64)
    facts = np.zeros((4, count), np.int64)
    kept = np.zeros(count, np.bool_)
    for row in range(len(rules)):
        length, known = rules[row, 1], 0
        # The rule before has the same first facts: its bodies, which are longer, begin this one.
        while row and known < length and rules[row - 1, 2 + known] == rules[row, 2 + known]:
            known += 1
        for step in range(known, length):
            number = 0
            for relation in rules[row, 2 : 3 + step]:
                number = number * directed + relation
            _draw_step(index, rules[row, 2 + step], step, facts, stream(seed, 10 + step, number))
        if known < length or (row and rules[row - 1, 1] != length):
            _mark_distinct(facts[:length], kept)
        _count(index, rules[row], facts, kept, counts[row])
    return counts


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
            facts[0, body] = low + _below(state, high - low) if high > low else -1
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
            low = _first_after(onward, low, high, edges.time[before] - 1)
            if low < high:
                facts[step, body] = low + _below(state, high - low)


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
            code = _mixed(code ^ np.uint64(facts[step, body]))
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
        counts[0] += _followed(index.last_key, index.last_time, code, time)


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


@compiled
def _slot(key: Longs, code: int) -> int:
    """Where a code stands in an open hash table, or the empty place (-1) where it would."""
    slot = np.int64(_mixed(np.uint64(code)) % np.uint64(len(key)))
    while key[slot] >= 0 and key[slot] != code:
        slot = (slot + 1) % len(key)
    return slot


@compiled
def last_times(quads: Longs, entities: int, directed: int) -> tuple[Longs, Ints]:
    """A hash table of the last time of every (source, relation, target): keys and times.

    Args:
        quads: int64 array of shape (2 F, 4), sorted: source, relation, target, timestamp.
        entities: N.
        directed: 2 R.
    """
    slots = 8
    while slots < 2 * len(quads):
        slots *= 2
    key, time = np.full(slots, -1, np.int64), np.zeros(slots, np.int32)
    for row in range(len(quads)):
        code = (quads[row, 0] * directed + quads[row, 1]) * entities + quads[row, 2]
        slot = _slot(key, code)
        key[slot], time[slot] = code, quads[row, 3]
    return key, time


@compiled
def _followed(key: Longs, last: Ints, code: int, time: int) -> bool:
    """Whether the head holds at a later time."""
    slot = _slot(key, code)
    return key[slot] >= 0 and last[slot] > time
