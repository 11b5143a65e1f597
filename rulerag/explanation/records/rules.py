"""Sets of sources and rules about them, with what was shown about each, in words.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4 (retention), 5 (omission), 6 (validity)
    and 8 (minimality), and section 6: rules that hold with a minimum confidence are named as
    future work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

from rulerag.errors import ConfigError, DataFormatError, did_you_mean
from rulerag.explanation.lattice import Masks, indices_of
from rulerag.explanation.records.record import Record
from rulerag.explanation.wording import condition

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
        repeated: of a server's answers, the deciding subsets that were asked twice: the set, and
            the set without each one of its sources.
        disagreed: for how many of them the predicate held once and failed once: noise.
    """

    kind: CertificateKind
    validity: float = 1.0
    confidence: float = 1.0
    subsets: str = "all"
    samples: int = 0
    successes: int = 0
    bound: float = 0.0
    sizes: tuple[OfSize, ...] = ()
    repeated: int = 0
    disagreed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The certificate as a JSON object; what no server answered has no noise."""
        row = super().to_json()
        noise = {key: row.pop(key) for key in ("repeated", "disagreed")}
        return row | noise if self.repeated else row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Read the object that ``to_json`` makes."""
        return super().from_json({"repeated": 0, "disagreed": 0, **row})

    @classmethod
    def exact(cls, num_free: int) -> Certificate:
        """That of a rule of an exact miner.

        Args:
            num_free: how many sources the rule does not name.
        """
        count = 1 << num_free
        return cls("exact", samples=count, successes=count, bound=1.0)

    @property
    def valid(self) -> bool:
        """Whether it was shown that the rule reaches the validity wanted."""
        return self.kind in ("exact", "certified")

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
        noise = f"; {self.disagreed} of {self.repeated} deciding subsets differed when asked again"
        return self._shown + noise * bool(self.repeated)

    @property
    def _shown(self) -> str:
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


_DONE = {"retention": "kept", "omission": "removed"}
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


class DocumentSet(frozenset[int]):
    """The indices of some documents, with what was shown about them.

    Args:
        indices: places of documents, from 0.
        certificate: on which subsets it was tested.
        output: what is answered with these documents alone (retention) or without them (omission);
            None where that was not asked.
    """

    certificate: Certificate
    output: str | None

    def __new__(
        cls, indices: Iterable[int], certificate: Certificate, output: str | None = None
    ) -> Self:
        """A set; equal to every other set of the same indices."""
        made = super().__new__(cls, indices)
        made.certificate, made.output = certificate, output
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return DocumentSet, (tuple(self), self.certificate, self.output)

    def to_json(self) -> dict[str, Any]:
        """The set as a JSON object."""
        shown = self.certificate.to_json()
        return {"documents": sorted(self), "output": self.output, "certificate": shown}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> DocumentSet:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        documents, certificate = row.get("documents"), row.get("certificate")
        if not isinstance(documents, list) or not all(type(one) is int for one in documents):
            raise DataFormatError("expected the places of documents", key="documents")
        if not isinstance(certificate, Mapping):
            raise DataFormatError("this key is missing from the explanation", key="certificate")
        output = row.get("output")
        if not isinstance(output, str | None):
            raise DataFormatError(f"unexpected {type(output).__name__}", key="output")
        return cls(documents, Certificate.from_json(certificate), output)


@dataclass(frozen=True)
class Spoiler(Record):
    """Documents that take a claim away although others that are enough for it are there.

    Args:
        documents: those that, all together, take it away.
        enough: those that are enough without one of them.
        output: what is answered with both, and nothing else.
    """

    documents: tuple[int, ...]
    enough: tuple[int, ...]
    output: str = ""


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

    @property
    def bound(self) -> float:
        """The share of the subsets for which the predicate holds, at least."""
        return self.certificate.bound

    @property
    def certified(self) -> bool:
        """Whether the bound reaches the validity wanted."""
        return self.certificate.valid

    def __str__(self) -> str:
        """The rule in words, and what was shown where that is not every subset."""
        when = condition(self.names, _DONE[self.kind]) if self.names else ""
        if self.certificate.always:
            return f"holds whenever {when}" if when else "holds whatever is kept or removed"
        return f"when {when or 'anything is kept'} ({self.certificate})"


@dataclass(frozen=True, eq=False)
class SourceRules:
    """The minimal rules of one kind.

    Args:
        kind: ``retention`` or ``omission``.
        names: what the sources are called, in order.
        minimal_masks: the minimal sets as masks, smallest first.
        num_probes: how many distinct subsets were needed.
        complete: whether there is no other, as each kind of result says.
        ended: what ended the search early, in words; empty where nothing did.
    """

    kind: str
    names: tuple[str, ...]
    minimal_masks: tuple[int, ...]
    num_probes: int
    complete: bool
    ended: str

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
            SourceRule(
                self.kind,
                frozenset(indices := indices_of(mask)),
                tuple(self.names[index] for index in indices),
                self.certificate(mask),
            )
            for mask in self.minimal_masks
        )

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
    def valid(self) -> frozenset[frozenset[int]]:
        """Every valid rule, each as the set of its source indices."""
        return frozenset(frozenset(indices_of(mask)) for mask in self.valid_masks.tolist())

    def __str__(self) -> str:
        """The minimal rules in words, one a line, behind a line of counts."""
        head = (
            f"{len(self)} minimal {self.kind} rule{'' if len(self) == 1 else 's'} "
            f"({len(self.valid_masks)} valid of {1 << len(self.names)} subsets, "
            f"{self.num_probes} probes)"
        )
        if self.ended:
            head += f", ended early ({self.ended}): these are certain, there may be more"
        return "\n".join(self._lines(head))


@dataclass(frozen=True, eq=False)
class CertifiedRules(SourceRules):
    """The rules of one kind that stand, each with what was shown about it.

    They are ``complete`` when each was shown to reach the validity and every subset that has none
    of these rules' sources whole lies inside one that was seen to fail, so that no other set holds
    for all of its subsets; this rests on no assumption.

    Args:
        certificates: what was shown about each of the minimal sets.
    """

    certificates: Mapping[int, Certificate]

    def certificate(self, mask: int) -> Certificate:
        """What was shown about one of the rules."""
        return self.certificates[mask]

    @cached_property
    def certified(self) -> frozenset[frozenset[int]]:
        """Those of the rules that were shown to reach the validity wanted."""
        return frozenset(rule.sources for rule in self.rules if rule.certified)

    def __str__(self) -> str:
        """The rules in words, one a line, behind a line of what was shown."""
        count, reached = len(self), len(self.certified)
        head = f"{count} {self.kind} rule{'' if count == 1 else 's'}"
        if count:
            shown = self.rules[0].certificate
            number = "all" if reached == count else reached or "none"
            head += f", {number} shown to hold for at least "
            head += f"{percent(shown.validity)} of the subsets ({SUBSETS[shown.subsets]}) with "
            head += f"{percent(shown.confidence)} confidence"
        head += f" ({self.num_probes:,} probe{'' if self.num_probes == 1 else 's'})"
        last = "Every other subset lies inside one that fails: no other set always holds."
        if not self.complete:
            last = f"The search ended early{self.ended and f' ({self.ended})'}: there may be more."
        return "\n".join([*self._lines(head), f"  {last}"])
