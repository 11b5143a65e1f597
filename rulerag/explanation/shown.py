"""What was shown about a rule of sources: on which subsets it was tried, and what that proves.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 6 (validity) and 8 (minimality), and
    section 6: rules that hold with a minimum confidence are named as future work. Here one notion
    of minimality serves both: the rule reaches the validity asked for, and with any one source
    fewer it does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rulerag.explanation.trace import expect
from rulerag.explanation.wording import listing, runs

__all__ = ["SUBSETS", "Certificate", "ShownRule", "Smaller", "percent", "same_test", "tried"]

SUBSETS = {
    "uniform": "uniform over the subsets of the other sources",
    "by-size": "how many of the other sources are kept drawn uniformly, then which",
}
"""How random subsets can be drawn, and how that is said."""

EXACT, CERTIFIED, TESTED, UNTESTED = "exact", "certified", "tested", "untested"
PROVEN, SHOWN, NOT_SHOWN = "proven", "shown", "not shown"

_MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class Smaller:
    """What was shown about a rule without one of its sources.

    Args:
        without: the source left out.
        samples: on how many random subsets the smaller rule was tried.
        successes: for how many of them the predicate held.
        ceiling: the share of the subsets for which it holds, at most.
    """

    without: str
    samples: int
    successes: int
    ceiling: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was shown about one rule.

    Args:
        kind: ``exact`` (every subset that the rule speaks of was decided), ``certified`` (random
            subsets show that it reaches the validity), ``tested`` (they do not) or ``untested``.
        validity: the share of subsets for which a rule was asked to hold; 1 for exact rules.
        confidence: the probability that every bound and ceiling stated together with this one is
            true, at least; 1 for exact rules.
        subsets: how random subsets are drawn, a key of :data:`SUBSETS`; ``all`` for exact rules.
        samples: how many subsets were tried; all of them when exact.
        successes: for how many of them the predicate held.
        bound: the share of the subsets for which it holds, at least; the share itself when exact.
        minimality: ``proven`` (every smaller rule fails for a subset), ``shown`` (every rule with
            one source fewer falls below the validity, with the confidence), ``not shown`` (one may
            reach it) or ``untested`` (no smaller rule was looked for).
        smaller: the rules with one source fewer, where they were tried.
        counterexamples: for some subsets on which the rule failed, the sources removed, the
            fewest first.
    """

    kind: str
    validity: float = 1.0
    confidence: float = 1.0
    subsets: str = "all"
    samples: int = 0
    successes: int = 0
    bound: float = 0.0
    minimality: str = UNTESTED
    smaller: tuple[Smaller, ...] = ()
    counterexamples: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def exact(cls, num_free: int) -> Certificate:
        """That of a minimal rule of an exact miner.

        Args:
            num_free: how many sources the rule does not name.
        """
        count = 1 << num_free
        return cls(EXACT, samples=count, successes=count, bound=1.0, minimality=PROVEN)

    @property
    def always(self) -> bool:
        """Whether every subset was decided and the predicate holds for all of them."""
        return self.kind == EXACT and self.successes == self.samples

    @property
    def failures(self) -> int:
        """For how many of the subsets tried the predicate failed."""
        return self.samples - self.successes

    def __str__(self) -> str:
        """What was shown, in a few words."""
        if self.always:
            return f"all {self.samples:,} subsets"
        if self.kind == EXACT:
            return f"{percent(self.bound)} of the subsets, all {self.samples:,} tried"
        if self.kind == UNTESTED:
            return "not tested"
        held = f"{self.successes:,} of {self.samples:,} random subsets"
        if self.kind == TESTED:
            return f"held in {held}: {percent(self.validity)} is not shown"
        return (
            f"at least {percent(self.bound)}, held in {held}, confidence {percent(self.confidence)}"
        )

    def to_json(self) -> dict[str, Any]:
        """The certificate as a JSON object."""
        return {
            **asdict(self),
            "smaller": [asdict(one) for one in self.smaller],
            "counterexamples": [list(removed) for removed in self.counterexamples],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Certificate:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        numbers = ("validity", "confidence", "bound")
        validity, confidence, bound = (float(expect(row, k, int | float)) for k in numbers)
        return cls(
            kind=expect(row, "kind", str),
            validity=validity,
            confidence=confidence,
            subsets=expect(row, "subsets", str),
            samples=expect(row, "samples", int),
            successes=expect(row, "successes", int),
            bound=bound,
            minimality=expect(row, "minimality", str),
            smaller=tuple(
                Smaller(
                    expect(one, "without", str),
                    expect(one, "samples", int),
                    expect(one, "successes", int),
                    float(expect(one, "ceiling", int | float)),
                )
                for one in expect(row, "smaller", list)
            ),
            counterexamples=tuple(tuple(one) for one in expect(row, "counterexamples", list)),
        )


@dataclass(frozen=True, slots=True)
class ShownRule:
    """A rule by the names of its sources, with its certificate.

    Args:
        names: what its sources are called.
        certificate: what was shown.
        output: what the generator says when exactly these sources are removed (omission) or kept
            (retention); None where that was not asked.
    """

    names: tuple[str, ...]
    certificate: Certificate
    output: str | None = None

    @property
    def counterexample(self) -> str:
        """What has to be removed besides for the rule to fail, in words; empty where unknown."""
        if not self.certificate.counterexamples:
            return ""
        removed = [n for n in self.certificate.counterexamples[0] if n not in self.names]
        if not removed:
            return "with nothing else removed"
        told = runs(removed)
        if len(told) > _MOST_NAMES:
            told = [*removed[:_MOST_NAMES], f"{len(removed) - _MOST_NAMES} others"]
        return f"with {listing(told)} removed"

    def to_json(self) -> dict[str, Any]:
        """The rule as a JSON object."""
        return {
            "names": list(self.names),
            "output": self.output,
            "shown": str(self.certificate),
            **self.certificate.to_json(),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ShownRule:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        names = tuple(expect(row, "names", list))
        return cls(names, Certificate.from_json(row), expect(row, "output", str | None))


def percent(share: float) -> str:
    """A share per cent, never rounded up: 95 %, 97.1 %."""
    return f"{math.floor(1000 * share + 1e-9) / 10:g} %"


def tried(certificates: Sequence[Certificate]) -> str:
    """On how many random subsets some rules were tried, how drawn, and with what confidence.

    Args:
        certificates: those of rules that were tested on one kind of subsets.
    """
    counts = sorted({one.samples for one in certificates})
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    each = " for each" if len(certificates) > 1 else ""
    first = certificates[0]
    return f"{number} tried{each}, {SUBSETS[first.subsets]}, confidence {percent(first.confidence)}"


def same_test(rules: Sequence[ShownRule], kind: str) -> list[ShownRule]:
    """The rules with one kind of certificate; those of ``exact`` that fail now and then apart."""
    if kind == "always":
        return [rule for rule in rules if rule.certificate.always]
    return [r for r in rules if r.certificate.kind == kind and not r.certificate.always]
