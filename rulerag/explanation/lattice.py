"""Subsets as integer bitmasks: levels, up-sets, down-sets, antichains, minimal transversals.

Bit ``i`` of a mask stands for source ``i``. Pure mathematics on Python integers, exact for any
number of sources; ``levels`` holds the array form that the exact miners walk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = [
    "complement",
    "down_set",
    "full_mask",
    "indices_of",
    "is_antichain",
    "iter_minimal_transversals",
    "level",
    "mask_of",
    "maximal_elements",
    "minimal_elements",
    "minimal_transversals",
    "up_set",
]


def full_mask(num_sources: int) -> int:
    """The mask that holds every one of ``num_sources`` sources."""
    return (1 << num_sources) - 1


def complement(mask: int, num_sources: int) -> int:
    """The sources that ``mask`` does not hold."""
    return full_mask(num_sources) ^ mask


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


def up_set(masks: Iterable[int], num_sources: int) -> set[int]:
    """Every superset of some given mask, those masks included."""
    seen = set(masks)
    frontier = list(seen)
    while frontier:
        mask = frontier.pop()
        for index in indices_of(complement(mask, num_sources)):
            larger = mask | (1 << index)
            if larger not in seen:
                seen.add(larger)
                frontier.append(larger)
    return seen


def down_set(masks: Iterable[int]) -> set[int]:
    """Every subset of some given mask, those masks included."""
    seen = set(masks)
    frontier = list(seen)
    while frontier:
        mask = frontier.pop()
        for index in indices_of(mask):
            smaller = mask ^ (1 << index)
            if smaller not in seen:
                seen.add(smaller)
                frontier.append(smaller)
    return seen


def minimal_elements(masks: Iterable[int]) -> set[int]:
    """The masks that hold no other given mask."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=int.bit_count):
        if not any(smaller & mask == smaller for smaller in kept):
            kept.append(mask)
    return set(kept)


def maximal_elements(masks: Iterable[int]) -> set[int]:
    """The masks that no other given mask holds."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=int.bit_count, reverse=True):
        if not any(larger & mask == mask for larger in kept):
            kept.append(mask)
    return set(kept)


def is_antichain(masks: Iterable[int]) -> bool:
    """Whether no given mask holds another one."""
    distinct = set(masks)
    return minimal_elements(distinct) == distinct


def minimal_transversals(edges: Iterable[int]) -> set[int]:
    """The smallest masks that share a source with every edge (minimal hitting sets).

    No edge at all is hit by the empty mask; an empty edge by none. With F the masks whose output
    fails a predicate, these are the minimal omission rules for the edges F, and the minimal
    retention rules for the complements of F.

    References:
        Berge, Hypergraphs (1989), chapter 2: one edge at a time. A transversal that already
        hits the edge stays; another one grows by each source of the edge, unless it then holds
        one that stayed.
    """
    found = {0}
    for edge in sorted(minimal_elements(edges), key=int.bit_count):
        hitting = {mask for mask in found if mask & edge}
        grown = {mask | (1 << index) for mask in found - hitting for index in indices_of(edge)}
        found = hitting | {
            mask for mask in grown if not any(small & mask == small for small in hitting)
        }
    return found


def iter_minimal_transversals(edges: Iterable[int]) -> Iterator[int]:
    """The same masks one at a time, for families with too many to hold.

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
