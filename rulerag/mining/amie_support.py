"""Compiled support of two-atom bodies; the arrays are described in ``amie_index``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.jit import compiled

__all__ = ["count_bodies", "grow", "seek", "slot_of"]

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@compiled
def seek(values: Ints | Longs, start: int, stop: int, wanted: int) -> int:
    """The first place of the sorted ``values[start:stop]`` with a value of ``wanted`` or more.

    Gallops, so that merging a short list with a long one costs little more than the short one.
    """
    step = 1
    low = start
    high = start
    while high < stop and values[high] < wanted:
        low = high + 1
        high += step
        step *= 2
    high = min(high, stop)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def slot_of(keys: Longs, key: int) -> int:
    """Where ``key`` stands in an open-addressing table, or where it would; -1 marks free slots."""
    mask = keys.shape[0] - 1
    slot = ((key * 0x9E3779B97F4A7C1) >> 17) & mask
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return int(slot)


@compiled
def grow(keys: Longs, counts: Longs, stamps: Longs) -> tuple[Longs, Longs, Longs]:
    """The table with twice the slots."""
    size = keys.shape[0] * 2
    new_keys = np.full(size, -1, np.int64)
    new_counts = np.zeros(size, np.int64)
    new_stamps = np.zeros(size, np.int64)
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            slot = slot_of(new_keys, keys[i])
            new_keys[slot] = keys[i]
            new_counts[slot] = counts[i]
            new_stamps[slot] = stamps[i]
    return new_keys, new_counts, new_stamps


@compiled
def _fact_bodies(
    head: int,
    num_relations: int,
    x: int,
    y: int,
    entity_bounds: Longs,
    pair_target: Ints,
    pair_starts: Longs,
    pair_relation: Ints,
    buffer: Longs,
) -> tuple[int, Longs]:
    """Write the keys of all two-atom bodies from x to y, some of them twice.

    Returns:
        How many keys, and the buffer, which may be a larger one.
    """
    directed = 2 * num_relations
    found = 0
    # Walk the shorter list of neighbours and look each up in the longer one.
    swap = entity_bounds[x + 1] - entity_bounds[x] > entity_bounds[y + 1] - entity_bounds[y]
    a = y if swap else x
    b = x if swap else y
    j = entity_bounds[b]
    stop = entity_bounds[b + 1]
    for i in range(entity_bounds[a], entity_bounds[a + 1]):
        j = seek(pair_target, j, stop, pair_target[i])
        if j == stop:
            break
        if pair_target[j] != pair_target[i]:
            continue
        near = j if swap else i  # the pair (x, z)
        far = i if swap else j  # the pair (y, z)
        p_end = pair_starts[near + 1]
        q_end = pair_starts[far + 1]
        space = (p_end - pair_starts[near]) * (q_end - pair_starts[far])
        if found + space > buffer.shape[0]:
            buffer = np.concatenate((buffer[:found], np.empty(found + space, np.int64)))
        for p in range(pair_starts[near], p_end):
            for q in range(pair_starts[far], q_end):
                back = pair_relation[q]
                second = back + num_relations if back < num_relations else back - num_relations
                buffer[found] = np.int64(pair_relation[p]) * directed + second
                found += 1
    own = seek(pair_target, entity_bounds[x], entity_bounds[x + 1], y)
    count = pair_starts[own + 1] - pair_starts[own]
    if found + count * count > buffer.shape[0]:
        buffer = np.concatenate((buffer[:found], np.empty(count * count, np.int64)))
    for p in range(pair_starts[own], pair_starts[own + 1]):
        for q in range(p + 1, pair_starts[own + 1]):
            if pair_relation[p] != head and pair_relation[q] != head:
                first = directed + np.int64(pair_relation[p])
                buffer[found] = first * directed + pair_relation[q]
                found += 1
    return found, buffer


@compiled
def count_bodies(
    head: int,
    num_relations: int,
    min_support: int,
    sources: Ints,
    targets: Ints,
    entity_bounds: Longs,
    pair_target: Ints,
    pair_starts: Longs,
    pair_relation: Ints,
) -> tuple[Longs, Longs]:
    """Count, for one head relation, how many of its facts each two-atom body predicts.

    A path body ``d1(x, z), d2(z, y)`` has the key ``d1 * D + d2``, a parallel body ``d1(x, y),
    d2(x, y)`` with ``d1 < d2`` the key ``D * D + d1 * D + d2``, where D = 2 R.

    Args:
        head: the head relation.
        num_relations: R.
        min_support: least support to return.
        sources: int32 array, the subjects of the head's facts.
        targets: int32 array, their objects.
        entity_bounds: pairs of each entity.
        pair_target: neighbour of each pair.
        pair_starts: directed relations of each pair.
        pair_relation: directed relations.

    Returns:
        Keys with enough support and their supports, unsorted.
    """
    keys = np.full(1024, -1, np.int64)
    counts = np.zeros(1024, np.int64)
    stamps = np.zeros(1024, np.int64)  # the last fact that each key was counted for
    buffer = np.empty(1024, np.int64)
    used = 0
    for fact in range(sources.shape[0]):
        found, buffer = _fact_bodies(
            head,
            num_relations,
            sources[fact],
            targets[fact],
            entity_bounds,
            pair_target,
            pair_starts,
            pair_relation,
            buffer,
        )
        for i in range(found):
            slot = slot_of(keys, buffer[i])
            if keys[slot] < 0:
                keys[slot] = buffer[i]
                counts[slot] = 1
                stamps[slot] = fact
                used += 1
                if 2 * used > keys.shape[0]:
                    keys, counts, stamps = grow(keys, counts, stamps)
            elif stamps[slot] != fact:
                stamps[slot] = fact
                counts[slot] += 1
    enough = (keys >= 0) & (counts >= min_support)
    return keys[enough], counts[enough]
