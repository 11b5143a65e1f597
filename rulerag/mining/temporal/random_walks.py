"""Compiled random walks back in time, whose cycles suggest rules, and their random numbers.

Liu et al. 2022 (TLogic, arXiv:2112.08025), section 4.1. Streams of random numbers depend on what
they are for and on nothing else, so that results do not depend on threads or processes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Doubles, Ints, Longs
from rulerag.mining.indexes import first_after
from rulerag.mining.runtime import compiled, inlined
from rulerag.mining.temporal.walk_index import (
    BY_PAIR,
    BY_RELATION,
    BY_TIME,
    RELATION,
    SOURCE,
    TARGET,
    TIME,
    WalkIndex,
)

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
        in time order, and for each of its four nodes the first node with the same entity.
    """
    found, size = np.zeros((count, 7), np.int32), 0
    relations = (len(index.relation_bounds) - 1) // 2
    low, high = index.relation_bounds[head], index.relation_bounds[head + 1]
    nodes, walk = np.zeros(length + 1, np.int64), np.zeros(length, np.int64)
    fact = np.zeros(4, np.int64)
    for _ in range(count if high > low else 0):
        row = low + below(state, high - low)
        for column in range(4):
            fact[column] = index.facts[BY_RELATION, column, row]
        start = fact[SOURCE]
        nodes[0] = fact[TARGET]
        step = 0
        while step < length and _step_back(
            index, fact, start, step == 0, step == length - 1, uniform, state
        ):
            walk[step] = fact[RELATION]
            step += 1
            nodes[step] = fact[TARGET]
        if step == length:
            _write_body(walk, nodes, relations, found[size])
            size += 1
    return found[:size].copy()


@compiled
def _write_body(walk: Longs, nodes: Longs, relations: int, row: Ints) -> None:
    """The body that a walk back in time leaves, read forward in time, with its links."""
    length = len(walk)
    for step in range(length):
        row[step] = _opposite(walk[length - 1 - step], relations)
    for node in range(4):
        row[3 + node] = node
        for other in range(node if node <= length else 0):
            if nodes[length - other] == nodes[length - node]:
                row[3 + node] = other
                break


@inlined
def _opposite(relation: int, relations: int) -> int:
    """The directed relation read from its other end."""
    return relation - relations if relation >= relations else relation + relations


@compiled
def _step_back(
    index: WalkIndex,
    fact: Longs,
    start: int,
    first: bool,
    last: bool,
    uniform: bool,
    state: Stream,
) -> bool:
    """Draw a fact of the present one's target, at or before its time, in its stead; if any."""
    now = fact[TIME]
    low, high = index.bounds[fact[TARGET]], index.bounds[fact[TARGET] + 1]
    order = BY_PAIR if last else BY_TIME
    relation, target, time = (
        index.facts[order, RELATION],
        index.facts[order, TARGET],
        index.facts[order, TIME],
    )
    if last:
        low = first_after(target, low, high, start - 1)
        high = first_after(target, low, high, start)
    high = first_after(time, low, high, now - 1 if first else now)
    straight_back = -1
    if not first:
        opposite = _opposite(fact[RELATION], (len(index.relation_bounds) - 1) // 2)
        row = high - 1
        while row >= low and time[row] == now:
            if relation[row] == opposite and target[row] == fact[SOURCE]:
                straight_back = row
                break
            row -= 1
    drawn = _draw_but(
        time, index.mass[order], low, high, straight_back, float(index.step), uniform, state
    )
    if drawn < 0:
        return False
    for column in range(4):
        fact[column] = index.facts[order, column, drawn]
    return True


@compiled
def _draw_but(
    time: Ints,
    mass: Doubles,
    low: int,
    high: int,
    left_out: int,
    step: float,
    uniform: bool,
    state: Stream,
) -> int:
    """Draw from ``low:high`` but for one row of the latest time, or -1; -1 where nothing is left.

    Rows are drawn alike, or by ``exp(time)``; they are one run of masses.
    """
    if high - low < (1 if left_out < 0 else 2):
        return -1
    if left_out < 0:
        return _draw(time, mass, low, high, step, uniform, state)
    if uniform:
        row = low + below(state, high - low - 1)
        return row + (row >= left_out)
    now = time[high - 1]
    block = first_after(time, low, high, now - 1)
    same, early = high - block - 1, 0.0
    if block > low:
        early = mass[block - 1] * np.exp((time[block - 1] - now) / step)
    if same == 0 or uniform_number(state) * (same + early) >= same:
        return _draw(time, mass, low, block, step, uniform, state)
    row = block + below(state, same)
    return row + (row >= left_out)


@compiled
def _draw(
    time: Ints, mass: Doubles, low: int, high: int, step: float, uniform: bool, state: Stream
) -> int:
    """Draw from the rows ``low:high``, each alike or by ``exp(time)``."""
    if uniform:
        return low + below(state, high - low)
    last = high - 1
    wanted = uniform_number(state) * mass[last]
    while low < high:
        middle = (low + high) // 2
        if mass[middle] * np.exp((time[middle] - time[last]) / step) <= wanted:
            low = middle + 1
        else:
            high = middle
    return min(low, last)
