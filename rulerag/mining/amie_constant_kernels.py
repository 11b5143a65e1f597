"""Compiled joins of bodies with constants; unary atoms are described in ``amie_unary``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.amie_support import seek
from rulerag.mining.amie_three_sizes import meet
from rulerag.mining.jit import compiled

__all__ = ["common_sizes", "count_reached", "count_together", "hanging_sizes", "reached_sizes",
           "side_sizes"]  # fmt: skip

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@compiled
def _more(rows: Longs, used: int) -> Longs:
    """The rows, or a copy with twice the room when they are all in use."""
    if used < rows.shape[0]:
        return rows
    longer = np.empty((2 * rows.shape[0], rows.shape[1]), np.int64)
    longer[:used] = rows
    return longer


@compiled
def count_together(
    left: Longs, place: Longs, bounds: Longs, right: Longs, least: int, mode: int, counts: Longs
) -> Longs:
    """Count how often each left and right value stand together.

    Args:
        left: int64 array of shape (n,), ascending; row i stands at ``place[i]``.
        place: int64 array of shape (n,).
        bounds: int64 array of shape (p + 1,), the right values of each place.
        right: int64 array, right values, distinct within a place.
        least: least count to return.
        mode: 0 counts every pair; 1 those with left < right; 2 those with left != right.
        counts: int64 scratch over right values, all 0 before and after.

    Returns:
        int64 array of shape (m, 3): left, right, count.
    """
    found = np.empty((64, 3), np.int64)
    used = 0
    touched = np.empty(64, np.int64)
    i = 0
    while i < left.shape[0]:
        value = left[i]
        seen = 0
        while i < left.shape[0] and left[i] == value:
            for k in range(bounds[place[i]], bounds[place[i] + 1]):
                other = right[k]
                if (mode == 1 and other <= value) or (mode == 2 and other == value):
                    continue
                if counts[other] == 0:
                    if seen == touched.shape[0]:
                        touched = np.concatenate((touched, np.empty(seen, np.int64)))
                    touched[seen] = other
                    seen += 1
                counts[other] += 1
            i += 1
        for k in range(seen):
            if counts[touched[k]] >= least:
                found = _more(found, used)
                found[used, 0] = value
                found[used, 1] = touched[k]
                found[used, 2] = counts[touched[k]]
                used += 1
            counts[touched[k]] = 0
    return found[:used]


@compiled
def count_reached(
    steps: Longs, wanted: Ints, least: int, group_bounds: Longs, group_source: Ints,
    group_starts: Longs, target: Ints, bounds: Longs, atom: Longs,
    counts: Longs, last: Ints, first: Ints,
) -> Longs:  # fmt: skip
    """Count for how many wanted v some z has ``step(v, z)`` and a unary atom.

    Args:
        steps: int64 array, directed relations.
        wanted: int32 array, entities, ascending.
        least: least count to return.
        group_bounds: groups of each directed relation.
        group_source: entity of each group.
        group_starts: facts of each group.
        target: targets of the facts.
        bounds: unary atoms of each entity.
        atom: unary atoms.
        counts: int64 scratch over groups, all 0 before and after.
        last: int32 scratch over groups.
        first: int32 scratch over groups.

    Returns:
        int64 array of shape (m, 3): step, unary atom, count. Atoms that are reached through one z
        only are left out: the fact itself would say more than the rule.
    """
    found = np.empty((64, 3), np.int64)
    used = 0
    touched = np.empty(64, np.int64)
    for s in range(steps.shape[0]):
        seen = 0
        i = group_bounds[steps[s]]
        stop = group_bounds[steps[s] + 1]
        j = 0
        while i < stop and j < wanted.shape[0]:
            if group_source[i] < wanted[j]:
                i = seek(group_source, i, stop, wanted[j])
                continue
            if group_source[i] > wanted[j]:
                j = seek(wanted, j, wanted.shape[0], group_source[i])
                continue
            for f in range(group_starts[i], group_starts[i + 1]):
                z = target[f]
                for k in range(bounds[z], bounds[z + 1]):
                    one = atom[k]
                    if counts[one] == 0:
                        if seen == touched.shape[0]:
                            touched = np.concatenate((touched, np.empty(seen, np.int64)))
                        touched[seen] = one
                        seen += 1
                        last[one] = -1
                        first[one] = z
                    elif first[one] != z:
                        first[one] = -1
                    if last[one] != j:
                        last[one] = j
                        counts[one] += 1
            i += 1
            j += 1
        for k in range(seen):
            one = touched[k]
            if counts[one] >= least and first[one] < 0:
                found = _more(found, used)
                found[used, 0] = steps[s]
                found[used, 1] = one
                found[used, 2] = counts[one]
                used += 1
            counts[one] = 0
    return found[:used]


@compiled
def common_sizes(
    one: Longs, two: Longs, most: Longs, domain: Bools, starts: Longs, entity: Ints
) -> Longs:
    """Sizes of the bodies ``A(v), B(v)``.

    Args:
        one: int64 array of shape (n,), unary atoms.
        two: int64 array of shape (n,), unary atoms.
        most: int64 array of shape (n,), where counting may stop.
        domain: bool array of shape (N,), the v that count for the PCA size.
        starts: entities of each unary atom.
        entity: entities.

    Returns:
        int64 array of shape (n, 2): PCA size (above ``most``: cut short), standard size.
    """
    sizes = np.zeros((one.shape[0], 2), np.int64)
    for t in range(one.shape[0]):
        i, i_stop = starts[one[t]], starts[one[t] + 1]
        j, j_stop = starts[two[t]], starts[two[t] + 1]
        while i < i_stop and j < j_stop and sizes[t, 0] <= most[t]:
            if entity[i] < entity[j]:
                i = seek(entity, i, i_stop, entity[j])
            elif entity[j] < entity[i]:
                j = seek(entity, j, j_stop, entity[i])
            else:
                sizes[t, 0] += domain[entity[i]]
                sizes[t, 1] += 1
                i += 1
                j += 1
    return sizes


@compiled
def reached_sizes(
    back: Longs, atoms: Longs, most: Longs, domain: Bools, group_bounds: Longs, group_source: Ints,
    group_starts: Longs, target: Ints, place: Ints, seen: Longs,
) -> Longs:  # fmt: skip
    """Sizes of the bodies ``step(v, z), B(z)``; ``back`` is the inverse of the step, ascending.

    Args:
        back: int64 array of shape (n,), directed relations from z to v.
        atoms: int64 array of shape (n,), unary atoms of z.
        most: int64 array of shape (n,), where counting may stop.
        domain: bool array of shape (N,), the v that count for the PCA size.
        group_bounds: groups of each directed relation.
        group_source: entity of each group.
        group_starts: facts of each group.
        target: targets of the facts.
        place: int32 scratch of shape (N,), all -1 before and after.
        seen: int64 scratch of shape (N + 1,), only ever given to this function; starts with 0.

    Returns:
        int64 array of shape (n, 2): PCA size (above ``most``: cut short), standard size.
    """
    sizes = np.zeros((back.shape[0], 2), np.int64)
    stamp = seen[-1]
    t = 0
    while t < back.shape[0]:
        step = back[t]
        for g in range(group_bounds[step], group_bounds[step + 1]):
            place[group_source[g]] = g
        while t < back.shape[0] and back[t] == step:
            stamp += 1
            for k in range(group_starts[atoms[t]], group_starts[atoms[t] + 1]):
                g = place[target[k]]
                if g < 0:
                    continue
                for f in range(group_starts[g], group_starts[g + 1]):
                    v = target[f]
                    if seen[v] != stamp:
                        seen[v] = stamp
                        sizes[t, 0] += domain[v]
                        sizes[t, 1] += 1
                if sizes[t, 0] > most[t]:
                    break
            t += 1
        for g in range(group_bounds[step], group_bounds[step + 1]):
            place[group_source[g]] = -1
    seen[-1] = stamp
    return sizes


@compiled
def side_sizes(
    one: Longs, two: Longs, domain: Bools, group_bounds: Longs, group_source: Ints,
    group_starts: Longs, target: Ints,
) -> Longs:  # fmt: skip
    """Sizes of the bodies ``d1(v, z), d2(v, z)``: int64 array of shape (n, 2), as above."""
    sizes = np.zeros((one.shape[0], 2), np.int64)
    for t in range(one.shape[0]):
        i, i_stop = group_bounds[one[t]], group_bounds[one[t] + 1]
        j, j_stop = group_bounds[two[t]], group_bounds[two[t] + 1]
        while i < i_stop and j < j_stop:
            if group_source[i] < group_source[j]:
                i = seek(group_source, i, i_stop, group_source[j])
            elif group_source[j] < group_source[i]:
                j = seek(group_source, j, j_stop, group_source[i])
            else:
                if meet(i, j, group_starts, target):
                    sizes[t, 0] += domain[group_source[i]]
                    sizes[t, 1] += 1
                i += 1
                j += 1
    return sizes


@compiled
def hanging_sizes(
    across: Longs, atoms: Longs, most: Longs, domain: Bools, on_atom: bool, group_bounds: Longs,
    group_source: Ints, group_starts: Longs, target: Ints,
) -> Longs:  # fmt: skip
    """Sizes of the bodies ``d(v, u), A(v)``; ``domain`` is of v where ``on_atom``, else of u.

    Returns:
        int64 array of shape (n, 2): PCA size (above ``most``: cut short), standard size.
    """
    sizes = np.zeros((across.shape[0], 2), np.int64)
    for t in range(across.shape[0]):
        i, i_stop = group_bounds[across[t]], group_bounds[across[t] + 1]
        j, j_stop = group_starts[atoms[t]], group_starts[atoms[t] + 1]
        while i < i_stop and j < j_stop and sizes[t, 0] <= most[t]:
            if group_source[i] < target[j]:
                i = seek(group_source, i, i_stop, target[j])
            elif target[j] < group_source[i]:
                j = seek(target, j, j_stop, group_source[i])
            else:
                size = group_starts[i + 1] - group_starts[i]
                sizes[t, 1] += size
                if on_atom:
                    sizes[t, 0] += size * domain[target[j]]
                else:
                    for f in range(group_starts[i], group_starts[i + 1]):
                        sizes[t, 0] += domain[target[f]]
                i += 1
                j += 1
    return sizes
