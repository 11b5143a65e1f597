"""What was shown about rules of sources, and sentences that say that and no more.

"Whenever" stands before rules alone that hold for every subset. Rules shown on random subsets come
with their share, with how many subsets were tried, how those were drawn, and the confidence; rules
without a test are called untested.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 6 (validity) and 8 (minimality), and
    section 6: rules that hold with a minimum confidence are named as future work. Here one notion
    of minimality serves both: the rule reaches the validity wanted, and with any one source fewer
    it does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rulerag.errors import DataFormatError
from rulerag.explanation.records.record import Record
from rulerag.explanation.wording import (
    capital,
    condition,
    in_words,
    listing,
    quoted,
    runs,
    shortened,
)
from rulerag.text import exact_match

SUBSETS = {
    "uniform": "uniform over the subsets of the other sources",
    "by-size": "how many of the other sources are kept drawn uniformly, then which",
}
"""How random subsets can be drawn, and how that is said."""

Kind = Literal["exact", "certified", "tested", "untested"]
Minimality = Literal["proven", "shown", "not shown", "untested"]

_MOST, _MOST_NAMES = 3, 6

Names = tuple[str, ...]


@dataclass(frozen=True)
class Smaller(Record):
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

    @property
    def failed(self) -> str:
        """How many failed, in words."""
        failures = self.samples - self.successes or "none"
        kept = f"{self.least} to {self.most}" if self.least else f"at most {self.most}"
        return f"{failures} of {self.samples:,} with {kept}"


@dataclass(frozen=True)
class Certificate(Record):
    """What was shown about one rule.

    Args:
        kind: ``exact`` (every subset that the rule speaks of was decided), ``certified`` (random
            subsets show that it reaches the validity), ``tested`` (they do not) or ``untested``.
        validity: the share of subsets for which a rule has to hold; 1 for exact rules.
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
        sizes: the random subsets tried, in thirds by how many of the other sources they keep: few,
            some, most. None for exact rules, and in records of earlier versions.
    """

    kind: Kind
    validity: float = 1.0
    confidence: float = 1.0
    subsets: str = "all"
    samples: int = 0
    successes: int = 0
    bound: float = 0.0
    minimality: Minimality = "untested"
    smaller: tuple[Smaller, ...] = ()
    counterexamples: tuple[Names, ...] = ()
    sizes: tuple[OfSize, ...] = ()

    @classmethod
    def exact(cls, num_free: int) -> Certificate:
        """That of a minimal rule of an exact miner.

        Args:
            num_free: how many sources the rule does not name.
        """
        count = 1 << num_free
        return cls("exact", samples=count, successes=count, bound=1.0, minimality="proven")

    @property
    def always(self) -> bool:
        """Whether every subset was decided and the predicate holds for all of them."""
        return self.kind == "exact" and self.successes == self.samples

    @property
    def failures(self) -> int:
        """For how many of the subsets tried the predicate failed."""
        return self.samples - self.successes

    @property
    def failed_by_size(self) -> str:
        """How many subsets of each size failed, in words; empty without a failure, or sizes."""
        if not self.failures or len(self.sizes) < 2:
            return ""
        return listing([one.failed for one in self.sizes if one.samples])

    @property
    def sizes_missed(self) -> tuple[OfSize, ...]:
        """The sizes of which hardly any subset was tried: under a tenth of them all."""
        return tuple(one for one in self.sizes if 10 * one.samples < self.samples)

    def __str__(self) -> str:
        """What was shown, in a few words."""
        if self.always:
            return f"all {self.samples:,} subsets"
        if self.kind == "exact":
            return f"{percent(self.bound)} of the subsets, all {self.samples:,} tried"
        if self.kind == "untested":
            return "not tested"
        held = f"held in {self.successes:,} of {self.samples:,} random subsets"
        if self.kind == "tested":
            return f"{held}: {percent(self.validity)} is not shown"
        return f"at least {percent(self.bound)}, {held}, confidence {percent(self.confidence)}"


@dataclass(frozen=True)
class NamedRule(Record):
    """A rule by the names of its sources, with its certificate.

    Args:
        names: what its sources are called.
        certificate: what was shown.
        output: what the generator says when exactly these sources are removed (omission) or kept
            (retention); None where the generator did not answer that.
    """

    names: Names
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
        words = runs(removed)
        if len(words) > _MOST_NAMES:
            words = [*removed[:_MOST_NAMES], f"{len(removed) - _MOST_NAMES} others"]
        return f"with {listing(words)} removed"

    def to_json(self) -> dict[str, Any]:
        """The rule with its certificate's keys among its own."""
        own = {"names": list(self.names), "output": self.output, "shown": str(self.certificate)}
        return {**own, **self.certificate.to_json()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> NamedRule:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        return super().from_json({**row, "certificate": row})


def certificates_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rules with their certificates in an object that holds some families of them.

    Raises:
        DataFormatError: they are missing.
    """
    found = row.get("certificates")
    if not isinstance(found, Mapping):
        what = "the rules of this explanation stand without their certificates"
        hint = "an earlier version wrote it: explain the answer again"
        raise DataFormatError(what, key="certificates", hint=hint)
    return found


def percent(share: float) -> str:
    """A share per cent, never rounded up: 95 %, 97.1 %."""
    return f"{math.floor(1000 * share + 1e-9) / 10:g} %"


def among(count: int, rest: str) -> str:
    """The scope of a sentence: the documents that were kept or removed."""
    if count == 1:
        return f"With this document as the only evidence, {rest}"
    return f"Among these {in_words(count)} documents {rest}"


def correctness(text: str, answers: Sequence[str]) -> str:
    """``right`` or ``wrong`` by exact match; empty where no accepted answer is known."""
    if not answers:
        return ""
    return "right" if exact_match(text, answers) else "wrong"


def holding(rules: Sequence[NamedRule], claim: str, done: str) -> str:
    """When a claim holds, each kind of certificate in its own words.

    Args:
        rules: the rules of one kind, at least one.
        claim: what holds, as a clause.
        done: ``kept`` or ``removed``.

    Returns:
        A clause; without a rule that was shown to hold it says so.
    """
    parts = []
    always, certified, whole = (
        _same_test(rules, kind) for kind in ("always", "certified", "exact")
    )
    if always:
        parts.append(f"whenever {condition([rule.names for rule in always], done)}")
    if certified:
        certificates = [rule.certificate for rule in certified]
        share = percent(min(one.bound for one in certificates))
        random = f"random {_subsets(certified, done)} ({_tried(certificates)})"
        parts.append(f"in at least {share} of {random}")
    if whole:
        share = percent(min(rule.certificate.bound for rule in whole))
        least = "" if len(whole) == 1 else "at least "
        parts.append(f"in {least}{share} of {_subsets(whole, done)} (all of them tried)")
    if not parts:
        return f"no rule is shown under which {claim}"
    return f"{claim} {', and '.join(parts)}"


def _same_test(rules: Sequence[NamedRule], kind: str) -> list[NamedRule]:
    """The rules with one kind of certificate; of ``exact``, those that fail now and then."""
    if kind == "always":
        return [rule for rule in rules if rule.certificate.always]
    return [r for r in rules if r.certificate.kind == kind and not r.certificate.always]


def _tried(certificates: Sequence[Certificate]) -> str:
    """On how many random subsets some rules were tried, how drawn, and with what confidence."""
    counts = sorted({one.samples for one in certificates})
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    each = " for each" if len(certificates) > 1 else ""
    first = certificates[0]
    return f"{number} tried{each}, {SUBSETS[first.subsets]}, confidence {percent(first.confidence)}"


def _subsets(rules: Sequence[NamedRule], done: str) -> str:
    sets = [rule.names for rule in rules if rule.names]
    return f"subsets in which {condition(sets, done)}" if sets else "subsets"


def strongest(rules: Sequence[NamedRule]) -> list[NamedRule]:
    """The rules that :func:`holding` speaks of: those that were shown to hold."""
    return [
        rule
        for kind in ("always", "certified", "exact")
        for rule in _same_test(rules, kind)
        if rule.names or rule.certificate.always
    ]


def becomes(rules: Sequence[NamedRule], answers: Sequence[str]) -> str:
    """What the generator says when exactly the sources of an omission rule are removed.

    Args:
        rules: the omission rules.
        answers: the accepted answers, none where they are not known.
    """
    said: dict[str, list[Names]] = {}
    for rule in rules:
        if rule.output is not None and rule.names:
            said.setdefault(rule.output, []).append(rule.names)
    parts: list[str] = []
    for output, sets in list(said.items())[:_MOST]:
        gone = [listing(runs(names)) for names in sets[:_MOST]]
        gone += [f"{len(sets) - _MOST} more"] if len(sets) > _MOST else []
        who = "it" if parts else "the generator"
        right = correctness(output, answers) if output.strip() else ""
        clause = f"with {listing(gone, 'or')} alone removed {who} {quoted(output)}"
        parts.append(f"{clause}, which is {right}" if right else clause)
    if len(said) > _MOST:
        parts.append(f"{len(said) - _MOST} further answers come with the others")
    return f"{capital('; '.join(parts))}." if parts else ""


def evidence(kept: Sequence[NamedRule], removed: Sequence[NamedRule]) -> list[str]:
    """What the sentences about rules leave open: failures, tests missed, and minimality.

    Args:
        kept: the retention rules.
        removed: the omission rules.

    Returns:
        Sentences, none where every rule is exact and holds for all subsets.
    """
    return [
        *_failures(kept, "kept"),
        *_failures(removed, "removed"),
        *_minimality(kept, removed),
        *_sizes_missed([*kept, *removed]),
    ]


def _failures(rules: Sequence[NamedRule], done: str) -> list[str]:
    """Counterexamples, rules below the validity, and rules that were not tested."""
    sentences = []
    failing = [rule for rule in rules if rule.certificate.failures]
    for rule in failing[:_MOST]:
        certificate = rule.certificate
        text = f"With {listing(runs(rule.names))} {done}" if rule.names else "Whatever is kept,"
        text += f" it failed in {certificate.failures:,} of {certificate.samples:,} subsets"
        if rule.counterexample:
            text += f", for example {rule.counterexample}"
        if certificate.failed_by_size:
            text += f"; by how many other sources are kept: {certificate.failed_by_size}"
        if certificate.kind == "tested":
            text += f": {percent(certificate.validity)} is not shown"
        sentences.append(f"{text}.")
    if len(failing) > _MOST:
        sentences.append(f"{len(failing) - _MOST} further rules failed in some subsets.")
    if untested := _same_test(rules, "untested"):
        sentences.append(f"Found by the search and not tested: {_sets(untested)} ({done}).")
    return sentences


def _sizes_missed(rules: Sequence[NamedRule]) -> list[str]:
    """Contexts of a size that the random subsets of the certificates hardly ever had."""
    certified = _same_test(rules, "certified")
    missed = [one for rule in certified for one in rule.certificate.sizes_missed]
    few, many = [one.most for one in missed if not one.least], [o.least for o in missed if o.least]
    sizes = [f"at most {min(few)}"] if few else []
    sizes += [f"at least {max(many)}"] if many else []
    if not sizes:
        return []
    which = listing(sizes, "or")
    return [
        f"Hardly any subset tried keeps {which} of the other sources: little is shown of those."
    ]


def _minimality(kept: Sequence[NamedRule], removed: Sequence[NamedRule]) -> list[str]:
    sets_of: dict[str, list[str]] = {}
    minimal: list[NamedRule] = []
    for rules, done in ((kept, "kept"), (removed, "removed")):
        tested = [r for r in rules if r.names and r.certificate.kind in ("certified", "exact")]
        for status in ("untested", "not shown", "shown"):
            found = [rule for rule in tested if rule.certificate.minimality == status]
            if found:
                sets_of.setdefault(status, []).append(f"{_sets(found)} ({done})")
            minimal += found if status == "shown" else []
    share = percent(max((rule.certificate.validity for rule in minimal), default=0.0))
    words = {
        "untested": "No smaller one was looked for",
        "not shown": "Not shown to be minimal",
        "shown": f"Minimal, since shown to hold for less than {share} with one source fewer",
    }
    sentences = [f"{words[one]}: {'; '.join(sets_of[one])}." for one in words if one in sets_of]
    if minimal and len(minimal) == sum(bool(rule.names) for rule in (*kept, *removed)):
        below = f"with one source fewer it was shown to hold for less than {share}"
        return [f"Each set is minimal: {below}."]
    return sentences


def _sets(rules: Sequence[NamedRule]) -> str:
    """Sets one by one up to a few, and how many there are besides."""
    sets: list[str] = [" + ".join(rule.names) or "no source" for rule in rules[:_MOST]]
    if len(rules) > _MOST:
        sets.append(f"{len(rules) - _MOST} more")
    return shortened("; ".join(sets), 200)
