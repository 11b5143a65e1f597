"""Compiled support of three-atom bodies, over the columns of a :class:`StaticIndex`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.mining.amie.candidates import Shape
from rulerag.mining.amie.kernels import counted, seek, turned
from rulerag.mining.indexes import StaticIndex
from rulerag.mining.runtime import compiled, doubled, int64

Words = npt.NDArray[np.uint64]


class Outgoing(NamedTuple):
    """The groups of a :class:`StaticIndex` by entity.

    Attributes:
        starts: int64 array of shape (N + 1,), the groups of each entity.
        relation: int32 array of shape (G,), directed relations, ascending within an entity.
        group: int64 array of shape (G,), the group of that relation and entity.
        twin_starts: int64 array of shape (N + 1,), the twins of each entity.
        twins: int64 array, ascending within an entity: ``d1 * D + d2`` with ``d1 < d2`` where both
            lead to one neighbour.
    """

    starts: Longs
    relation: Ints
    group: Longs
    twin_starts: Longs
    twins: Longs


def outgoing(index: StaticIndex) -> Outgoing:
    """The groups and twins of each entity."""
    relation = np.repeat(np.arange(2 * index.num_relations), np.diff(index.group_bounds))
    order = np.lexsort((relation, index.group_source))
    starts = np.searchsorted(index.group_source[order], np.arange(index.num_entities + 1))
    return Outgoing(starts, relation[order].astype(np.int32), order, *_twins(index))


@compiled
def _twins(index: StaticIndex) -> tuple[Longs, Longs]:
    directed = int64(2 * index.num_relations)
    starts = np.zeros(index.num_entities + 1, np.int64)
    found = np.empty(1024, np.int64)
    used = int64(0)
    own = np.empty(1024, np.int64)
    for entity in range(index.num_entities):
        count = int64(0)
        for pair in range(index.entity_bounds[entity], index.entity_bounds[entity + 1]):
            for p in range(index.pair_starts[pair], index.pair_starts[pair + 1]):
                for q in range(p + 1, index.pair_starts[pair + 1]):
                    if count == own.shape[0]:
                        own = doubled(own)
                    own[count] = index.pair_relation[p] * directed + index.pair_relation[q]
                    count += 1
        ordered = np.sort(own[:count])
        for i in range(count):
            if i == 0 or ordered[i] != ordered[i - 1]:
                if used == found.shape[0]:
                    found = doubled(found)
                found[used] = ordered[i]
                used += 1
        starts[entity + 1] = used
    return starts, found[:used].copy()


@compiled
def group_of(out: Outgoing, entity: int, relation: int) -> int:
    """The group of a directed relation and an entity, or -1."""
    stop = out.starts[entity + 1]
    place = seek(out.relation, out.starts[entity], stop, relation)
    if place < stop and out.relation[place] == relation:
        return int(out.group[place])
    return -1


@compiled
def _has(keys: Longs, key: int) -> bool:
    place = np.searchsorted(keys, key)
    return bool(place < keys.shape[0] and keys[place] == key)


@compiled
def count_short_bodies(
    index: StaticIndex, out: Outgoing, head: int, beside: Longs, paths: Longs
) -> Longs:
    """Count how many facts of a head each three-atom body predicts, paths of three left out.

    Args:
        index: the graph.
        out: its groups by entity.
        head: a relation.
        beside: int64 array of shape (D,), 1 for one-atom bodies of the head with enough support.
        paths: int64 array, ascending: ``d1 * D + d2`` of the paths with enough support.

    Returns:
        A table as that of :func:`~rulerag.mining.amie.kernels.count_bodies`; its keys are
        ``((shape * D + first) * D + second) * D + third``.
    """
    half = index.num_relations
    directed = int64(2 * half)
    bounds, target, relation = index.entity_bounds, index.pair_target, index.pair_relation
    starts = index.pair_starts
    table = np.full((3, 1024), -1, np.int64)
    used = int64(0)
    near = np.empty(directed, np.int64)
    fitting = np.empty(directed, np.int64)
    for fact in range(index.relation_bounds[head], index.relation_bounds[head + 1]):
        x, y = index.source[fact], index.target[fact]
        count = int64(0)
        own = seek(target, bounds[x], bounds[x + 1], y)
        for p in range(starts[own], starts[own + 1]):
            if relation[p] != head and beside[relation[p]]:
                near[count] = relation[p]
                count += 1
        for i in range(count):
            for j in range(i + 1, count):
                for k in range(j + 1, count):
                    key = ((Shape.TRIPLE * directed + near[i]) * directed + near[j]) * directed
                    table, used = counted(table, used, key + near[k], fact)
            for e in range(out.twin_starts[x], out.twin_starts[x + 1]):
                key = (Shape.TWIN_SUBJECT * directed * directed + out.twins[e]) * directed
                table, used = counted(table, used, key + near[i], fact)
            for e in range(out.twin_starts[y], out.twin_starts[y + 1]):
                key = (Shape.TWIN_OBJECT * directed * directed + out.twins[e]) * directed
                table, used = counted(table, used, key + near[i], fact)
        # Neighbours z that x and y share: the shorter list of them is walked.
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
            one = j if swap else i  # the pair (x, z)
            two = i if swap else j  # the pair (y, z)
            for q in range(starts[two], starts[two + 1]):
                last = turned(relation[q], half)
                fit = int64(0)
                for p in range(starts[one], starts[one + 1]):
                    if _has(paths, relation[p] * directed + last):
                        fitting[fit] = relation[p]
                        fit += 1
                for p in range(fit):
                    for k in range(count):
                        key = (Shape.TRIANGLE * directed + fitting[p]) * directed + last
                        table, used = counted(table, used, key * directed + near[k], fact)
                    for k in range(p + 1, fit):
                        key = (Shape.TWIN_FIRST * directed + fitting[p]) * directed + fitting[k]
                        table, used = counted(table, used, key * directed + last, fact)
            for p in range(starts[one], starts[one + 1]):
                first = int64(relation[p])
                fit = int64(0)
                for q in range(starts[two], starts[two + 1]):
                    last = turned(relation[q], half)
                    if _has(paths, first * directed + last):
                        fitting[fit] = last
                        fit += 1
                for q in range(fit):
                    for k in range(q + 1, fit):
                        low, high = min(fitting[q], fitting[k]), max(fitting[q], fitting[k])
                        key = (Shape.TWIN_LAST * directed + first) * directed + low
                        table, used = counted(table, used, key * directed + high, fact)
    return table


@compiled
def _frequent(index: StaticIndex, out: Outgoing, head: int, least: int) -> tuple[Longs, Longs]:
    """What three-atom paths of a directed head can begin and end with.

    Returns:
        Ascending ``d1 * D + d2`` that lead on from the sources of enough facts, and for each
        directed relation its place among those that enter the targets of enough facts, or -1.
    """
    directed = int64(2 * index.num_relations)
    low, stop = index.group_bounds[head], index.group_bounds[head + 1]
    count = np.zeros(directed, np.int64)
    ends = np.zeros(directed, np.int64)
    for g in range(low, stop):
        v = index.group_source[g]
        size = index.group_starts[g + 1] - index.group_starts[g]
        for i in range(out.starts[v], out.starts[v + 1]):
            count[out.relation[i]] += size
        for f in range(index.group_starts[g], index.group_starts[g + 1]):
            y = index.target[f]
            for i in range(out.starts[y], out.starts[y + 1]):
                ends[out.relation[i]] += 1
    place = np.full(directed, -1, np.int64)
    used = int64(0)
    for d in range(directed):
        if ends[d] >= least:
            place[d] = used
            used += 1
    found = np.empty(1024, np.int64)
    used = int64(0)
    seen = np.full(directed, -1, np.int64)
    for first in range(directed):
        if count[first] < least:
            continue
        second = np.zeros(directed, np.int64)
        seen[:] = -1
        for g in range(low, stop):
            own = group_of(out, index.group_source[g], first)
            if own < 0:
                continue
            size = index.group_starts[g + 1] - index.group_starts[g]
            for f in range(index.group_starts[own], index.group_starts[own + 1]):
                z = index.target[f]
                for i in range(out.starts[z], out.starts[z + 1]):
                    if seen[out.relation[i]] != g:
                        seen[out.relation[i]] = g
                        second[out.relation[i]] += size
        for d in range(directed):
            if second[d] >= least:
                if used == found.shape[0]:
                    found = doubled(found)
                found[used] = first * directed + d
                used += 1
    return found[:used].copy(), place


@compiled
def count_long_paths(
    index: StaticIndex, out: Outgoing, head: int, least: int
) -> tuple[Longs, Longs]:
    """Paths of three atoms that predict enough facts of a directed head, and how many.

    For each entity that the head starts from, a set of bits says by which two first atoms another
    entity is reached; a fact has those of the entities that lead to its target. Counters are sets
    of bits as well: one for each binary digit, so that 64 bodies are counted at once.

    Args:
        index: the graph.
        out: its groups by entity.
        head: a directed relation.
        least: the least support.

    Returns:
        Keys ``(d1 * D + d2) * D + d3`` and their supports, int64 arrays of shape (n,).
    """
    directed = int64(2 * index.num_relations)
    half = int64(index.num_relations)
    starts, target = index.group_starts, index.target
    prefixes, place = _frequent(index, out, head, least)
    width = (prefixes.shape[0] + 63) // 64
    ends = int64(np.max(place) + 1)
    digits = int64(1)
    while (int64(1) << digits) <= index.relation_bounds[head + 1] - index.relation_bounds[head]:
        digits += 1
    counters = np.zeros((ends, digits, width), np.uint64)
    slot = np.full(index.num_entities, -1, np.int64)
    wanted = np.empty(1024, np.int64)
    rows = np.zeros((64, width), np.uint64)
    total = np.zeros(width, np.uint64)
    for g in range(index.group_bounds[head], index.group_bounds[head + 1]):
        if width == 0 or ends == 0:
            break
        v = index.group_source[g]
        used = int64(0)
        for f in range(starts[g], starts[g + 1]):
            y = target[f]
            for i in range(out.starts[y], out.starts[y + 1]):
                if place[out.relation[i]] < 0:
                    continue
                for k in range(starts[out.group[i]], starts[out.group[i] + 1]):
                    if slot[target[k]] < 0:
                        if used == wanted.shape[0]:
                            wanted = doubled(wanted)
                        slot[target[k]] = used
                        wanted[used] = target[k]
                        used += 1
        if used > rows.shape[0]:
            rows = np.zeros((2 * used, width), np.uint64)
        for row in range(used):
            for word in range(width):
                rows[row, word] = np.uint64(0)
        p = int64(0)
        for i in range(out.starts[v], out.starts[v + 1]):
            first = int64(out.relation[i])
            while p < prefixes.shape[0] and prefixes[p] < first * directed:
                p += 1
            if p == prefixes.shape[0]:
                break
            if prefixes[p] >= (first + 1) * directed:
                continue
            for k in range(starts[out.group[i]], starts[out.group[i] + 1]):
                z = target[k]
                q = p
                for j in range(out.starts[z], out.starts[z + 1]):
                    key = first * directed + out.relation[j]
                    while q < prefixes.shape[0] and prefixes[q] < key:
                        q += 1
                    if q == prefixes.shape[0]:
                        break
                    if prefixes[q] != key:
                        continue
                    bit = np.uint64(1) << np.uint64(q & 63)
                    for n in range(starts[out.group[j]], starts[out.group[j] + 1]):
                        row = slot[target[n]]
                        if row >= 0:
                            rows[row, q >> 6] |= bit
        for f in range(starts[g], starts[g + 1]):
            y = target[f]
            for i in range(out.starts[y], out.starts[y + 1]):
                end = place[out.relation[i]]
                if end < 0:
                    continue
                for word in range(width):
                    total[word] = np.uint64(0)
                for k in range(starts[out.group[i]], starts[out.group[i] + 1]):
                    row = slot[target[k]]
                    for word in range(width):
                        total[word] |= rows[row, word]
                for digit in range(digits):
                    carried = np.uint64(0)
                    for word in range(width):
                        carry = counters[end, digit, word] & total[word]
                        counters[end, digit, word] ^= total[word]
                        total[word] = carry
                        carried |= carry
                    if carried == 0:
                        break
        for row in range(used):
            slot[wanted[row]] = -1
    keys, support = np.empty(1024, np.int64), np.empty(1024, np.int64)
    used = int64(0)
    for d in range(directed):
        end = place[d]
        if end < 0:
            continue
        third = turned(d, half)
        for q in range(prefixes.shape[0]):
            count = int64(0)
            for digit in range(digits):
                bit = (counters[end, digit, q >> 6] >> np.uint64(q & 63)) & np.uint64(1)
                count += int64(bit) << digit
            if count >= least:
                if used == keys.shape[0]:
                    keys, support = doubled(keys), doubled(support)
                keys[used], support[used] = prefixes[q] * directed + third, count
                used += 1
    return keys[:used].copy(), support[:used].copy()
