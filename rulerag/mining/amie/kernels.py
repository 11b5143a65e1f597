"""Compiled support and sizes of two-atom bodies, over the columns of a :class:`StaticIndex`."""

from __future__ import annotations

import numpy as np

from rulerag.arrays import Ints, Longs
from rulerag.mining.indexes import StaticIndex
from rulerag.mining.runtime import compiled, doubled, inlined, int64


@compiled
def seek(values: Ints, start: int, stop: int, wanted: int) -> int:
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
def next_equal(one: Ints, i: int, i_end: int, two: Ints, j: int, j_end: int) -> tuple[int, int]:
    """The next places at which two sorted lists hold the same value; an end where none does."""
    while i < i_end and j < j_end and one[i] != two[j]:
        if one[i] < two[j]:
            i = seek(one, i, i_end, two[j])
        else:
            j = seek(two, j, j_end, one[i])
    return i, j


# --- support -------------------------------------------------------------------------------------


@compiled
def slot_of(keys: Longs, key: int) -> int:
    """Where ``key`` stands in an open-addressing table, or where it would; -1 marks free slots."""
    mask = keys.shape[0] - 1
    slot = ((key * 0x9E3779B97F4A7C1) >> 17) & mask
    while keys[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return int(slot)


@compiled
def grown(table: Longs) -> Longs:
    """The table (keys, counts, last facts) with twice the slots."""
    larger = np.full((3, 2 * table.shape[1]), -1, np.int64)
    for i in range(table.shape[1]):
        if table[0, i] >= 0:
            slot = slot_of(larger[0], table[0, i])
            for column in range(3):
                larger[column, slot] = table[column, i]
    return larger


@inlined
def counted(table: Longs, used: int, key: int, fact: int) -> tuple[Longs, int]:
    """Count a key once for each fact: the table, and how many keys it holds."""
    slot = slot_of(table[0], key)
    if table[0, slot] < 0:
        table[0, slot], table[1, slot], table[2, slot] = key, 1, fact
        used += 1
        if 2 * used > table.shape[1]:
            table = grown(table)
    elif table[2, slot] != fact:
        table[2, slot] = fact
        table[1, slot] += 1
    return table, used


@inlined
def turned(directed: int, half: int) -> int:
    """A directed relation read from its other end; ``half`` relations have names."""
    return int64(directed + half if directed < half else directed - half)


@compiled
def _fact_bodies(index: StaticIndex, head: int, x: int, y: int, keys: Longs) -> tuple[int, Longs]:
    """Write the keys of all two-atom bodies from x to y, some of them twice.

    Returns:
        How many keys, and the buffer, which may be a larger one.
    """
    directed = 2 * index.num_relations
    bounds, target = index.entity_bounds, index.pair_target
    starts, relation = index.pair_starts, index.pair_relation
    found = 0
    # Walk the shorter list of neighbours and look each up in the longer one.
    swap = bounds[x + 1] - bounds[x] > bounds[y + 1] - bounds[y]
    a = y if swap else x
    b = x if swap else y
    j = bounds[b]
    for i in range(bounds[a], bounds[a + 1]):
        j = seek(target, j, bounds[b + 1], target[i])
        if j == bounds[b + 1]:
            break
        if target[j] != target[i]:
            continue
        near = j if swap else i  # the pair (x, z)
        far = i if swap else j  # the pair (y, z)
        space = (starts[near + 1] - starts[near]) * (starts[far + 1] - starts[far])
        while found + space > keys.shape[0]:
            keys = doubled(keys)
        for p in range(starts[near], starts[near + 1]):
            for q in range(starts[far], starts[far + 1]):
                second = turned(relation[q], index.num_relations)
                keys[found] = int64(relation[p]) * directed + second
                found += 1
    own = seek(target, bounds[x], bounds[x + 1], y)
    space = (starts[own + 1] - starts[own]) ** 2
    while found + space > keys.shape[0]:
        keys = doubled(keys)
    for p in range(starts[own], starts[own + 1]):
        for q in range(p + 1, starts[own + 1]):
            if relation[p] != head and relation[q] != head:
                keys[found] = (directed + int64(relation[p])) * directed + relation[q]
                found += 1
    return found, keys


@compiled
def count_bodies(index: StaticIndex, head: int) -> Longs:
    """Count, for one head relation, how many of its facts each two-atom body predicts.

    A path body ``d1(x, z), d2(z, y)`` has the key ``d1 * D + d2``, a parallel body ``d1(x, y),
    d2(x, y)`` with ``d1 < d2`` the key ``D * D + d1 * D + d2``, where D = 2 R.

    Returns:
        int64 array of shape (3, slots): keys, or -1 where a slot is free, their supports, and the
        last fact that each was counted for.
    """
    table = np.full((3, 1024), -1, np.int64)
    buffer = np.empty(1024, np.int64)
    used = int64(0)
    for fact in range(index.relation_bounds[head], index.relation_bounds[head + 1]):
        found, buffer = _fact_bodies(index, head, index.source[fact], index.target[fact], buffer)
        for i in range(found):
            table, used = counted(table, used, buffer[i], fact)
    return table


# --- sizes ---------------------------------------------------------------------------------------


@compiled
def equal_groups(group_bounds: Longs, group_starts: Longs, target: Ints) -> Longs:
    """Find the groups of each directed relation that have the same targets.

    Returns:
        int64 array of shape (G,): for each group the first one of its relation with equal targets.
    """
    first = np.empty(group_starts.shape[0] - 1, np.int64)
    for d in range(group_bounds.shape[0] - 1):
        size = 16
        while size < 2 * (group_bounds[d + 1] - group_bounds[d]):
            size *= 2
        table = np.full(size, -1, np.int64)
        for g in range(group_bounds[d], group_bounds[d + 1]):
            start = group_starts[g]
            length = group_starts[g + 1] - start
            code = length
            for i in range(start, start + length):
                code = (code ^ target[i]) * 0x9E3779B97F4A7C1
                code ^= code >> 29
            slot = code & (size - 1)
            while table[slot] >= 0:
                other = group_starts[table[slot]]
                i = 0
                if group_starts[table[slot] + 1] - other == length:
                    while i < length and target[start + i] == target[other + i]:
                        i += 1
                if i == length:
                    break
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = g
            first[g] = table[slot]
    return first


@compiled
def _reach(index: StaticIndex, group: int, place: Ints, seen: Longs) -> int:
    """How many entities the second relation reaches from the targets of ``group``.

    ``place`` gives the second relation's group of an entity, or -1; ``seen`` is scratch.
    """
    starts, target = index.group_starts, index.target
    only = -1
    several = False
    for i in range(starts[group], starts[group + 1]):
        if place[target[i]] >= 0:
            several = only >= 0
            if several:
                break
            only = place[target[i]]
    if only < 0:
        return 0
    if not several:
        return int(starts[only + 1] - starts[only])
    seen[-1] += 1
    size = 0
    for i in range(starts[group], starts[group + 1]):
        g = place[target[i]]
        if g >= 0:
            for k in range(starts[g], starts[g + 1]):
                if seen[target[k]] != seen[-1]:
                    seen[target[k]] = seen[-1]
                    size += 1
    return size


@compiled
def path_sizes(
    index: StaticIndex,
    second: int,
    first: Longs,
    head: Longs,
    support: Longs,
    min_confidence: float,
    same_as: Longs,
    multiplicity: Longs,
    place: Ints,
    seen: Longs,
) -> tuple[Longs, Longs]:
    """Body sizes of the paths ``first(v, z), second(z, w)``, under one head each.

    The PCA size counts the distinct (v, w) whose v starts a fact of the head. Counting stops once
    the confidence is certain to stay below ``min_confidence``; such bodies have no standard size.
    What is counted for one group is counted for all groups with equal targets.

    Args:
        index: the graph.
        second: the directed relation that all paths end with.
        first: int64 array of shape (t,), the directed relations that they start with, ascending.
        head: int64 array of shape (t,), directed heads.
        support: int64 array of shape (t,).
        min_confidence: least PCA confidence.
        same_as: see :func:`equal_groups`.
        multiplicity: int64 array of shape (G,), how many groups are ``same_as`` it.
        place: int32 scratch of shape (N,), all -1 before and after.
        seen: int64 scratch of shape (N + 1,), marks, the last one given at its end; starts with 0.

    Returns:
        PCA and standard body sizes, int64 arrays of shape (t,).
    """
    bounds, source = index.group_bounds, index.group_source
    sizes = np.zeros((2, first.shape[0]), np.int64)
    for g in range(bounds[second], bounds[second + 1]):
        place[source[g]] = g
    memo = np.empty(0, np.int64)
    standard = -1
    for task in range(first.shape[0]):
        low, stop = bounds[first[task]], bounds[first[task] + 1]
        if task == 0 or first[task] != first[task - 1]:
            memo, standard = np.full(stop - low, -1, np.int64), -1
        end = bounds[head[task] + 1]
        size = 0
        i, j = next_equal(source, low, stop, source, bounds[head[task]], end)
        while i < stop and j < end:
            own = same_as[i]
            if memo[own - low] < 0:
                memo[own - low] = _reach(index, own, place, seen)
            size += memo[own - low]
            if size > 0 and support[task] / size < min_confidence:
                break
            i, j = next_equal(source, i + 1, stop, source, j + 1, end)
        sizes[0, task] = size
        if support[task] / size < min_confidence:
            continue
        if standard < 0:
            standard = 0
            for g in range(low, stop):
                if same_as[g] == g:
                    if memo[g - low] < 0:
                        memo[g - low] = _reach(index, g, place, seen)
                    standard += memo[g - low] * multiplicity[g]
        sizes[1, task] = standard
    for g in range(bounds[second], bounds[second + 1]):
        place[source[g]] = -1
    return sizes[0], sizes[1]


@compiled
def parallel_sizes(
    index: StaticIndex, first: int, second: Longs, head: Longs
) -> tuple[Longs, Longs]:
    """Body sizes of ``first(v, w), second(v, w)``, under one head each; as :func:`path_sizes`.

    Args:
        index: the graph.
        first: a directed relation.
        second: int64 array of shape (t,), directed relations, ascending.
        head: int64 array of shape (t,), directed heads.
    """
    bounds, source = index.group_bounds, index.group_source
    starts, target = index.group_starts, index.target
    sizes = np.zeros((2, second.shape[0]), np.int64)
    low, stop = bounds[first], bounds[first + 1]
    sources, shared = np.empty(stop - low, np.int32), np.empty(stop - low, np.int64)
    found = 0
    for task in range(second.shape[0]):
        if task == 0 or second[task] != second[task - 1]:
            # The sources of both relations, and how many targets each of them shares.
            found, end = 0, bounds[second[task] + 1]
            i, j = next_equal(source, low, stop, source, bounds[second[task]], end)
            while i < stop and j < end:
                sources[found], shared[found] = source[i], 0
                p_end, q_end = starts[i + 1], starts[j + 1]
                p, q = next_equal(target, starts[i], p_end, target, starts[j], q_end)
                while p < p_end and q < q_end:
                    shared[found] += 1
                    p, q = next_equal(target, p + 1, p_end, target, q + 1, q_end)
                found += 1
                i, j = next_equal(source, i + 1, stop, source, j + 1, end)
        for i in range(found):
            sizes[1, task] += shared[i]
        end = bounds[head[task] + 1]
        k, g = next_equal(sources, int64(0), found, source, bounds[head[task]], end)
        while k < found and g < end:
            sizes[0, task] += shared[k]
            k, g = next_equal(sources, k + 1, found, source, g + 1, end)
    return sizes[0], sizes[1]
