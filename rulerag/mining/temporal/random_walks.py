"""Compiled random walks back in time, whose cycles suggest rules, and their random numbers.

Liu et al. 2022 (TLogic, arXiv:2112.08025), section 4.1. Streams of random numbers depend on what
they are for and on nothing else, so that results do not depend on threads or processes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.mining.indexes import first_after
from rulerag.mining.runtime import compiled
from rulerag.mining.temporal.walk_index import Edges, WalkIndex

__all__ = ["Stream", "below", "cyclic_walks", "mixed", "stream", "uniform_number"]

Stream = npt.NDArray[np.uint64]


@compiled
def mixed(value: np.uint64) -> np.uint64:
    """Steele et al. 2014 (SplitMix64, doi:10.1145/2660193.2660195): the output function."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def stream(seed: int, kind: int, number: int) -> Stream:
    """A stream of random numbers of its own for every seed, kind and number."""
    state = mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    state = mixed(state ^ (np.uint64(kind) + np.uint64(0xD1B54A32D192ED03)))
    return np.full(1, mixed(state ^ np.uint64(number)), np.uint64)


@compiled
def uniform_number(state: Stream) -> float:
    """The next number of a stream, from 0 to below 1."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(mixed(state[0]) >> np.uint64(11)) * 2.0**-53


@compiled
def below(state: Stream, count: int) -> int:
    """The next whole number of a stream, from 0 to below a count."""
    return min(int(uniform_number(state) * count), count - 1)


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
    found, size = np.zeros((count, 7), np.int32), 0
    low, high = index.relation_bounds[head], index.relation_bounds[head + 1]
    nodes, walk = np.zeros(length + 1, np.int64), np.zeros(length, np.int64)
    for _ in range(count if high > low else 0):
        fact = low + below(state, high - low)
        edges = index.by_relation
        start, node = edges.source[fact], edges.target[fact]
        back, now = edges.relation[fact], edges.time[fact]
        before, place = start, 0
        nodes[0] = node
        for step in range(1, length + 1):
            place, edges = _step_back(
                index, node, before, start, back, now, step == 1, step == length, uniform, state
            )
            if place < 0:
                break
            before, node = node, edges.target[place]
            back, now = edges.relation[place], edges.time[place]
            walk[step - 1], nodes[step] = back, node
        if place >= 0:
            _write_body(walk, nodes, (len(index.relation_bounds) - 1) // 2, found[size])
            size += 1
    return found[:size].copy()


@compiled
def _write_body(walk: Longs, nodes: Longs, relations: int, row: Ints) -> None:
    """The body that a walk back in time leaves, read forward in time, with its links."""
    length = len(walk)
    for place in range(length):
        back = walk[length - 1 - place]
        row[place] = back - relations if back >= relations else back + relations
    row[3:] = np.arange(4)
    for place in range(1, length + 1):
        for other in range(place):
            if nodes[length - other] == nodes[length - place]:
                row[3 + place] = other
                break


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
        low = first_after(edges.target, low, high, start - 1)
        high = first_after(edges.target, low, high, start)
    high = first_after(edges.time, low, high, now - 1 if first else now)
    if high <= low:
        return -1, edges
    hole = -1
    if not first:
        opposite = back - relations if back >= relations else back + relations
        hole = _hole(edges, low, high, opposite, before, now)
    return _draw_but(edges, low, high, hole, float(index.step), uniform, state), edges


@compiled
def _hole(edges: Edges, low: int, high: int, relation: int, target: int, now: int) -> int:
    """The place of the fact with this relation and target among those of the latest time, or -1."""
    for place in range(high - 1, low - 1, -1):
        if edges.time[place] != now:
            break
        if edges.relation[place] == relation and edges.target[place] == target:
            return place
    return -1


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
        place = low + below(state, high - low - 1)
        return place + (place >= hole)
    now = edges.time[high - 1]
    block = first_after(edges.time, low, high, now - 1)
    same, early = high - block - 1, 0.0
    if block > low:
        early = edges.mass[block - 1] * np.exp((edges.time[block - 1] - now) / step)
    if same == 0 or uniform_number(state) * (same + early) >= same:
        return _draw(edges, low, block, step, uniform, state)
    place = block + below(state, same)
    return place + (place >= hole)


@compiled
def _draw(edges: Edges, low: int, high: int, step: float, uniform: bool, state: Stream) -> int:
    """A place of ``low:high``, each alike or by ``exp(time)``; the rows are one run of masses."""
    if uniform:
        return low + below(state, high - low)
    last = high - 1
    wanted = uniform_number(state) * edges.mass[last]
    while low < high:
        middle = (low + high) // 2
        relative = np.exp((edges.time[middle] - edges.time[last]) / step)
        if edges.mass[middle] * relative <= wanted:
            low = middle + 1
        else:
            high = middle
    return min(low, last)
