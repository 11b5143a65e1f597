"""Sets of sources as bits of integers, and families of such sets as truth tables.

Bit ``i`` of a mask stands for source ``i``. A family of subsets of ``n`` sources is one integer of
``2**n`` bits, bit ``m`` for the subset ``m``: a whole level of the lattice moves with a handful of
shifts and ands of one long integer (128 KB for 20 sources), which Python does at memory speed; that
is what makes the exact miners fast.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

Masks = npt.NDArray[np.int64]

_TABLE_BITS = 16


def full_mask(num_sources: int) -> int:
    """The mask that holds every one of ``num_sources`` sources."""
    return (1 << num_sources) - 1


def mask_of(indices: Iterable[int]) -> int:
    """The mask of the given source indices; repeats count once."""
    places = list(indices)
    if len(places) < 512:
        return reduce(lambda mask, index: mask | 1 << index, places, 0)
    flags = np.zeros(max(places) + 1, np.bool_)
    flags[places] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def indices_of(mask: int) -> tuple[int, ...]:
    """The source indices of a mask, ascending."""
    if mask >> 512:  # a long number would be copied for each of its bits
        data = np.frombuffer(mask.to_bytes(mask.bit_length() // 8 + 1, "little"), np.uint8)
        return tuple(np.flatnonzero(np.unpackbits(data, bitorder="little")).tolist())
    indices = []
    while mask:
        lowest = mask & -mask
        indices.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(indices)


def bits(masks: Sequence[int], num_sources: int) -> npt.NDArray[np.float64]:
    """1.0 where a mask holds a source, else 0.0, of shape (len(masks), num_sources)."""
    return np.array([[mask >> i & 1 for i in range(num_sources)] for mask in masks], dtype=float)


def random_masks(
    num_sources: int, count: int, rng: random.Random, known: Collection[int], *, listed: int
) -> list[int]:
    """Distinct random masks that are not known, each equally likely; fewer where fewer are left.

    Args:
        num_sources: how many sources the masks run over.
        count: how many masks.
        rng: where they come from.
        known: masks that are left out.
        listed: up to so many sources all masks are listed; beyond, random ones are drawn until new.
    """
    if num_sources <= listed:
        left = [mask for mask in range(1 << num_sources) if mask not in known]
        return rng.sample(left, min(count, len(left)))
    masks_seen: dict[int, None] = {}
    while len(masks_seen) < min(count, (1 << num_sources) - len(known)):
        mask = rng.getrandbits(num_sources)
        if mask not in known:
            masks_seen[mask] = None
    return list(masks_seen)


def minimal_elements(masks: Iterable[int]) -> set[int]:
    """The masks that hold no other given mask."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=int.bit_count):
        if not any(smaller & mask == smaller for smaller in kept):
            kept.append(mask)
    return set(kept)


def minimal_transversals(edges: Iterable[int]) -> Iterator[int]:
    """The smallest masks that share a source with every edge (minimal hitting sets), one by one.

    No edge at all is hit by the empty mask; an empty edge by none. With F the masks whose output
    fails a predicate, these are the minimal omission rules for the edges F, and the minimal
    retention rules for the complements of F.

    References:
        Kavvadias and Stavropoulos 2005 (J. Graph Algorithms Appl. 9, 239-264): Berge's steps in
        depth-first order, which need no memory beyond one path.
    """
    ordered = sorted(minimal_elements(edges), key=int.bit_count)
    waiting = [(0, 0)]
    while waiting:
        place, mask = waiting.pop()
        while place < len(ordered) and mask & ordered[place]:
            place += 1
        if place == len(ordered):
            yield mask
            continue
        for index in reversed(indices_of(ordered[place])):
            grown = mask | 1 << index
            if _is_minimal_transversal(grown, ordered[: place + 1]):
                waiting.append((place + 1, grown))


def _is_minimal_transversal(mask: int, edges: Iterable[int]) -> bool:
    """Whether every source of a transversal is the only one to hit some edge."""
    alone = 0
    for edge in edges:
        hit = mask & edge
        if hit & (hit - 1) == 0:
            alone |= hit
    return alone == mask


@lru_cache(maxsize=32)
def _holding(num_sources: int) -> tuple[int, ...]:
    """For each source, the table of the subsets that hold it."""
    tables = []
    for index in range(num_sources):
        table = ((1 << (1 << index)) - 1) << (1 << index)
        for larger in range(index + 1, num_sources):
            table |= table << (1 << larger)
        tables.append(table)
    return tuple(tables)


def children(parents: int, num_sources: int) -> int:
    """The subsets one level below ``parents`` all of whose own parents are among them.

    Args:
        parents: the table of subsets of one level.
        num_sources: how many sources the lattice has.
    """
    if not parents:
        return 0
    # Every missing source, put back, must give one of the parents. That also lets the full set
    # through, which misses nothing: it is no child.
    found = (1 << ((1 << num_sources) - 1)) - 1
    for index, holding in enumerate(_holding(num_sources)):
        found &= holding | (parents >> (1 << index))
    return found


def without_child(parents: int, members: int, num_sources: int) -> int:
    """The subsets of the table ``parents`` that are left when no child is in ``members``."""
    covered = 0
    if members:
        for index, holding in enumerate(_holding(num_sources)):
            covered |= (members << (1 << index)) & holding
    return parents & ~covered


def masks_of(table: int, num_sources: int) -> Masks:
    """The subsets of a table as masks, ascending, of shape (count,)."""
    packed = np.frombuffer(table.to_bytes(max(1, (1 << num_sources) >> 3), "little"), np.uint8)
    masks: Masks = np.unpackbits(packed, bitorder="little").view(np.bool_).nonzero()[0]
    return masks


def table_of(masks: Masks, num_sources: int) -> int:
    """The table that holds exactly ``masks``."""
    flags = np.zeros(1 << num_sources, dtype=np.bool_)
    flags[masks] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def kept_indices(masks: Masks | Sequence[int], num_sources: int) -> list[tuple[int, ...]]:
    """Each mask as a tuple of the indices that it keeps, ascending."""
    if num_sources > 2 * _TABLE_BITS:
        return [indices_of(int(mask)) for mask in masks]
    array = np.asarray(masks, dtype=np.int64)
    split = min(num_sources, _TABLE_BITS)
    kept = _index_tuples(0, split)[array & ((1 << split) - 1)]
    if num_sources > split:
        kept = kept + _index_tuples(split, num_sources)[array >> split]
    tuples: list[tuple[int, ...]] = kept.tolist()
    return tuples


@lru_cache(maxsize=32)
def _index_tuples(start: int, stop: int) -> npt.NDArray[np.object_]:
    """The kept indices of every mask over the sources ``start`` to ``stop``, as an object array.

    For 16 sources it takes 7 MB and 10 ms, once in a process; engines share it.
    """
    tuples: list[tuple[int, ...]] = [()]
    for index in range(start, stop):
        tuples += [(*kept, index) for kept in tuples]
    return np.fromiter(tuples, dtype=np.object_, count=len(tuples))
