"""The records of an explained answer: rules, documents, and which rule found which document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rulerag.errors import DataFormatError
from rulerag.rules import Rule
from rulerag.types import Answer

__all__ = [
    "DocumentTrace",
    "HitTrace",
    "RuleTrace",
    "document_of",
    "expect",
    "trace_documents",
    "trace_rules",
]


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """A guiding rule under a short name such as ``R1``.

    ``confidence`` is the one that ranks rules (temporal, else PCA, else standard), ``support`` its
    count of cases; None where the rule carries no count.
    """

    alias: str
    id: str
    text: str
    confidence: float | None = None
    support: int | None = None

    @property
    def quality(self) -> str:
        """Confidence and support in words; empty where neither is known."""
        parts = [] if self.confidence is None else [f"confidence {self.confidence:.2f}"]
        parts += [] if self.support is None else [f"support {self.support:,}"]
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The rule as a JSON object."""
        return {
            "alias": self.alias,
            "id": self.id,
            "text": self.text,
            "confidence": self.confidence,
            "support": self.support,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> RuleTrace:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        confidence = expect({"confidence": None, **row}, "confidence", int | float | None)
        return cls(
            expect(row, "alias", str),
            expect(row, "id", str),
            expect(row, "text", str),
            None if confidence is None else float(confidence),
            expect({"support": None, **row}, "support", int | None),
        )


@dataclass(frozen=True, slots=True)
class HitTrace:
    """One search that found a document: by a rule (its short name) or by the query alone (None).

    ``rank`` counts from 1 within that search; ``atom`` is the rule's body atom, from 0, that the
    document grounds, where it is known.
    """

    rule: str | None
    rank: int
    score: float
    atom: int | None = None

    def __str__(self) -> str:
        """The search in a few words."""
        who = self.rule or "query"
        return f"{who} rank {self.rank}, score {self.score:.4g}"

    def to_json(self) -> dict[str, Any]:
        """The search as a JSON object."""
        return {"rule": self.rule, "rank": self.rank, "score": self.score, "atom": self.atom}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> HitTrace:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        return cls(
            rule=expect(row, "rule", str | None),
            rank=expect(row, "rank", int),
            score=float(expect(row, "score", int | float)),
            atom=expect(row, "atom", int | None),
        )


@dataclass(frozen=True, slots=True)
class DocumentTrace:
    """A document under its short name ``D1``, ``D2`` …, with every search that found it."""

    alias: str
    id: str
    text: str
    rank: int
    score: float
    found_by: tuple[HitTrace, ...] = ()

    @property
    def rules(self) -> tuple[str | None, ...]:
        """The short names of the rules that found it, None for the query alone, best rank first.

        Where the document states the body of a rule that found it, only such rules are named:
        other searches may have met it for the sake of its subject alone.
        """
        ordered = sorted(self.found_by, key=lambda hit: (hit.rule is None, hit.rank))
        stated = [hit for hit in ordered if hit.atom is not None]
        return tuple(dict.fromkeys(hit.rule for hit in stated or ordered))

    def to_json(self) -> dict[str, Any]:
        """The document as a JSON object."""
        return {
            "alias": self.alias,
            "id": self.id,
            "text": self.text,
            "rank": self.rank,
            "score": self.score,
            "found_by": [hit.to_json() for hit in self.found_by],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> DocumentTrace:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        return cls(
            alias=expect(row, "alias", str),
            id=expect(row, "id", str),
            text=expect(row, "text", str),
            rank=expect(row, "rank", int),
            score=float(expect(row, "score", int | float)),
            found_by=tuple(HitTrace.from_json(hit) for hit in expect(row, "found_by", list)),
        )


def trace_rules(answer: Answer) -> tuple[RuleTrace, ...]:
    """The guiding rules of an answer as R1, R2, … in their order."""
    return tuple(
        RuleTrace(f"R{number}", rule.id, rule.text, _confidence(rule), rule.quality.support)
        for number, rule in enumerate(answer.rules, start=1)
    )


def _confidence(rule: Rule) -> float | None:
    """The confidence that ranks a rule; None, not 0, where it carries none."""
    quality = rule.quality
    known = (quality.confidence, quality.pca_confidence, quality.standard_confidence)
    return rule.ranking_confidence if any(value is not None for value in known) else None


def document_of(source: str) -> str:
    """The short name of the document that a source stands in: D2 of D2.1."""
    return source.partition(".")[0]


def trace_documents(answer: Answer, rules: Sequence[RuleTrace]) -> tuple[DocumentTrace, ...]:
    """The documents of an answer as D1, D2, … in the order that the generator saw.

    A rule that found a document and is not among ``rules`` keeps its id as its name.
    """
    aliases = {rule.id: rule.alias for rule in rules}
    traces = []
    for number, scored in enumerate(answer.documents, start=1):
        hits = tuple(
            HitTrace(
                None if hit.rule_id is None else aliases.get(hit.rule_id, hit.rule_id),
                hit.rank,
                hit.score,
                hit.atom,
            )
            for hit in scored.found_by
        )
        document = scored.document
        traces.append(
            DocumentTrace(f"D{number}", document.id, document.text, scored.rank, scored.score, hits)
        )
    return tuple(traces)


def expect(row: Mapping[str, Any], key: str, kind: Any) -> Any:
    """The value of a key when it has the expected type.

    Raises:
        DataFormatError: the key is missing or its value has another type.
    """
    if key not in row:
        raise DataFormatError("this key is missing from the explanation", key=key)
    value = row[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, bool | None)):
        raise DataFormatError(f"unexpected {type(value).__name__} in an explanation", key=key)
    return value
