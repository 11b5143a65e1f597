"""Compiled joins behind bodies of two atoms; every array is described in ``amie_index``."""

from __future__ import annotations

import numpy as np

from rulerag.mining.jit import compiled

__all__ = ["count_bodies", "equal_groups", "parallel_sizes", "path_sizes"]


@compiled
def _bump(keys, counts, stamps, key, fact):  # type: ignore[no-untyped-def]
    """Count ``key`` once for ``fact`` in an open-addressing table; 1 when the key is new."""
    mask = keys.shape[0] - 1
    slot = ((key * 0x9E3779B97F4A7C1) >> 17) & mask
    while True:
        if keys[slot] == key:
            if stamps[slot] != fact:
                stamps[slot] = fact
                counts[slot] += 1
            return 0
        if keys[slot] < 0:
            keys[slot] = key
            stamps[slot] = fact
            counts[slot] = 1
            return 1
        slot = (slot + 1) & mask


@compiled
def _grow(keys, counts, stamps):  # type: ignore[no-untyped-def]
    """The table with twice the slots."""
    size = keys.shape[0] * 2
    new_keys = np.full(size, -1, np.int64)
    new_counts = np.zeros(size, np.int64)
    new_stamps = np.zeros(size, np.int64)
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            slot = ((keys[i] * 0x9E3779B97F4A7C1) >> 17) & (size - 1)
            while new_keys[slot] >= 0:
                slot = (slot + 1) & (size - 1)
            new_keys[slot] = keys[i]
            new_counts[slot] = counts[i]
            new_stamps[slot] = stamps[i]
    return new_keys, new_counts, new_stamps


@compiled
def _seek(values, start, stop, wanted):  # type: ignore[no-untyped-def]
    """The first place in the sorted ``values[start:stop]`` that is not below ``wanted``; gallops."""
    step = 1
    low = start
    high = start
    while high < stop and values[high] < wanted:
        low = high + 1
        high += step
        step *= 2
    if high > stop:
        high = stop
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def count_bodies(  # type: ignore[no-untyped-def]
    head,
    num_relations,
    min_support,
    sources,
    targets,
    entity_bounds,
    pair_target,
    pair_starts,
    pair_relation,
):
    """Count, for one head relation, how many of its facts each two-atom body predicts.

    A path body ``d1(x, z), d2(z, y)`` has the key ``d1 * D + d2``, a parallel body ``d1(x, y),
    d2(x, y)`` with ``d1 < d2`` the key ``D * D + d1 * D + d2``, where D = 2 R.

    Returns:
        Keys with enough support and their supports, unsorted.
    """
    directed = 2 * num_relations
    keys = np.full(1024, -1, np.int64)
    counts = np.zeros(1024, np.int64)
    stamps = np.zeros(1024, np.int64)
    used = 0
    for fact in range(sources.shape[0]):
        x = sources[fact]
        y = targets[fact]
        # Walk the shorter list of neighbours and look each up in the longer one.
        swap = entity_bounds[x + 1] - entity_bounds[x] > entity_bounds[y + 1] - entity_bounds[y]
        a = y if swap else x
        b = x if swap else y
        j = entity_bounds[b]
        stop = entity_bounds[b + 1]
        for i in range(entity_bounds[a], entity_bounds[a + 1]):
            z = pair_target[i]
            j = _seek(pair_target, j, stop, z)
            if j == stop:
                break
            if pair_target[j] != z:
                continue
            near = j if swap else i  # the pair (x, z)
            far = i if swap else j  # the pair (y, z)
            for p in range(pair_starts[near], pair_starts[near + 1]):
                for q in range(pair_starts[far], pair_starts[far + 1]):
                    back = pair_relation[q]
                    second = back + num_relations if back < num_relations else back - num_relations
                    used += _bump(
                        keys, counts, stamps, np.int64(pair_relation[p]) * directed + second, fact
                    )
                    if used * 2 > keys.shape[0]:
                        keys, counts, stamps = _grow(keys, counts, stamps)
        own = _seek(pair_target, entity_bounds[x], entity_bounds[x + 1], y)
        for p in range(pair_starts[own], pair_starts[own + 1]):
            first = np.int64(pair_relation[p])
            if first == head:
                continue
            for q in range(p + 1, pair_starts[own + 1]):
                if pair_relation[q] == head:
                    continue
                key = (directed + first) * directed + pair_relation[q]
                used += _bump(keys, counts, stamps, key, fact)
                if used * 2 > keys.shape[0]:
                    keys, counts, stamps = _grow(keys, counts, stamps)
    enough = (keys >= 0) & (counts >= min_support)
    return keys[enough], counts[enough]


@compiled
def equal_groups(group_bounds, group_starts, target):  # type: ignore[no-untyped-def]
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
            code = np.int64(length)
            for i in range(start, start + length):
                code = (code ^ target[i]) * 0x9E3779B97F4A7C1
                code ^= code >> 29
            slot = code & (size - 1)
            while table[slot] >= 0:
                other = group_starts[table[slot]]
                same = group_starts[table[slot] + 1] - other == length
                i = 0
                while same and i < length:
                    same = target[start + i] == target[other + i]
                    i += 1
                if same:
                    break
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = g
            first[g] = table[slot]
    return first


