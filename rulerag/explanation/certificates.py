"""What a certified miner returns: rules, and exactly what was shown about each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rulerag.explanation.results import SourceRule
from rulerag.explanation.shown import (
    CERTIFIED,
    EXACT,
    NOT_SHOWN,
    SHOWN,
    SUBSETS,
    UNTESTED,
    Certificate,
    ShownRule,
    percent,
)
from rulerag.explanation.wording import condition

__all__ = ["CertifiedRule", "CertifiedRules"]

_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class CertifiedRule:
    """A rule and the evidence for it.

    Args:
        rule: the retention or omission rule.
        certificate: on which subsets it was tested, and what that shows.
    """

    rule: SourceRule
    certificate: Certificate

    @property
    def sources(self) -> frozenset[int]:
        """The indices of the rule's sources."""
        return self.rule.sources

    @property
    def names(self) -> tuple[str, ...]:
        """What the rule's sources are called."""
        return self.rule.names

    @property
    def samples(self) -> int:
        """On how many of the subsets that it speaks of it was tested."""
        return self.certificate.samples

    @property
    def successes(self) -> int:
        """For how many of them the predicate held."""
        return self.certificate.successes

    @property
    def bound(self) -> float:
        """The share of the subsets for which the predicate holds, at least."""
        return self.certificate.bound

    @property
    def exact(self) -> bool:
        """Whether every subset was tested, so that the bound is the share itself."""
        return self.certificate.kind == EXACT

    @property
    def certified(self) -> bool:
        """Whether the bound reaches the validity asked for."""
        tested = self.certificate.kind != UNTESTED
        return tested and self.bound >= self.certificate.validity

    @property
    def minimal_shown(self) -> bool:
        """Whether each rule with one source fewer was shown to fall below the validity."""
        return self.certificate.minimality == SHOWN

    @property
    def shown(self) -> ShownRule:
        """The rule by its names."""
        return ShownRule(self.names, self.certificate)

    def __str__(self) -> str:
        """The rule in words, and what was shown."""
        told = self.certificate
        if told.always:
            words = [f"{self.rule} (all {told.samples:,} subsets tried"]
        elif not self.names:
            words = [f"holds whichever sources are kept or removed ({told}"]
        else:
            words = [f"when {condition([self.names], self.rule.done)} ({told}"]
        if told.kind in (CERTIFIED, EXACT) and not self.certified:
            words.append(f"below {percent(told.validity)}")
        if told.minimality == NOT_SHOWN:
            words.append("not shown to be minimal")
        elif told.minimality == UNTESTED and self.certified:
            words.append("no smaller one was looked for")
        return f"{'; '.join(words)})"

    def to_json(self) -> dict[str, Any]:
        """The rule and its evidence as a JSON object."""
        return {
            **self.rule.to_json(),
            "text": str(self),
            "certificate": self.certificate.to_json(),
        }


@dataclass(frozen=True, eq=False)
class CertifiedRules:
    """The rules of one kind that stand, each with what was shown about it.

    Args:
        kind: ``retention`` or ``omission``.
        source_names: what the sources are called, in order.
        rules: the rules, smallest first.
        validity: the share of subsets for which a rule was asked to hold.
        confidence: the probability with which all bounds of the rules, and all ceilings of the
            smaller ones, are true together, at least.
        subsets: how the random subsets are drawn, ``uniform`` or ``by-size``.
        complete: every subset that has none of these rules' sources whole lies inside one that was
            seen to fail, so that no other minimal set holds for all of its subsets; this rests on
            no assumption. Some smaller set may hold for a share that reaches the validity: each
            certificate says whether that was excluded.
        refuted: sets that were taken for rules until a counterexample was found.
        isolated: how many subsets were seen to hold with no rule of the size allowed inside.
        num_probes: how many distinct subsets were needed.
        num_search_probes: those of them that found the rules; the others tested them.
        finished: false where a probe budget ran out: rules without samples were not tested.
    """

    kind: str
    source_names: tuple[str, ...]
    rules: tuple[CertifiedRule, ...]
    validity: float
    confidence: float
    subsets: str
    complete: bool
    refuted: frozenset[frozenset[int]]
    isolated: int
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
            head += f", {some} shown to hold for at least {percent(self.validity)} of the subsets"
            head += f" ({SUBSETS[self.subsets]}) with {percent(self.confidence)} confidence"
        found_by = f"{self.num_search_probes:,} of them to find the rules"
        head += f" ({self.num_probes:,} probe{'' if self.num_probes == 1 else 's'}, {found_by})"
        lines = [head, *(f"  {rule}" for rule in self.rules[:_MOST_LINES])]
        if count > _MOST_LINES:
            lines.append(f"  … and {count - _MOST_LINES} more")
        if not self.finished:
            lines.append("  Stopped by the probe budget: there may be more.")
        elif self.complete:
            lines.append(
                "  Every other subset lies inside one that fails: no other set always holds."
            )
        elif self.isolated:
            lines.append(
                f"  Outputs are uneven ({self.isolated} stray subsets hold): there may be more."
            )
        else:
            lines.append("  The search was cut short: there may be more.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Everything that was shown as a JSON object."""
        return {
            "kind": self.kind,
            "names": list(self.source_names),
            "minimal": [rule.to_json() for rule in self.rules],
            "validity": self.validity,
            "confidence": self.confidence,
            "subsets": self.subsets,
            "complete": self.complete,
            "finished": self.finished,
            "refuted": sorted(sorted(sources) for sources in self.refuted),
            "isolated": self.isolated,
            "num_probes": self.num_probes,
            "num_search_probes": self.num_search_probes,
        }
