"""Compiled look-ups in a temporal index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints
from rulerag.mining.indexes.temporal_index import TemporalIndex
from rulerag.mining.runtime import compiled, inlined

NEVER = -(2**31)
"""A time before all times."""


@inlined
def first_after(values: Ints, low: int, high: int, limit: int) -> int:
    """The first place of ``values[low:high]`` (ascending) beyond a limit."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def last_at(values: Ints, low: int, high: int, limit: int) -> int:
    """The place of the last of ``values[low:high]`` (ascending) up to a limit, or -1."""
    if high > low and values[high - 1] <= limit:
        return high - 1
    place = first_after(values, low, high, limit) - 1
    return place if place >= low else -1


@inlined
def find_group(index: TemporalIndex, entity: int, relation: int) -> int:
    """The group of an entity's facts with a directed relation, or -1."""
    low, high = index.entity_bounds[entity], index.entity_bounds[entity + 1]
    place = first_after(index.group_relation, low, high, relation - 1)
    return place if place < high and index.group_relation[place] == relation else -1


@inlined
def find_pair(index: TemporalIndex, group: int, target: int) -> int:
    """The pair of a group with a neighbour, or -1."""
    low, high = index.group_bounds[group], index.group_bounds[group + 1]
    place = first_after(index.pair_target, low, high, target - 1)
    return place if place < high and index.pair_target[place] == target else -1


@compiled
def running_sums(time: Ints, new: npt.NDArray[np.bool_], span: float) -> npt.NDArray[np.float64]:
    """Running sums of ``exp(time / span)`` over runs of rows, each relative to its own row's.

    Args:
        time: int32 array of shape (n,), ascending in each run.
        new: bool array of shape (n,), where runs start.
        span: timestamps in which a row's weight falls to 1/e.
    """
    mass = np.ones(len(time))
    for row in range(1, len(time)):
        if not new[row]:
            mass[row] += mass[row - 1] * np.exp((time[row - 1] - time[row]) / span)
    return mass