@compiled
def _reach(group, group_starts, target, place, seen, stamp):  # type: ignore[no-untyped-def]
    """How many entities the second relation reaches from the targets of ``group``."""
    alone = -1
    many = False
    for i in range(group_starts[group], group_starts[group + 1]):
        g = place[target[i]]
        if g >= 0:
            many = alone >= 0
            if many:
                break
            alone = g
    if alone < 0:
        return 0
    if not many:
        return group_starts[alone + 1] - group_starts[alone]
    size = 0
    for i in range(group_starts[group], group_starts[group + 1]):
        g = place[target[i]]
        if g >= 0:
            for k in range(group_starts[g], group_starts[g + 1]):
                if seen[target[k]] != stamp:
                    seen[target[k]] = stamp
                    size += 1
    return size


@compiled
def path_sizes(  # type: ignore[no-untyped-def]
    second,
    firsts,
    task_bounds,
    heads,
    supports,
    min_confidence,
    with_standard,
    num_entities,
    group_bounds,
    group_source,
    group_starts,
    target,
    same_as,
    multiplicity,
):
    """Body sizes of the paths ``d1(v, z), second(z, w)`` for the given ``d1``.

    Task t of path p (``task_bounds[p] <= t < task_bounds[p + 1]``) asks for the PCA body size
    under ``heads[t]``: the distinct (v, w) whose v starts a fact of that head. Counting stops
    once the confidence is certain to stay below ``min_confidence``.

    Returns:
        PCA body sizes by task, and standard body sizes by path (0 where no task was kept).
    """
    pca = np.zeros(heads.shape[0], np.int64)
    standard = np.zeros(firsts.shape[0], np.int64)
    place = np.full(num_entities, -1, np.int64)
    for g in range(group_bounds[second], group_bounds[second + 1]):
        place[group_source[g]] = g
    seen = np.full(num_entities, -1, np.int64)
    stamp = 0
    for path in range(firsts.shape[0]):
        low = group_bounds[firsts[path]]
        stop = group_bounds[firsts[path] + 1]
        memo = np.full(stop - low, -1, np.int64)
        kept = False
        for task in range(task_bounds[path], task_bounds[path + 1]):
            i = low
            j = group_bounds[heads[task]]
            end = group_bounds[heads[task] + 1]
            size = 0
            while i < stop and j < end:
                if group_source[i] < group_source[j]:
                    i = _seek(group_source, i, stop, group_source[j])
                elif group_source[j] < group_source[i]:
                    j = _seek(group_source, j, end, group_source[i])
                else:
                    slot = same_as[i] - low
                    if memo[slot] < 0:
                        memo[slot] = _reach(same_as[i], group_starts, target, place, seen, stamp)
                        stamp += 1
                    size += memo[slot]
                    if size > 0 and supports[task] / size < min_confidence:
                        break
                    i += 1
                    j += 1
            pca[task] = size
            kept = kept or supports[task] / size >= min_confidence
        if kept and with_standard:
            for g in range(low, stop):
                if same_as[g] == g:
                    if memo[g - low] < 0:
                        memo[g - low] = _reach(g, group_starts, target, place, seen, stamp)
                        stamp += 1
                    standard[path] += memo[g - low] * multiplicity[g]
    return pca, standard


@compiled
def parallel_sizes(  # type: ignore[no-untyped-def]
    first,
    seconds,
    task_bounds,
    heads,
    group_bounds,
    group_source,
    group_starts,
    target,
):
    """Body sizes of ``first(v, w), d2(v, w)`` for the given d2; tasks as in :func:`path_sizes`.

    Returns:
        PCA body sizes by task and standard body sizes by body.
    """
    pca = np.zeros(heads.shape[0], np.int64)
    standard = np.zeros(seconds.shape[0], np.int64)
    for body in range(seconds.shape[0]):
        i = group_bounds[first]
        i_end = group_bounds[first + 1]
        j = group_bounds[seconds[body]]
        j_end = group_bounds[seconds[body] + 1]
        sources = np.empty(min(i_end - i, j_end - j), np.int32)
        sizes = np.empty(sources.shape[0], np.int64)
        found = 0
        while i < i_end and j < j_end:
            if group_source[i] < group_source[j]:
                i = _seek(group_source, i, i_end, group_source[j])
            elif group_source[j] < group_source[i]:
                j = _seek(group_source, j, j_end, group_source[i])
            else:
                sources[found] = group_source[i]
                sizes[found] = 0
                p = group_starts[i]
                q = group_starts[j]
                while p < group_starts[i + 1] and q < group_starts[j + 1]:
                    if target[p] < target[q]:
                        p = _seek(target, p, group_starts[i + 1], target[q])
                    elif target[q] < target[p]:
                        q = _seek(target, q, group_starts[j + 1], target[p])
                    else:
                        sizes[found] += 1
                        p += 1
                        q += 1
                standard[body] += sizes[found]
                found += 1
                i += 1
                j += 1
        for task in range(task_bounds[body], task_bounds[body + 1]):
            k = 0
            g = group_bounds[heads[task]]
            end = group_bounds[heads[task] + 1]
            while k < found and g < end:
                if sources[k] < group_source[g]:
                    k = _seek(sources, k, found, group_source[g])
                elif group_source[g] < sources[k]:
                    g = _seek(group_source, g, end, sources[k])
                else:
                    pca[task] += sizes[k]
                    k += 1
                    g += 1
    return pca, standard
