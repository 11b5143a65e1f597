"""Compiled columns over facts: running sums for draws by time, a table of last times, searches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs
from rulerag.mining.walks_random import mixed

__all__ = ["first_after", "followed", "last_times", "masses"]

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]


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
def _slot(key: Longs, code: int) -> int:
    """Where a code stands in an open hash table, or the empty place (-1) where it would."""
    slot = np.int64(mixed(np.uint64(code)) % np.uint64(len(key)))
    while key[slot] >= 0 and key[slot] != code:
        slot = (slot + 1) % len(key)
    return int(slot)


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
def followed(key: Longs, last: Ints, code: int, time: int) -> bool:
    """Whether the head holds at a later time."""
    slot = _slot(key, code)
    return bool(key[slot] >= 0 and last[slot] > time)


@compiled
def first_after(time: Ints, low: int, high: int, limit: int) -> int:
    """The first place of ``time[low:high]`` (ascending) beyond a limit."""
    while low < high:
        middle = (low + high) // 2
        if time[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low
