"""Certification: tests of a share that may be looked at after every draw, by bets against it.

Who bets against "it holds for at most 95 % of the subsets" and starts with 1 has more than 20 with
a probability of at most 1/20 if that is true, whenever it is looked at (Ville's inequality). So a
rule that holds for half of the subsets falls after a few draws, and one that holds is shown as soon
as the bets are worth enough. The bets of several rules need no division of the risk: where each is
worth 20, so is their mean for every part of the family, and all are shown together.

References:
    Clopper and Pearson 1934 (Biometrika 26, 404-413): exact limits from the binomial law.
    Waudby-Smith and Ramdas 2024 (JRSS B 86, 1-27, arXiv:2010.09686): means by betting.
    Robbins 1970 (Annals of Mathematical Statistics 41, 1397-1409): mixtures, confidence sequences.
    Vovk and Wang 2021 (Annals of Statistics 49, 1736-1754, arXiv:1912.06116), section 6: means of
    e-values and the closure principle, under any dependence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy.special import betainc, betaincinv, betaln

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
        above = 1 - float(betainc(s + 1, f + 1, share))
        mixed = _ratio(s, f, share, above) / (1 - share)
        return _ALL_IN * all_in + (1 - _ALL_IN) * mixed

    def against_more(self, share: float) -> float:
        """The wealth of bets against "the true share is at least this": an e-value.

        Args:
            share: between 0 and 1, both excluded.
        """
        s, f = self.successes, self.failures
        return _ratio(s, f, share, float(betainc(s + 1, f + 1, share))) / share

    def lower(self, risk: float) -> float:
        """A share that the true one is not below, but with a probability of ``risk`` ever."""
        return _border(lambda share: self.against_less(share) >= 1 / risk)

    def upper(self, risk: float) -> float:
        """A share that the true one is not above, but with a probability of ``risk`` ever."""
        return 1 - _border(lambda rest: self.against_more(1 - rest) >= 1 / risk)


def _ratio(successes: int, failures: int, share: float, part: float) -> float:
    """The likelihood of a part of the uniform mixture, over that of the share."""
    if part <= 0:
        return 0.0
    own = successes * math.log(share) + failures * math.log1p(-share)
    exponent = float(betaln(successes + 1, failures + 1)) + math.log(part) - own
    return math.exp(min(exponent, 700.0))


def _border(excluded: Callable[[float], bool]) -> float:
    """The largest value from 0 to 1 up to which all are excluded."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if excluded(middle):
            low = middle
        else:
            high = middle
    return low


def samples_needed(validity: float, risk: float) -> int:
    """How many draws without one failure show a share of at least ``validity``.

    With a share below ``validity`` so many successes in a row are rarer than ``risk``: 59 for a
    validity of 0.95 and a risk of 0.05.
    """
    return max(1, math.ceil(math.log(risk) / math.log(validity)))


def lower_bound(successes: int, samples: int, risk: float) -> float:
    """The Clopper-Pearson lower limit of a share; it is above the truth with at most ``risk``."""
    return float(betaincinv(successes, samples - successes + 1, risk)) if successes else 0.0


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
