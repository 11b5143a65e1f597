"""The record of one explained answer and the sentences that it says.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4, 5 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulerag.explanation.attribution import Attribution
from rulerag.explanation.counterfactual import Counterfactuals
from rulerag.explanation.group_views import GroupView
from rulerag.explanation.trace import DocumentTrace, RuleTrace, expect
from rulerag.explanation.wording import (
    condition,
    finding,
    listing,
    quoted,
    runs,
    shortened,
    told_sets,
)

__all__ = ["REST", "AnswerExplanation", "Names"]

REST = "the rest"
"""The name of the source that holds every document without a source of its own."""

Names = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class AnswerExplanation:
    """Everything that an explanation of one answer says; prints itself for the terminal.

    Args:
        query_id: the query's id.
        query: the question in words.
        answer: the answer explained.
        claim: the condition of the retention rules as a clause ("the answer France stands").
        counterclaim: the condition of the omission rules as a clause ("it goes").
        rules: the guiding rules, R1, R2 …
        documents: the evidence, D1, D2 …, each with the searches that found it.
        sources: what was kept or removed: document names, and perhaps ``the rest``.
        together: the documents that were kept or removed as one, as ``the rest``.
        retention: the minimal retention rules as tuples of source names, smallest first.
        omission: the minimal omission rules likewise.
        full_output: what the generator says with every document kept; None when never asked.
        empty_output: what it says with every document removed; None when never asked.
        num_probes: how many distinct subsets of the sources were asked.
        seconds: seconds spent in the generator.
        complete: whether every rule was found; false when a probe budget ran out.
        bound: the share of subsets for which each rule holds, at least, where rules were tested
            on random subsets; None for exact rules.
        confidence: the probability with which that is true, at least.
        attributions: what each source counts, where that was asked for.
        counterfactuals: the smallest removals and subsets, likewise.
        group_views: the rules over groups of sources, likewise.
    """

    query_id: str
    query: str
    answer: str
    claim: str
    counterclaim: str
    rules: tuple[RuleTrace, ...]
    documents: tuple[DocumentTrace, ...]
    sources: tuple[str, ...]
    together: tuple[str, ...]
    retention: Names
    omission: Names
    full_output: str | None
    empty_output: str | None
    num_probes: int
    seconds: float
    complete: bool = True
    bound: float | None = None
    confidence: float | None = None
    attributions: tuple[Attribution, ...] = ()
    counterfactuals: tuple[Counterfactuals, ...] = ()
    group_views: tuple[GroupView, ...] = ()

    @property
    def supporting(self) -> tuple[DocumentTrace, ...]:
        """The documents of a minimal retention rule, there whole or in part, in order."""
        names = {_document(name) for rule in self.retention for name in rule}
        return tuple(document for document in self.documents if document.alias in names)

    @property
    def supporting_rules(self) -> tuple[RuleTrace, ...]:
        """The guiding rules that found a supporting document, in order."""
        names = {rule for document in self.supporting for rule in document.rules}
        return tuple(rule for rule in self.rules if rule.alias in names)

    @property
    def sentence(self) -> str:
        """When the answer stands, and which rules found the documents that it needs."""
        if not self.retention:
            return self._without_rule("kept", self.full_output, "set of documents", self.claim)
        if self.retention == ((),):
            return f"{_capital(self.claim)} whichever documents are kept or removed."
        words = f"{_capital(self.claim)} whenever {condition(self.retention, 'kept')}"
        told_rules = told_sets(self.retention)
        told = {name for rule in told_rules for name in rule}
        rules_of = {document.alias: document.rules for document in self.documents}
        ordered = [name for name in self.sources if name in told]
        found = {n: rules_of[_document(n)] for n in ordered if _document(n) in rules_of}
        if not found:
            return f"{words}."
        texts = {rule.alias: rule.text for rule in self.rules}
        pronoun = len(told_rules) == len(self.retention) and len(found) == len(told)
        return f"{words}; {finding(found, texts, pronoun=pronoun)}."

    @property
    def omission_sentence(self) -> str:
        """When the answer goes."""
        if not self.omission:
            return self._without_rule("removed", self.empty_output, "removal", self.counterclaim)
        if self.omission == ((),):
            return f"{_capital(self.counterclaim)} whichever documents are kept or removed."
        return f"{_capital(self.counterclaim)} whenever {condition(self.omission, 'removed')}."

    @property
    def scope(self) -> str:
        """What was asked, and what the statement rests on."""
        parts = [
            f"{_count(self.num_probes, 'subset')} of {_count(len(self.sources), 'source')} "
            f"asked in {self.seconds:.2f} s."
        ]
        if self.together:
            parts.append(
                f"“{_capital(REST)}” is {listing(runs(self.together))}, kept or removed as one."
            )
        if self.bound is not None and self.confidence is not None:
            parts.append(
                f"Each set was tested on random subsets: it decides at least "
                f"{100 * self.bound:.1f} % of them, with {100 * self.confidence:g} % confidence."
            )
        if not self.complete and self.bound is None:
            parts.append(
                "The probe budget ran out: what is said here is certain, there may be more."
            )
        elif not self.complete:
            parts.append("There may be more sets.")
        return " ".join(parts)

    def __str__(self) -> str:
        """The explanation for a terminal."""
        lines = [f"Question  {self.query}", f"Answer    {self.answer or '(none)'}", ""]
        if self.rules:
            lines += ["Guiding rules", *self._rule_lines(), ""]
        lines.append("Documents")
        supporting = {document.alias for document in self.supporting}
        for document in self.documents:
            mark = "*" if document.alias in supporting else " "
            searches = "; ".join(map(str, document.found_by)) or "no search recorded"
            lines.append(f" {mark}{document.alias:<4}{shortened(document.text)}  [{searches}]")
        lines += ["", "Why", f"  {self.sentence}", f"  {self.omission_sentence}", f"  {self.scope}"]
        if self.group_views:
            told = [str(view) for view in self.group_views]
            lines += ["", "In groups", *(f"  {line}" for one in told for line in one.splitlines())]
        if self.counterfactuals or self.attributions:
            lines += ["", "In numbers"]
            told = [str(one) for one in (*self.counterfactuals, *self.attributions)]
            lines += [f"  {line}" for one in told for line in one.splitlines()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The object written to ``explanations.jsonl``."""
        return {
            "query_id": self.query_id,
            "query": self.query,
            "answer": self.answer,
            "claim": self.claim,
            "counterclaim": self.counterclaim,
            "rules": [rule.to_json() for rule in self.rules],
            "documents": [document.to_json() for document in self.documents],
            "sources": list(self.sources),
            "together": list(self.together),
            "retention": [list(names) for names in self.retention],
            "omission": [list(names) for names in self.omission],
            "supporting_documents": [document.id for document in self.supporting],
            "supporting_rules": [rule.id for rule in self.supporting_rules],
            "sentence": self.sentence,
            "omission_sentence": self.omission_sentence,
            "full_output": self.full_output,
            "empty_output": self.empty_output,
            "num_probes": self.num_probes,
            "seconds": self.seconds,
            "complete": self.complete,
            "bound": self.bound,
            "confidence": self.confidence,
            "attributions": [one.to_json() for one in self.attributions],
            "counterfactuals": [one.to_json() for one in self.counterfactuals],
            "group_views": [one.to_json() for one in self.group_views],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> AnswerExplanation:
        """Read an object of ``explanations.jsonl``; sentences are made again.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        texts = ("query_id", "query", "answer", "claim", "counterclaim")
        return cls(
            **{key: expect(row, key, str) for key in texts},
            rules=tuple(RuleTrace.from_json(rule) for rule in expect(row, "rules", list)),
            documents=tuple(DocumentTrace.from_json(d) for d in expect(row, "documents", list)),
            sources=tuple(expect(row, "sources", list)),
            together=tuple(expect(row, "together", list)),
            retention=tuple(tuple(names) for names in expect(row, "retention", list)),
            omission=tuple(tuple(names) for names in expect(row, "omission", list)),
            full_output=expect(row, "full_output", str | None),
            empty_output=expect(row, "empty_output", str | None),
            num_probes=expect(row, "num_probes", int),
            seconds=float(expect(row, "seconds", int | float)),
            complete=expect(row, "complete", bool),
            bound=_share(row, "bound"),
            confidence=_share(row, "confidence"),
            attributions=tuple(Attribution.from_json(one) for one in _more(row, "attributions")),
            counterfactuals=tuple(
                Counterfactuals.from_json(one) for one in _more(row, "counterfactuals")
            ),
            group_views=tuple(GroupView.from_json(one) for one in _more(row, "group_views")),
        )

    def _without_rule(self, done: str, output: str | None, what: str, claim: str) -> str:
        if not self.complete:
            return f"No {what} is certain yet to guarantee that {claim}."
        return (
            f"With every document {done} the generator {quoted(output)}, "
            f"so no {what} guarantees that {claim}."
        )

    def _rule_lines(self) -> list[str]:
        lines, idle = [], []
        for rule in self.rules:
            hits = [
                f"{document.alias} (rank {hit.rank}, score {hit.score:.4g})"
                for document in self.documents
                for hit in document.found_by
                if hit.rule == rule.alias
            ]
            if hits:
                lines += [f"  {rule.alias:<4}{rule.text}", f"      found {', '.join(hits)}"]
            else:
                idle.append(rule.alias)
        if idle:
            lines.append(f"  {listing(runs(idle))} found none of these documents")
        return lines


def _document(source: str) -> str:
    """The short name of a source's document: D2 of D2.1."""
    return source.partition(".")[0]


def _share(row: Mapping[str, Any], key: str) -> float | None:
    """A share, or None; records of exact rules may leave it out."""
    value = expect({key: None, **row}, key, int | float | None)
    return None if value is None else float(value)


def _more(row: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Records that were not asked for may be left out."""
    found = expect({key: [], **row}, key, list)
    return [expect({key: one}, key, Mapping) for one in found]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
