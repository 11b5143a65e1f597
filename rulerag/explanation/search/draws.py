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
from dataclasses import dataclass, field

from rulerag.explanation.lattice import full_mask, indices_of, mask_of
from rulerag.explanation.records import Certificate, OfSize
from rulerag.explanation.search.bets import samples_needed

ROUND_RISKS = (0.96, 0.02, 0.01, 0.006, 0.004)
"""How the risk is divided among the rounds of tests."""

_BANDS = 3


@dataclass
class RandomSubsets:
    """Random subsets of the sources, the same ones for every claim, round by round.

    Args:
        num_sources: how many sources there are.
        validity: the share of subsets that has to be predicted right.
        confidence: the probability that such a statement about one claim is true, at least.
        seed: of the draws.
        subsets: ``by-size`` (how many sources are kept is drawn uniformly, then which) or
            ``uniform`` (every subset as likely, so that nearly all keep half of the sources).
    """

    num_sources: int
    validity: float
    confidence: float
    seed: int
    subsets: str = "by-size"
    _rounds: list[list[int]] = field(default_factory=list, repr=False)

    @property
    def untested(self) -> Certificate:
        """The certificate of what was not tested."""
        return Certificate("untested", self.validity, self.confidence, self.subsets)

    def round(self, number: int) -> list[int]:
        """The subsets of one round, as masks."""
        while len(self._rounds) <= number:
            rng = random.Random(f"{self.seed}-{len(self._rounds)}")
            count = samples_needed(self.validity, self.risk(len(self._rounds)))
            self._rounds.append([self.superset(0, rng) for _ in range(count)])
        return self._rounds[number]

    def risk(self, number: int) -> float:
        """The risk of one round."""
        return (1 - self.confidence) * ROUND_RISKS[number]

    def superset(self, mask: int, rng: random.Random) -> int:
        """A random set with the sources of ``mask``."""
        full = full_mask(self.num_sources)
        if self.subsets == "by-size":
            free = indices_of(full ^ mask)
            return mask | mask_of(rng.sample(free, rng.randint(0, len(free))))
        return mask | rng.getrandbits(max(1, self.num_sources)) & full

    def shared(self, size: int, rng: random.Random) -> int:
        """A random set for every set of ``size`` sources that it happens to hold.

        For those it is drawn like a :meth:`superset` of theirs. One that keeps ``k`` of the ``n``
        sources holds a certain one with the probability ``k / n``, so that a weight of ``1 / k``
        lets every number of others come as often.
        """
        if self.subsets == "uniform":
            return self.superset(0, rng)
        sizes = range(size, self.num_sources + 1)
        (count,) = rng.choices(sizes, [1 / self._holding(size, one) for one in sizes])
        return mask_of(rng.sample(range(self.num_sources), count))

    def draws_a_hit(self, size: int) -> float:
        """How many :meth:`shared` sets there are for one that holds a certain set of ``size``."""
        if self.subsets == "uniform":
            return 1 << size
        sizes = range(size, self.num_sources + 1)
        return sum(1 / self._holding(size, one) for one in sizes) / len(sizes)

    def _holding(self, size: int, count: int) -> float:
        """The probability that a random set of ``count`` sources holds one set of ``size``."""
        return math.comb(count, size) / math.comb(self.num_sources, size)


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
    for one, holds in zip(kept, values, strict=True):
        count = counts[_BANDS * (one & others).bit_count() // sizes]
        count[0] += 1
        count[1] += holds
    borders = [math.ceil(sizes * band / _BANDS) for band in range(_BANDS + 1)]
    return tuple(
        OfSize(borders[band], borders[band + 1] - 1, *counts[band])
        for band in range(_BANDS)
        if borders[band] < borders[band + 1]
    )
