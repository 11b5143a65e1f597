"""Compiled support of three-atom bodies; the arrays are described in ``amie_index``.

A body of three atoms is counted fact by fact, as bodies of two are. What keeps it small: a part of
a body predicts at least the facts that the whole does, so only bodies are looked at whose parts
have the support alone. The parts of a chain are its open ends ``d1(x, z), d2(z, w)`` and
``d2(z, w), d3(w, y)``; those of the other shapes are bodies of one and two atoms, and the *sides*
``d1(x, z), d2(x, z)``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_support import grow, seek, slot_of
from rulerag.mining.jit import compiled

__all__ = ["count_open_paths", "count_sides", "count_three"]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

# The values of ``Shape``, which compiled code cannot read.
_CHAIN, _TRIANGLE, _NEAR_SIDE, _FAR_SIDE, _NEAR_PAIR, _FAR_PAIR, _TRIPLE = range(3, 10)


@compiled
def count_open_paths(
    starts: Ints, directed: int, kind_bounds: Longs, kinds: Ints, entity_bounds: Longs,
    pair_target: Ints, pair_starts: Longs, pair_relation: Ints,
) -> Longs:  # fmt: skip
    """How many of a head's facts start an open path ``d1(v, z), d2(z, w)``.

    Args:
        starts: int32 array, where the facts start, ascending.
        directed: D, directed relations.
        kind_bounds: int64 array of shape (N + 1,), the kinds of each entity.
        kinds: int32 array, the distinct directed relations that start at an entity.
        entity_bounds: pairs of each entity.
        pair_target: neighbour of each pair.
        pair_starts: directed relations of each pair.
        pair_relation: directed relations.

    Returns:
        int64 array of shape (D, D).
    """
    counts = np.zeros((directed, directed), np.int64)
    stamps = np.full((directed, directed), -1, np.int32)
    i = 0
    while i < starts.shape[0]:
        x = starts[i]
        begin = i
        while i < starts.shape[0] and starts[i] == x:
            i += 1
        for p in range(entity_bounds[x], entity_bounds[x + 1]):
            z = pair_target[p]
            for q in range(pair_starts[p], pair_starts[p + 1]):
                first = pair_relation[q]
                for k in range(kind_bounds[z], kind_bounds[z + 1]):
                    if stamps[first, kinds[k]] != x:
                        stamps[first, kinds[k]] = x
                        counts[first, kinds[k]] += i - begin
    return counts


@compiled
def count_sides(
    starts: Ints, directed: int, entity_bounds: Longs,
    pair_target: Ints, pair_starts: Longs, pair_relation: Ints,
) -> Longs:  # fmt: skip
    """How many of a head's facts start a side ``d1(v, z), d2(v, z)`` with ``d1 < d2``.

    Returns:
        int64 array of shape (D, D).
    """
    counts = np.zeros((directed, directed), np.int64)
    stamps = np.full((directed, directed), -1, np.int32)
    i = 0
    while i < starts.shape[0]:
        x = starts[i]
        begin = i
        while i < starts.shape[0] and starts[i] == x:
            i += 1
        for p in range(entity_bounds[x], entity_bounds[x + 1]):
            for q in range(pair_starts[p], pair_starts[p + 1]):
                for r in range(q + 1, pair_starts[p + 1]):
                    if stamps[pair_relation[q], pair_relation[r]] != x:
                        stamps[pair_relation[q], pair_relation[r]] = x
                        counts[pair_relation[q], pair_relation[r]] += i - begin
    return counts


@compiled
def _with_room(buffer: Longs, used: int, more: int) -> Longs:
    """The buffer, or a longer copy where ``more`` numbers do not fit after the used ones."""
    if used + more <= buffer.shape[0]:
        return buffer
    longer = np.empty(max(used + more, 2 * buffer.shape[0]), np.int64)
    longer[:used] = buffer[:used]
    return longer


@compiled
def _distinct(buffer: Longs, used: int) -> int:
    """Sort the used numbers and drop repeats, in place."""
    buffer[:used].sort()
    kept = 0
    for i in range(used):
        if i == 0 or buffer[i] != buffer[i - 1]:
            buffer[kept] = buffer[i]
            kept += 1
    return kept


@compiled
def _open_paths_from(
    x: int, near: Bools, buffer: Longs, entity_bounds: Longs,
    pair_target: Ints, pair_starts: Longs, pair_relation: Ints,
) -> tuple[int, Longs]:  # fmt: skip
    """Sorted codes ``(w * D + d1) * D + d2`` of the open paths from x that ``near`` allows."""
    directed = np.int64(near.shape[0])
    used = 0
    for p in range(entity_bounds[x], entity_bounds[x + 1]):
        z = pair_target[p]
        low = pair_starts[entity_bounds[z]]
        high = pair_starts[entity_bounds[z + 1]]
        for q in range(pair_starts[p], pair_starts[p + 1]):
            first = np.int64(pair_relation[q])
            buffer = _with_room(buffer, used, high - low)
            for s in range(entity_bounds[z], entity_bounds[z + 1]):
                base = (np.int64(pair_target[s]) * directed + first) * directed
                for t in range(pair_starts[s], pair_starts[s + 1]):
                    if near[first, pair_relation[t]]:
                        buffer[used] = base + pair_relation[t]
                        used += 1
    return _distinct(buffer, used), buffer


@compiled
def _sides_of(
    x: int, allowed: Bools, buffer: Longs, entity_bounds: Longs,
    pair_starts: Longs, pair_relation: Ints,
) -> tuple[int, Longs]:  # fmt: skip
    """Sorted codes ``d1 * D + d2`` of the sides of x."""
    directed = np.int64(allowed.shape[0])
    used = 0
    for p in range(entity_bounds[x], entity_bounds[x + 1]):
        count = pair_starts[p + 1] - pair_starts[p]
        buffer = _with_room(buffer, used, count * count)
        for q in range(pair_starts[p], pair_starts[p + 1]):
            for r in range(q + 1, pair_starts[p + 1]):
                if allowed[pair_relation[q], pair_relation[r]]:
                    buffer[used] = np.int64(pair_relation[q]) * directed + pair_relation[r]
                    used += 1
    return _distinct(buffer, used), buffer


@compiled
def _chains(
    y: int, far: Bools, paths: Longs, used_paths: int, found: int, buffer: Longs,
    entity_bounds: Longs, pair_target: Ints, pair_starts: Longs, pair_relation: Ints,
) -> tuple[int, Longs]:  # fmt: skip
    """Write the keys of all chains that end the open paths of x at y, some of them twice."""
    directed = np.int64(far.shape[0])
    square = int(directed * directed)
    relations = directed // 2
    base = np.int64(_CHAIN) * square * directed
    j = entity_bounds[y]
    stop = entity_bounds[y + 1]
    i = 0
    while i < used_paths and j < stop:
        w = paths[i] // square
        if w < pair_target[j]:
            i = seek(paths, i, used_paths, pair_target[j] * square)
            continue
        if w > pair_target[j]:
            j = seek(pair_target, j, stop, w)
            continue
        end = seek(paths, i, used_paths, (w + 1) * square)
        buffer = _with_room(buffer, found, (end - i) * (pair_starts[j + 1] - pair_starts[j]))
        for k in range(i, end):
            code = paths[k] - w * square
            second = code % directed
            for q in range(pair_starts[j], pair_starts[j + 1]):
                back = pair_relation[q]
                third = back + relations if back < relations else back - relations
                if far[second, third]:
                    buffer[found] = base + code * directed + third
                    found += 1
        i = end
        j += 1
    return found, buffer


@compiled
def _around_shared(
    direct: Longs, near: int, far: int, paths: Bools, found: int, buffer: Longs,
    pair_starts: Longs, pair_relation: Ints,
) -> tuple[int, Longs]:  # fmt: skip
    """Write the keys of triangles and pairs through one z: ``near`` is (x, z), ``far`` (y, z)."""
    directed = np.int64(paths.shape[0])
    relations = directed // 2
    triangle = np.int64(_TRIANGLE) * directed
    near_pair = np.int64(_NEAR_PAIR) * directed
    far_pair = np.int64(_FAR_PAIR) * directed
    in_near = pair_starts[near + 1] - pair_starts[near]
    in_far = pair_starts[far + 1] - pair_starts[far]
    more = in_near * in_far * (direct.shape[0] + in_near + in_far)
    buffer = _with_room(buffer, found, more)
    for p in range(pair_starts[near], pair_starts[near + 1]):
        one = np.int64(pair_relation[p])
        for q in range(pair_starts[far], pair_starts[far + 1]):
            back = np.int64(pair_relation[q])
            two = back + relations if back < relations else back - relations
            if not paths[one, two]:
                continue
            for k in range(direct.shape[0]):
                buffer[found] = ((triangle + direct[k]) * directed + one) * directed + two
                found += 1
            for r in range(p + 1, pair_starts[near + 1]):
                other = np.int64(pair_relation[r])
                if paths[other, two]:
                    buffer[found] = ((near_pair + one) * directed + other) * directed + two
                    found += 1
            for r in range(q + 1, pair_starts[far + 1]):
                back = np.int64(pair_relation[r])
                other = back + relations if back < relations else back - relations
                if paths[one, other]:
                    low, high = min(two, other), max(two, other)
                    buffer[found] = ((far_pair + one) * directed + low) * directed + high
                    found += 1
    return found, buffer


@compiled
def _through_shared(
    x: int, y: int, direct: Longs, paths: Bools, found: int, buffer: Longs,
    entity_bounds: Longs, pair_target: Ints, pair_starts: Longs, pair_relation: Ints,
) -> tuple[int, Longs]:  # fmt: skip
    """Write the keys of all triangles and pairs between x and y, some of them twice."""
    i = entity_bounds[x]
    i_stop = entity_bounds[x + 1]
    j = entity_bounds[y]
    j_stop = entity_bounds[y + 1]
    while i < i_stop and j < j_stop:
        if pair_target[i] < pair_target[j]:
            i = seek(pair_target, i, i_stop, pair_target[j])
        elif pair_target[j] < pair_target[i]:
            j = seek(pair_target, j, j_stop, pair_target[i])
        else:
            found, buffer = _around_shared(
                direct, i, j, paths, found, buffer, pair_starts, pair_relation
            )
            i += 1
            j += 1
    return found, buffer


@compiled
def _with_direct(
    direct: Longs, directed: int, sides: Longs, shape: int, found: int, buffer: Longs
) -> tuple[int, Longs]:
    """Write the keys of each direct relation with each side."""
    base = np.int64(shape) * directed
    square = np.int64(directed) * directed
    buffer = _with_room(buffer, found, direct.shape[0] * sides.shape[0])
    for k in range(direct.shape[0]):
        for i in range(sides.shape[0]):
            buffer[found] = (base + direct[k]) * square + sides[i]
            found += 1
    return found, buffer


@compiled
def _triples(direct: Longs, parallels: Bools, found: int, buffer: Longs) -> tuple[int, Longs]:
    """Write the keys of three direct relations."""
    directed = np.int64(parallels.shape[0])
    base = np.int64(_TRIPLE) * directed
    count = direct.shape[0]
    buffer = _with_room(buffer, found, count * count * count)
    for i in range(count):
        for j in range(i + 1, count):
            if parallels[direct[i], direct[j]]:
                for k in range(j + 1, count):
                    if parallels[direct[i], direct[k]] and parallels[direct[j], direct[k]]:
                        buffer[found] = (
                            (base + direct[i]) * directed + direct[j]
                        ) * directed + direct[k]
                        found += 1
    return found, buffer


@compiled
def _direct(
    x: int, y: int, atoms: Bools, entity_bounds: Longs,
    pair_target: Ints, pair_starts: Longs, pair_relation: Ints,
) -> Longs:  # fmt: skip
    """The directed relations from x to y that ``atoms`` allows, ascending."""
    own = seek(pair_target, entity_bounds[x], entity_bounds[x + 1], y)
    found = np.empty(pair_starts[own + 1] - pair_starts[own], np.int64)
    count = 0
    for q in range(pair_starts[own], pair_starts[own + 1]):
        if atoms[pair_relation[q]]:
            found[count] = pair_relation[q]
            count += 1
    return found[:count]


@compiled
def count_three(
    min_support: int, sources: Ints, targets: Ints,
    near: Bools, far: Bools, near_sides: Bools, far_sides: Bools,
    atoms: Bools, paths: Bools, parallels: Bools,
    entity_bounds: Longs, pair_target: Ints, pair_starts: Longs, pair_relation: Ints,
) -> tuple[Longs, Longs]:  # fmt: skip
    """Count, for one head relation, how many of its facts each three-atom body predicts.

    The body ``shape`` of the directed relations d1, d2, d3 has the key ``((shape * D + d1) * D +
    d2) * D + d3``, with D = 2 R.

    Args:
        min_support: least support to return.
        sources: int32 array, the subjects of the head's facts, ascending.
        targets: int32 array, their objects.
        near: bool array of shape (D, D), open paths ``d1(x, z), d2(z, w)`` with the support.
        far: bool array of shape (D, D), open paths ``d2(z, w), d3(w, y)`` with the support.
        near_sides: bool array of shape (D, D), sides of x.
        far_sides: bool array of shape (D, D), sides of y.
        atoms: bool array of shape (D,), one-atom bodies; never the head itself.
        paths: bool array of shape (D, D), path bodies.
        parallels: bool array of shape (D, D), parallel bodies ``d1 < d2``.
        entity_bounds: pairs of each entity.
        pair_target: neighbour of each pair.
        pair_starts: directed relations of each pair.
        pair_relation: directed relations.

    Returns:
        Keys with enough support and their supports, unsorted.
    """
    directed = near.shape[0]
    keys = np.full(1024, -1, np.int64)
    counts = np.zeros(1024, np.int64)
    stamps = np.zeros(1024, np.int64)  # the last fact that each key was counted for
    buffer = np.empty(1024, np.int64)
    open_paths = np.empty(1024, np.int64)
    sides = np.empty(1024, np.int64)
    far_buffer = np.empty(1024, np.int64)
    used = 0
    num_paths = num_sides = 0
    for fact in range(sources.shape[0]):
        x, y = sources[fact], targets[fact]
        if fact == 0 or sources[fact - 1] != x:
            num_paths, open_paths = _open_paths_from(
                x, near, open_paths, entity_bounds, pair_target, pair_starts, pair_relation
            )
            num_sides, sides = _sides_of(
                x, near_sides, sides, entity_bounds, pair_starts, pair_relation
            )
        found, buffer = _chains(
            y, far, open_paths, num_paths, 0, buffer,
            entity_bounds, pair_target, pair_starts, pair_relation,
        )  # fmt: skip
        direct = _direct(x, y, atoms, entity_bounds, pair_target, pair_starts, pair_relation)
        found, buffer = _through_shared(
            x, y, direct, paths, found, buffer,
            entity_bounds, pair_target, pair_starts, pair_relation,
        )  # fmt: skip
        if direct.shape[0] > 0:
            found, buffer = _with_direct(
                direct, directed, sides[:num_sides], _NEAR_SIDE, found, buffer
            )
            num_far, far_buffer = _sides_of(
                y, far_sides, far_buffer, entity_bounds, pair_starts, pair_relation
            )
            found, buffer = _with_direct(
                direct, directed, far_buffer[:num_far], _FAR_SIDE, found, buffer
            )
            found, buffer = _triples(direct, parallels, found, buffer)
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
