"""Subsets as integer bitmasks: levels, minimal elements, minimal transversals.

Bit ``i`` of a mask stands for source ``i``. Pure mathematics on Python integers, exact for any
number of sources; ``tables`` holds the array form that the exact miners walk.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator

__all__ = ["indices_of", "mask_of"]


def full_mask(num_sources: int) -> int:
    """The mask that holds every one of ``num_sources`` sources."""
    return (1 << num_sources) - 1


def mask_of(indices: Iterable[int]) -> int:
    """The mask of the given source indices; repeats count once."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


def indices_of(mask: int) -> tuple[int, ...]:
    """The source indices of a mask, ascending."""
    indices = []
    while mask:
        lowest = mask & -mask
        indices.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(indices)


def level(num_sources: int, size: int) -> Iterator[int]:
    """Every mask of ``size`` out of ``num_sources`` sources, ascending as integers.

    Steps from one mask to the next with the same number of bits (Gosper's hack, HAKMEM item 175).
    """
    if not 0 <= size <= num_sources:
        return
    mask, limit = full_mask(size), 1 << num_sources
    while mask < limit:
        yield mask
        if mask == 0:
            return
        lowest = mask & -mask
        ripple = mask + lowest
        mask = ripple | (((mask ^ ripple) >> 2) // lowest)


def random_masks(
    num_sources: int, count: int, chance: random.Random, known: Collection[int], *, listed: int
) -> list[int]:
    """Distinct random masks that are not known, each equally likely; fewer where fewer are left.

    Args:
        num_sources: how many sources the masks run over.
        count: how many masks.
        chance: where they come from.
        known: masks that are left out.
        listed: up to so many sources all masks are listed; beyond, random ones are drawn until new.
    """
    if num_sources <= listed:
        left = [mask for mask in range(1 << num_sources) if mask not in known]
        return chance.sample(left, min(count, len(left)))
    found: dict[int, None] = {}
    while len(found) < min(count, (1 << num_sources) - len(known)):
        mask = chance.getrandbits(num_sources)
        if mask not in known:
            found[mask] = None
    return list(found)


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
