"""The records of an explained answer: rules, documents, and which rule found which document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rulerag.explanation.records.record import Record
from rulerag.rules import Rule
from rulerag.types import Answer


@dataclass(frozen=True)
class RuleTrace(Record):
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


@dataclass(frozen=True)
class HitTrace(Record):
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
        return f"{self.rule or 'query'} rank {self.rank}, score {self.score:.4g}"


@dataclass(frozen=True)
class ReasonTrace(Record):
    """Why a candidate scorer wanted a document, in words; ``documents`` (ids) state the facts."""

    scorer: str
    why: str
    documents: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The reason in a line."""
        return f"{self.scorer}: {self.why}"


@dataclass(frozen=True)
class DocumentTrace(Record):
    """A document under its short name ``D1``, ``D2`` …, with every search that found it.

    ``support`` says why candidate scorers wanted it, the strongest reason first; empty where none
    chose it.
    """

    alias: str
    id: str
    text: str
    rank: int
    score: float
    found_by: tuple[HitTrace, ...] = ()
    title: str = ""
    support: tuple[ReasonTrace, ...] = ()

    @property
    def rules(self) -> tuple[str | None, ...]:
        """The short names of the rules that found it, None for the query alone, best rank first.

        Where the document states the body of a rule that found it, only such rules are named:
        other searches may have met it for the sake of its subject alone.
        """
        ordered = sorted(self.found_by, key=lambda hit: (hit.rule is None, hit.rank))
        stated = [hit for hit in ordered if hit.atom is not None]
        return tuple(dict.fromkeys(hit.rule for hit in stated or ordered))


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
            HitTrace(aliases.get(hit.rule_id or "", hit.rule_id), hit.rank, hit.score, hit.atom)
            for hit in scored.found_by
        )
        found = (scored.document.id, scored.document.text, scored.rank, scored.score)
        reasons = tuple(
            ReasonTrace(one.scorer, one.why, one.document_ids) for one in scored.support
        )
        title = scored.document.title
        traces.append(DocumentTrace(f"D{number}", *found, hits, title, reasons))
    return tuple(traces)
