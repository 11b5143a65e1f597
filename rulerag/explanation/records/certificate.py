"""What was shown about one set of sources, and on which subsets.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 6 (validity) and 8 (minimality), and
    section 6: rules that hold with a minimum confidence are named as future work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rulerag.explanation.records.record import Record

SUBSETS = {
    "uniform": "uniform over the subsets of the other sources",
    "by-size": "how many of the other sources are kept drawn uniformly, then which",
}
"""How random subsets can be drawn, and how that is said."""

CertificateKind = Literal["exact", "certified", "tested", "untested"]


@dataclass(frozen=True)
class OfSize(Record):
    """What came of the random subsets that keep so many of the other sources.

    Args:
        least: of the sources that the rule does not name, at least so many are kept.
        most: at most so many are.
        samples: how many such subsets were tried.
        successes: for how many of them the predicate held.
    """

    least: int
    most: int
    samples: int
    successes: int


@dataclass(frozen=True)
class Certificate(Record):
    """What was shown about one rule.

    A set is minimal where the search found it: without any one of its sources it fails for a subset
    that was asked. That no smaller set reaches the validity all the same is not part of it.

    Args:
        kind: ``exact`` (every subset that the rule speaks of was decided), ``certified`` (random
            subsets show that it reaches the validity), ``tested`` (they do not) or ``untested``.
        validity: the share of subsets for which a rule has to hold; 1 for exact rules.
        confidence: the probability that every bound stated together with this one is true, at
            least; 1 for exact rules.
        subsets: how random subsets are drawn, a key of :data:`SUBSETS`; ``all`` for exact rules.
        samples: how many subsets were tried; all of them when exact.
        successes: for how many of them the predicate held.
        bound: the share of the subsets for which it holds, at least; the share itself when exact.
        sizes: the random subsets tried, in thirds by how many of the other sources they keep: few,
            some, most. None for exact rules.
    """

    kind: CertificateKind
    validity: float = 1.0
    confidence: float = 1.0
    subsets: str = "all"
    samples: int = 0
    successes: int = 0
    bound: float = 0.0
    sizes: tuple[OfSize, ...] = ()

    @classmethod
    def exact(cls, num_free: int) -> Certificate:
        """That of a rule of an exact miner.

        Args:
            num_free: how many sources the rule does not name.
        """
        count = 1 << num_free
        return cls("exact", samples=count, successes=count, bound=1.0)

    @property
    def always(self) -> bool:
        """Whether every subset was decided and the predicate holds for all of them."""
        return self.kind == "exact" and self.successes == self.samples

    @property
    def failures(self) -> int:
        """For how many of the subsets tried the predicate failed."""
        return self.samples - self.successes

    def __str__(self) -> str:
        """What was shown, in a few words."""
        if self.always:
            return f"all {self.samples:,} subsets"
        if self.kind == "untested":
            return "not tested"
        result = f"held in {self.successes:,} of {self.samples:,} random subsets"
        if self.kind == "tested":
            return f"{result}: {percent(self.validity)} is not shown"
        return f"at least {percent(self.bound)}, {result}, confidence {percent(self.confidence)}"


def percent(share: float) -> str:
    """A share per cent, never rounded up: 95 %, 97.1 %."""
    return f"{math.floor(1000 * share + 1e-9) / 10:g} %"
