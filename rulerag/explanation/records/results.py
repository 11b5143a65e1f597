"""What the miners of source rules return: rules with what was shown about each, in words.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4 (retention), 5 (omission), 6 (validity)
    and 8 (minimality).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from rulerag.errors import ConfigError, did_you_mean
from rulerag.explanation.lattice import Masks, SubsetFamily, indices_of
from rulerag.explanation.records.certificates import SUBSETS, Certificate, NamedRule, percent
from rulerag.explanation.wording import condition

_DONE = {"retention": "kept", "omission": "removed"}
_WHICHEVER = "holds whichever sources are kept or removed"
_MOST_LINES = 20


def check_kind(kind: str) -> str:
    """The kind of rule, when there is such a kind.

    Raises:
        ConfigError: the kind is unknown.
    """
    if kind not in _DONE:
        hint = did_you_mean(str(kind), _DONE)
        raise ConfigError(f"unknown kind of rule {kind!r}", key="kind", hint=hint)
    return kind


@dataclass(frozen=True, slots=True)
class SourceRule:
    """A set of sources that decides the output.

    Args:
        kind: ``retention`` (whenever all of these are kept, the predicate holds, whatever else is
            removed) or ``omission`` (whenever all of these are removed).
        sources: the indices of the sources.
        names: what they are called, in the order of their indices.
        certificate: on which subsets the rule was tested, and what that shows.
    """

    kind: str
    sources: frozenset[int]
    names: tuple[str, ...]
    certificate: Certificate

    @classmethod
    def of(
        cls, kind: str, mask: int, names: tuple[str, ...], certificate: Certificate
    ) -> SourceRule:
        """The rule on the sources of ``mask``; ``names`` are those of all sources."""
        indices = indices_of(mask)
        return cls(kind, frozenset(indices), tuple(names[i] for i in indices), certificate)

    @property
    def bound(self) -> float:
        """The share of the subsets for which the predicate holds, at least."""
        return self.certificate.bound

    @property
    def certified(self) -> bool:
        """Whether the bound reaches the validity wanted."""
        tested = self.certificate.kind != "untested"
        return tested and self.bound >= self.certificate.validity

    @property
    def named(self) -> NamedRule:
        """The rule by its names."""
        return NamedRule(self.names, self.certificate)

    def __str__(self) -> str:
        """The rule in words, and what was shown where that is not every subset."""
        certificate = self.certificate
        named = condition([self.names], _DONE[self.kind]) if self.names else ""
        always = f"holds whenever {named}" if named else _WHICHEVER
        if certificate.minimality == "proven":
            return always
        if certificate.always:
            words = [f"{always} (all {certificate.samples:,} subsets tried"]
        else:
            words = [f"{f'when {named}' if named else always} ({certificate}"]
        if certificate.kind in ("certified", "exact") and not self.certified:
            words.append(f"below {percent(certificate.validity)}")
        if certificate.minimality == "not shown":
            words.append("not shown to be minimal")
        elif certificate.minimality == "untested" and self.certified:
            words.append("no smaller one was looked for")
        return f"{'; '.join(words)})"


RuleHook = Callable[[SourceRule], object]
"""What is called with a rule as soon as it is certain."""


@dataclass(frozen=True, eq=False)
class SourceRules:
    """The minimal rules of one kind.

    Args:
        kind: ``retention`` or ``omission``.
        names: what the sources are called, in order.
        minimal_masks: the minimal sets as masks, smallest first.
        num_probes: how many distinct subsets were needed.
        complete: whether there is no other, as each kind of result says.
    """

    kind: str
    names: tuple[str, ...]
    minimal_masks: tuple[int, ...]
    num_probes: int
    complete: bool

    def certificate(self, mask: int) -> Certificate:
        """What was shown about one of the minimal sets: here, that every subset was decided."""
        return Certificate.exact(len(self.names) - mask.bit_count())

    @cached_property
    def minimal(self) -> frozenset[frozenset[int]]:
        """The minimal rules, each as the set of its source indices."""
        return frozenset(frozenset(indices_of(mask)) for mask in self.minimal_masks)

    @cached_property
    def rules(self) -> tuple[SourceRule, ...]:
        """The minimal rules as records, smallest first."""
        return tuple(
            SourceRule.of(self.kind, mask, self.names, self.certificate(mask))
            for mask in self.minimal_masks
        )

    @property
    def named(self) -> tuple[NamedRule, ...]:
        """The minimal rules by the names of their sources."""
        return tuple(rule.named for rule in self.rules)

    def __len__(self) -> int:
        """How many minimal rules there are."""
        return len(self.minimal_masks)

    def _lines(self, head: str) -> list[str]:
        """The first rules, one a line, behind a line of counts."""
        lines = [head, *(f"  {rule}" for rule in self.rules[:_MOST_LINES])]
        more = len(self) - _MOST_LINES
        return [*lines, f"  … and {more} more"] if more > 0 else lines


@dataclass(frozen=True, eq=False)
class ExactRules(SourceRules):
    """Every valid rule of one kind, and the minimal ones among them.

    Where a probe budget ended the search it is not ``complete``: the sets named are certain, and
    there may be more.

    Args:
        valid_masks: the valid sets as masks, largest first.
    """

    valid_masks: Masks

    @cached_property
    def valid(self) -> SubsetFamily:
        """Every valid rule, as a set of sets of source indices that is expanded as it is read."""
        return SubsetFamily(self.valid_masks)

    def __str__(self) -> str:
        """The minimal rules in words, one a line, behind a line of counts."""
        head = (
            f"{len(self)} minimal {self.kind} rule{'' if len(self) == 1 else 's'} "
            f"({len(self.valid_masks)} valid of {1 << len(self.names)} subsets, "
            f"{self.num_probes} probes)"
        )
        if not self.complete:
            head += ", stopped by the probe budget: these are certain, there may be more"
        return "\n".join(self._lines(head))


@dataclass(frozen=True, eq=False)
class CertifiedRules(SourceRules):
    """The rules of one kind that stand, each with what was shown about it.

    They are ``complete`` when every subset that has none of these rules' sources whole lies inside
    one that was seen to fail, so that no other minimal set holds for all of its subsets; this rests
    on no assumption. Some smaller set may hold for a share that reaches the validity: each
    certificate says whether that was excluded.

    Args:
        certificates: what was shown about each of the minimal sets.
        untested: the certificate of a rule without a test: validity, confidence (with which all
            bounds of the rules, and all ceilings of the smaller ones, are true together, at least),
            and how random subsets are drawn.
        isolated: how many subsets were seen to hold with no rule of the size allowed inside.
        num_search_probes: those of the probes that found the rules; the others tested them.
        finished: false where a probe budget ran out: rules without samples were not tested.
    """

    certificates: Mapping[int, Certificate]
    untested: Certificate
    isolated: int
    num_search_probes: int
    finished: bool = True

    def certificate(self, mask: int) -> Certificate:
        """What was shown about one of the rules."""
        return self.certificates.get(mask, self.untested)

    @cached_property
    def certified(self) -> frozenset[frozenset[int]]:
        """Those of the rules that were shown to reach the validity wanted."""
        return frozenset(rule.sources for rule in self.rules if rule.certified)

    def __str__(self) -> str:
        """The rules in words, one a line, behind a line of what was shown."""
        count, reached, untested = len(self), len(self.certified), self.untested
        head = f"{count} {self.kind} rule{'' if count == 1 else 's'}"
        if count:
            some = "all" if reached == count else f"{reached}"
            least = percent(untested.validity)
            head += f", {some} shown to hold for at least {least} of the subsets"
            head += f" ({SUBSETS[untested.subsets]}) with {percent(untested.confidence)} confidence"
        found_by = f"{self.num_search_probes:,} of them to find the rules"
        head += f" ({self.num_probes:,} probe{'' if self.num_probes == 1 else 's'}, {found_by})"
        if not self.finished:
            last = "Stopped by the probe budget: there may be more."
        elif self.complete:
            last = "Every other subset lies inside one that fails: no other set always holds."
        elif self.isolated:
            last = f"Outputs are uneven ({self.isolated} outlying subsets hold): there may be more."
        else:
            last = "The search was cut short: there may be more."
        return "\n".join([*self._lines(head), f"  {last}"])
