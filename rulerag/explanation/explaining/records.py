"""The record of an explained answer: claims, the documents that each rests on, what was shown.

For answers of our own pipelines it holds the whole way: mined rules, the documents that they found,
and the minimal sets of these that drive the answer.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4 (retention), 5 (omission), 8 (minimality).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rulerag.explanation.attribution import Attribution, KeywordFit, RegionExplanation
from rulerag.explanation.records import DocumentSet, Record, Spoiler
from rulerag.explanation.units import Passage
from rulerag.text import exact_match
from rulerag.types import Answer


@dataclass(frozen=True)
class RuleTrace(Record):
    """A mined rule that guided an answer, under a short name such as ``R1``.

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


def trace_rules(answer: Answer) -> tuple[RuleTrace, ...]:
    """The guiding rules of an answer as R1, R2, … in their order."""
    traces = []
    for number, rule in enumerate(answer.rules, start=1):
        quality = rule.quality
        known = (quality.confidence, quality.pca_confidence, quality.standard_confidence)
        confidence = rule.ranking_confidence if any(one is not None for one in known) else None
        traces.append(RuleTrace(f"R{number}", rule.id, rule.text, confidence, quality.support))
    return tuple(traces)


@dataclass(frozen=True)
class ExplainedClaim(Record):
    """One claim of an answer, and the documents that it rests on.

    Args:
        text: the claim.
        start: where it begins in the answer; None where it does not stand there word for word.
        end: where it ends.
        condition: what has to hold, in words, where that is a condition of the user's own.
        refusal: it says that there is no answer.
        retention: the minimal sets of documents that are enough: with all of one of them the claim
            is made, whatever else is there.
        omission: the minimal sets without which it is gone, whatever else is there.
        spoilers: documents that speak against it.
        stable: the share of repeated answers to the whole prompt that made the claim.
        complete: whether there is no further set, as far as was shown.
        attributions: what each document with a text counts, by method, where that was asked for.
        steps: how many different outputs each step decided
            (:data:`rulerag.explanation.claims.STEPS`).
    """

    text: str
    start: int | None = None
    end: int | None = None
    condition: str = ""
    refusal: bool = False
    retention: tuple[DocumentSet, ...] = ()
    omission: tuple[DocumentSet, ...] = ()
    spoilers: tuple[Spoiler, ...] = ()
    stable: float = 1.0
    complete: bool = True
    attributions: tuple[Attribution, ...] = ()
    steps: Mapping[str, int] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[int, ...]:
        """The documents of its minimal retention rules, ascending."""
        return tuple(sorted(set().union(*self.retention)))

    @property
    def unsupported(self) -> bool:
        """Whether it is made without any document: known to the model, or made up."""
        return frozenset() in self.retention

    def to_json(self) -> dict[str, Any]:
        """The claim as a JSON object."""
        return {**super().to_json(), "sources": list(self.sources)}


@dataclass(frozen=True)
class Explanation(Record):
    """Everything that is known about why an answer came out.

    Args:
        question: what was asked.
        text: the answer.
        documents: what was read, each with the mined rules that found it where they are known.
        claims: the parts of the answer, each with what it rests on.
        empty: what is answered without any document; None where that was not asked.
        num_calls: calls of the answer function.
        seconds: seconds spent in them.
        complete: false where budget or time ended the search.
        notes: what has to be known first: noise, empty documents, an early end.
        repeats: what was answered to the whole prompt when it was asked again.
        tokens: of all prompts and answers, about four characters each.
        money: what they cost; None where prices are not known.
        chain: for a chain, what was not run again, what a probe cost, and what no document means.
        settings: how the explanation was made.
        query_id: of a dataset's query.
        accepted: the accepted answers, where they are known.
        rules: the guiding rules, R1, R2 …
        statements: what documents state of the question, and what rules say beside it.
        regions: the parts of the text that are enough, where they were looked for.
        keywords: the words that the generator named as its reasons, beside those that it needs.
    """

    question: str
    text: str
    documents: tuple[Passage, ...]
    claims: tuple[ExplainedClaim, ...] = ()
    empty: str | None = None
    num_calls: int = 0
    seconds: float = 0.0
    complete: bool = True
    notes: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    tokens: int | None = None
    money: float | None = None
    chain: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    query_id: str = ""
    accepted: tuple[str, ...] = ()
    rules: tuple[RuleTrace, ...] = ()
    statements: tuple[str, ...] = ()
    regions: RegionExplanation | None = None
    keywords: KeywordFit | None = None

    @property
    def right(self) -> bool | None:
        """Whether the answer is an accepted one (exact match); None where none is known."""
        return bool(exact_match(self.text, self.accepted)) if self.accepted else None

    @property
    def verdict(self) -> Literal["right", "wrong", ""]:
        """The same in a word; empty where none is known."""
        return "" if self.right is None else "right" if self.right else "wrong"

    @property
    def supporting(self) -> tuple[Passage, ...]:
        """The documents, or parts of them, of minimal sets that are enough for a claim, in order.

        Sets that a test refuted count for nothing. Of an explanation by regions, the documents that
        a sufficient region reaches into.
        """
        sets = [one for claim in self.claims for one in claim.retention]
        places = {n for one in sets if one.certificate.valid for n in one}
        regions = self.regions.regions if self.regions else ()
        places |= {place for region in regions for place, _, _ in region.spans}
        return tuple(one for one in self.documents if one.index in places)

    @property
    def supporting_rules(self) -> tuple[RuleTrace, ...]:
        """The guiding rules that found a supporting document, in order."""
        names = {rule for document in self.supporting for rule in document.rules}
        return tuple(rule for rule in self.rules if rule.id in names)

    def to_json(self) -> dict[str, Any]:
        """The object written to ``explanations.jsonl``."""
        row = super().to_json()
        row |= {
            "right": self.right,
            "supporting_documents": [one.id or one.label for one in self.supporting],
            "supporting_rules": [rule.id for rule in self.supporting_rules],
        }
        return row
