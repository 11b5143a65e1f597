"""Random subsets of the sources: how they are drawn, and what came of them, size by size.

Uniform subsets of 50 sources keep 25 of them, give or take seven: they say next to nothing about a
context of five sources or of 45. Where the number that is kept is drawn first, each as likely,
every size of context counts the same; the draws stay independent of each other, so that every test
of a share stays valid, of that share.

References:
    Owen 1972 (Management Science 18, P64-P79): with every size as likely, the mean over subsets is
    the one that Shapley values are made of.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from rulerag.explanation.lattice import full_mask, indices_of, mask_of
from rulerag.explanation.records import OfSize

_BANDS = 3


def random_superset(mask: int, num_sources: int, subsets: str, rng: random.Random) -> int:
    """A random set of sources with those of ``mask`` among them.

    Args:
        mask: sources that it holds.
        num_sources: how many there are.
        subsets: ``uniform`` (each such set equally likely) or ``by-size`` (how many of the others
            it holds is drawn uniformly, then which).
        rng: where it comes from.
    """
    full = full_mask(num_sources)
    if subsets == "by-size":
        free = indices_of(full ^ mask)
        return mask | mask_of(rng.sample(free, rng.randint(0, len(free))))
    return mask | rng.getrandbits(max(1, num_sources)) & full


def by_size(
    mask: int, num_sources: int, kept: Sequence[int], values: Sequence[bool]
) -> tuple[OfSize, ...]:
    """What came of random subsets, in thirds of the sizes that they can have.

    Args:
        mask: the sources that a rule speaks of; they are not counted.
        num_sources: how many there are.
        kept: the subsets tried, by the sources kept.
        values: whether the condition held for each.

    Returns:
        Few, some and most of the other sources; fewer parts where there are fewer sizes.
    """
    others = full_mask(num_sources) & ~mask
    sizes = others.bit_count() + 1
    counts = [[0, 0] for _ in range(_BANDS)]
    for one, held in zip(kept, values, strict=True):
        count = counts[_BANDS * (one & others).bit_count() // sizes]
        count[0] += 1
        count[1] += held
    borders = [math.ceil(sizes * band / _BANDS) for band in range(_BANDS + 1)]
    return tuple(
        OfSize(borders[band], borders[band + 1] - 1, *counts[band])
        for band in range(_BANDS)
        if borders[band] < borders[band + 1]
    )
