"""Random subsets of the sources, and tests of the share for which something holds.

Uniform subsets of 50 sources keep 25 of them, give or take seven: they say next to nothing about a
context of five sources or of 45. Where the number that is kept is drawn first, each as likely,
every size of context counts the same; the draws stay independent of each other, so that every test
of a share stays valid, of that share.

A test may be looked at after every draw. Who bets against "it holds for at most 95 % of the
subsets" and starts with 1 has more than 20 with a probability of at most 1/20 if that is true,
whenever it is looked at (Ville's inequality). So a rule that holds for half of the subsets falls
after a few draws, and one that holds is shown as soon as the bets are worth enough. The bets of
several rules need no division of the risk: where each is worth 20, so is their mean for every part
of the family, and all are shown together.

References:
    Owen 1972 (Management Science 18, P64-P79): with every size as likely, the mean over subsets is
    the one that Shapley values are made of.
    Clopper and Pearson 1934 (Biometrika 26, 404-413): exact limits from the binomial law.
    Waudby-Smith and Ramdas 2024 (JRSS B 86, 1-27, arXiv:2010.09686): means by betting.
    Robbins 1970 (Annals of Mathematical Statistics 41, 1397-1409): mixtures, confidence sequences.
    Vovk and Wang 2021 (Annals of Statistics 49, 1736-1754, arXiv:1912.06116), section 6: means of
    e-values and the closure principle, under any dependence.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import scipy  # loads its parts when they are used

from rulerag.explanation.lattice import full_mask, indices_of, mask_of
from rulerag.explanation.records import Certificate, OfSize

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


_ALL_IN = 0.95
"""This part of the wealth bets on no failure at all, the rest on any share above the one tested."""

_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class ShareBets:
    """What is known of a share after some draws, in any order, each seen as it came.

    Args:
        successes: for so many draws it held.
        failures: for so many it failed.
    """

    successes: int = 0
    failures: int = 0

    def after(self, holds: bool) -> ShareBets:
        """The same after one more draw."""
        return ShareBets(self.successes + holds, self.failures + (not holds))

    def against_less(self, share: float) -> float:
        """The wealth of bets against "the true share is at most this": an e-value.

        Args:
            share: between 0 and 1, both excluded.
        """
        s, f = self.successes, self.failures
        all_in = math.exp(-s * math.log(share)) if f == 0 else 0.0
        # A uniform mixture over the shares above.
        above = 1 - float(scipy.special.betainc(s + 1, f + 1, share))
        mixed = _ratio(s, f, share, above) / (1 - share)
        return _ALL_IN * all_in + (1 - _ALL_IN) * mixed

    def against_more(self, share: float) -> float:
        """The wealth of bets against "the true share is at least this": an e-value.

        Args:
            share: between 0 and 1, both excluded.
        """
        s, f = self.successes, self.failures
        return _ratio(s, f, share, float(scipy.special.betainc(s + 1, f + 1, share))) / share

    def lower(self, risk: float) -> float:
        """A share that the true one is not below, but with a probability of ``risk`` ever."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.against_less(middle) >= 1 / risk:
                low = middle
            else:
                high = middle
        return low


def _ratio(successes: int, failures: int, share: float, part: float) -> float:
    """The likelihood of a part of the uniform mixture, over that of the share."""
    if part <= 0:
        return 0.0
    own = successes * math.log(share) + failures * math.log1p(-share)
    exponent = float(scipy.special.betaln(successes + 1, failures + 1)) + math.log(part) - own
    return math.exp(min(exponent, 700.0))


def samples_needed(validity: float, risk: float) -> int:
    """How many draws without one failure show a share of at least ``validity``.

    With a share below ``validity`` so many successes in a row are rarer than ``risk``: 59 for a
    validity of 0.95 and a risk of 0.05.
    """
    return max(1, math.ceil(math.log(risk) / math.log(validity)))


def lower_bound(successes: int, samples: int, risk: float) -> float:
    """The Clopper-Pearson lower limit of a share; it is above the truth with at most ``risk``."""
    return float(successes and scipy.special.betaincinv(successes, samples - successes + 1, risk))


def shown_together(wealth: Sequence[float], risk: float) -> list[bool]:
    """Which of some hypotheses are rejected, so that none is wrongly but with a small probability.

    A hypothesis falls when the mean wealth of every part of the family with it reaches ``1 / risk``
    (closed testing); the worst part holds the poorest others.

    Args:
        wealth: an e-value for each hypothesis, however they depend on each other.
        risk: the probability that a true one is among those rejected, at most.
    """
    order = sorted(wealth)
    return [_falls(one, order, 1 / risk) for one in wealth]


def _falls(one: float, order: Sequence[float], needed: float) -> bool:
    total, count = one, 1
    others = list(order)
    others.remove(one)
    if total < needed:
        return False
    for other in others:
        total, count = total + other, count + 1
        if total / count < needed:
            return False
    return True
