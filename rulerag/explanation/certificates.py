"""What a certified miner returns: rules, and exactly what was shown about each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rulerag.explanation.bounds import upper_bound
from rulerag.explanation.results import SourceRule

__all__ = ["CertifiedRule", "CertifiedRules", "MonotonicityCheck"]

_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class CertifiedRule:
    """A rule and the evidence for it.

    Args:
        rule: the retention or omission rule.
        samples: on how many random subsets of those that the rule speaks of it was tested; on all
            of them when ``exact``.
        successes: for how many of them the predicate held.
        bound: the share of those subsets for which the predicate holds, at least; the bounds of
            all the rules of one result are true together with the result's confidence.
        exact: every subset was tested, and ``bound`` is the share itself.
        certified: whether ``bound`` reaches the validity asked for.
        minimal_witnessed: for each source, a subset was seen to fail that has all the others: no
            smaller rule is valid. This rests on no assumption and no sample.
        counterexamples: some subsets kept for which the rule failed; where there is one the rule
            is valid for a share of the subsets, not for all.
    """

    rule: SourceRule
    samples: int
    successes: int
    bound: float
    exact: bool
    certified: bool
    minimal_witnessed: bool
    counterexamples: tuple[frozenset[int], ...] = ()

    @property
    def sources(self) -> frozenset[int]:
        """The indices of the rule's sources."""
        return self.rule.sources

    @property
    def names(self) -> tuple[str, ...]:
        """What the rule's sources are called."""
        return self.rule.names

    def __str__(self) -> str:
        """The rule in words, and what was shown."""
        if not self.samples:
            return f"{self.rule} (not tested yet)"
        share = f"{100 * self.bound:.1f} %".replace("100.0 %", "100 %")
        of_which = f"{self.successes:,} of {self.samples:,}"
        parts = [f"held for {of_which} random subsets"]
        if self.exact:
            parts = [f"held for {of_which}, which is all of them"]
        if not self.exact:
            parts.append(f"at least {share} valid")
        if not self.certified:
            parts.append("below the validity asked for")
        if not self.minimal_witnessed:
            parts.append("perhaps not minimal")
        return f"{self.rule} ({', '.join(parts)})"

    def to_json(self) -> dict[str, Any]:
        """The rule and its evidence as a JSON object."""
        return {
            **self.rule.to_json(),
            "samples": self.samples,
            "successes": self.successes,
            "bound": self.bound,
            "exact": self.exact,
            "certified": self.certified,
            "minimal_witnessed": self.minimal_witnessed,
            "counterexamples": [sorted(kept) for kept in self.counterexamples],
        }


@dataclass(frozen=True, slots=True)
class MonotonicityCheck:
    """How often the predicate disagreed with the assumption that the search rests on.

    For a monotone predicate the minimal rules and the smallest sets that meet them all (their
    minimal hitting sets) say everything: it holds where a rule's sources are all there, and fails
    where each rule lacks one.

    Args:
        above: random subsets tested that hold a whole rule.
        above_failed: those for which the predicate failed.
        below: random subsets tested in which every rule lacks a source.
        below_held: those for which the predicate held.
    """

    above: int
    above_failed: int
    below: int
    below_held: int

    @property
    def share(self) -> float:
        """The share of disagreements, 0.0 without a test."""
        tests = self.above + self.below
        return (self.above_failed + self.below_held) / tests if tests else 0.0

    def below_at_most(self, risk: float = 0.05) -> float:
        """An upper limit of the share of ``below`` subsets that hold (Clopper-Pearson)."""
        return upper_bound(self.below_held, self.below, risk) if self.below else 1.0

    def __str__(self) -> str:
        """The disagreements in words."""
        return (
            f"{self.above_failed:,} of {self.above:,} random subsets with a whole rule fail, "
            f"{self.below_held:,} of {self.below:,} without one hold"
        )

    def to_json(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        return {
            "above": self.above,
            "above_failed": self.above_failed,
            "below": self.below,
            "below_held": self.below_held,
            "share": self.share,
        }


@dataclass(frozen=True, eq=False)
class CertifiedRules:
    """The rules of one kind that stand, each with what was shown about it.

    Args:
        kind: ``retention`` or ``omission``.
        source_names: what the sources are called, in order.
        rules: the rules, smallest first.
        validity: the share of subsets for which a rule was asked to hold.
        confidence: the probability with which all the bounds are true together, at least.
        complete: every subset that has none of these rules' sources whole lies inside one that was
            seen to fail, so that there is no other minimal rule; this rests on no assumption.
        refuted: sets that were taken for rules until a counterexample was found.
        isolated: how many subsets were seen to hold with no rule of the size allowed inside.
        monotonicity: the test of the assumption that the search rests on.
        num_probes: how many distinct subsets were needed.
        num_search_probes: those of them that found the rules; the others tested them.
        finished: false where a probe budget ran out: rules without samples were not tested.
    """

    kind: str
    source_names: tuple[str, ...]
    rules: tuple[CertifiedRule, ...]
    validity: float
    confidence: float
    complete: bool
    refuted: frozenset[frozenset[int]]
    isolated: int
    monotonicity: MonotonicityCheck
    num_probes: int
    num_search_probes: int
    finished: bool = True

    @cached_property
    def minimal(self) -> frozenset[frozenset[int]]:
        """The rules that stand, each as the set of its source indices."""
        return frozenset(rule.sources for rule in self.rules)

    @cached_property
    def certified(self) -> frozenset[frozenset[int]]:
        """Those of them that were shown to reach the validity asked for."""
        return frozenset(rule.sources for rule in self.rules if rule.certified)

    @property
    def num_sources(self) -> int:
        """How many sources the rules speak of."""
        return len(self.source_names)

    def covers(self, sources: Iterable[int]) -> bool:
        """Whether a set of sources contains a whole rule."""
        given = frozenset(sources)
        return any(rule.sources <= given for rule in self.rules)

    def __len__(self) -> int:
        """How many rules stand."""
        return len(self.rules)

    def __str__(self) -> str:
        """The rules in words, one a line, behind a line of what was shown."""
        count, shown = len(self), len(self.certified)
        head = f"{count} {self.kind} rule{'' if count == 1 else 's'}"
        if count:
            some = "all" if shown == count else f"{shown}"
            head += f", {some} shown to hold for at least {100 * self.validity:g} % of the subsets"
            head += f" with {100 * self.confidence:g} % confidence"
        found_by = f"{self.num_search_probes:,} of them to find the rules"
        head += f" ({self.num_probes:,} probe{'' if self.num_probes == 1 else 's'}, {found_by})"
        lines = [head, *(f"  {rule}" for rule in self.rules[:_MOST_LINES])]
        if count > _MOST_LINES:
            lines.append(f"  … and {count - _MOST_LINES} more")
        if not self.finished:
            lines.append("  Stopped by the probe budget: there may be more.")
        elif self.complete:
            lines.append("  Every other subset lies inside one that fails: no rule is missing.")
        elif self.isolated:
            lines.append(
                f"  Outputs are uneven ({self.isolated} stray subsets hold): there may be more."
            )
        else:
            lines.append("  The search was cut short: there may be more.")
        if self.monotonicity.above + self.monotonicity.below:
            lines.append(f"  Monotone? {self.monotonicity}.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Everything that was shown as a JSON object."""
        return {
            "kind": self.kind,
            "names": list(self.source_names),
            "minimal": [rule.to_json() for rule in self.rules],
            "validity": self.validity,
            "confidence": self.confidence,
            "complete": self.complete,
            "finished": self.finished,
            "refuted": sorted(sorted(sources) for sources in self.refuted),
            "isolated": self.isolated,
            "monotonicity": self.monotonicity.to_json(),
            "num_probes": self.num_probes,
            "num_search_probes": self.num_search_probes,
        }
