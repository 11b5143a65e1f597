"""The record of one explained answer and the sentences that it says.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4, 5 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rulerag.errors import DataFormatError
from rulerag.explanation.attribution import Attribution
from rulerag.explanation.counterfactual import Counterfactuals
from rulerag.explanation.duality import Duality
from rulerag.explanation.group_views import GroupView
from rulerag.explanation.rerun import Rerun
from rulerag.explanation.shown import ShownRule
from rulerag.explanation.telling import (
    among,
    becomes,
    capital,
    evidence,
    holding,
    strongest,
    verdict,
)
from rulerag.explanation.trace import DocumentTrace, RuleTrace, document_of, expect
from rulerag.explanation.wording import finding, listing, quoted, runs, shortened, told_sets

__all__ = ["REST", "AnswerExplanation", "Names"]

REST = "the rest"
"""The name of the source that holds every document without a source of its own."""

Names = tuple[tuple[str, ...], ...]

_MOST_ANSWERS = 3
_OPTIONAL = ("duality", "rerun")


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
        retained: the retention rules, smallest first, each with what was shown about it.
        omitted: the omission rules likewise, each with what the generator says without it.
        full_output: what the generator says with every document kept; None when never asked.
        empty_output: what it says with every document removed; None when never asked.
        num_probes: how many distinct subsets of the sources were asked.
        seconds: seconds spent in the generator.
        complete: whether every rule was found; false when a probe budget ran out.
        answers: the accepted answers; empty where they are not known.
        settings: how the explanation was made, and the fingerprints of what it was made from.
        duality: whether the two kinds of rules fit each other; None where the search for them
            ended early, or the two conditions are not each other's opposite.
        rerun: what retrieval and generator give without the documents of the first omission rule
            in the corpus, where that was asked for.
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
    retained: tuple[ShownRule, ...]
    omitted: tuple[ShownRule, ...]
    full_output: str | None
    empty_output: str | None
    num_probes: int
    seconds: float
    complete: bool = True
    answers: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    duality: Duality | None = None
    rerun: Rerun | None = None
    attributions: tuple[Attribution, ...] = ()
    counterfactuals: tuple[Counterfactuals, ...] = ()
    group_views: tuple[GroupView, ...] = ()

    @property
    def retention(self) -> Names:
        """The retention rules as tuples of source names."""
        return tuple(rule.names for rule in self.retained)

    @property
    def omission(self) -> Names:
        """The omission rules as tuples of source names."""
        return tuple(rule.names for rule in self.omitted)

    @property
    def right(self) -> bool | None:
        """Whether the answer is an accepted one (exact match); None where none is known."""
        return verdict(self.answer, self.answers) == "right" if self.answers else None

    @property
    def supporting(self) -> tuple[DocumentTrace, ...]:
        """The documents of a retention rule that was shown to hold, whole or in part, in order."""
        names = {document_of(name) for rule in strongest(self.retained) for name in rule.names}
        return tuple(document for document in self.documents if document.alias in names)

    @property
    def supporting_rules(self) -> tuple[RuleTrace, ...]:
        """The guiding rules that found a supporting document, in order."""
        names = {rule for document in self.supporting for rule in document.rules}
        return tuple(rule for rule in self.rules if rule.alias in names)

    @property
    def sentence(self) -> str:
        """When the answer stands, and which rules found the documents that it needs."""
        if not self.retained:
            return self._without_rule("kept", self.full_output, "set of documents", self.claim)
        if self._whatever(self.retained):
            return self._scoped(f"{self.claim} whatever is kept or removed.")
        words = self._scoped(holding(self.retained, self.claim, "kept"))
        sets = [rule.names for rule in strongest(self.retained)]
        told_rules = told_sets(sets)
        told = {name for rule in told_rules for name in rule}
        rules_of = {document.alias: document.rules for document in self.documents}
        ordered = [name for name in self.sources if name in told]
        found = {n: rules_of[document_of(n)] for n in ordered if document_of(n) in rules_of}
        if not found:
            return f"{words}."
        texts = {rule.alias: rule.text for rule in self.rules}
        pronoun = len(told_rules) == len(sets) and len(found) == len(told)
        return f"{words}; {finding(found, texts, pronoun=pronoun)}."

    @property
    def omission_sentence(self) -> str:
        """When the answer goes, and what comes in its place."""
        if not self.omitted:
            return self._without_rule("removed", self.empty_output, "removal", self.counterclaim)
        if self._whatever(self.omitted):
            return self._scoped(f"{self.counterclaim} whatever is kept or removed.")
        words = f"{self._scoped(holding(self.omitted, self.counterclaim, 'removed'))}."
        return f"{words} {becomes(self.omitted, self.answers)}".rstrip()

    @property
    def evidence_sentence(self) -> str:
        """Failures, tests missed and minimality of rules that are not exact; empty without any."""
        return " ".join(evidence(self.retained, self.omitted))

    @property
    def effort(self) -> str:
        """What was asked, and how long that took."""
        return (
            f"{_count(self.num_probes, 'subset')} of {_count(len(self.sources), 'source')} "
            f"asked in {self.seconds:.2f} s."
        )

    @property
    def scope(self) -> str:
        """What the statement rests on, and what it leaves open."""
        parts = []
        if self.together:
            parts.append(
                f"“{capital(REST)}” is {listing(runs(self.together))}, kept or removed as one."
            )
        if self.duality is not None:
            parts.append(str(self.duality))
        if not self.complete:
            exact = all(rule.certificate.always for rule in (*self.retained, *self.omitted))
            parts.append(
                "The probe budget ran out: what is said here is certain, there may be more."
                if exact
                else "The search ended early: there may be more rules."
            )
        if self.rerun is None:
            parts.append("No other document of the corpus was looked at.")
        return " ".join(parts)

    @property
    def verdict(self) -> str:
        """Whether the answer is right, with the accepted answers where it is wrong."""
        word = verdict(self.answer, self.answers)
        if word != "wrong":
            return word
        more = len(self.answers) - _MOST_ANSWERS
        accepted = [shortened(answer, 60) for answer in self.answers[:_MOST_ANSWERS]]
        return f"wrong; accepted: {'; '.join(accepted)}" + (f" and {more} more" if more > 0 else "")

    def __str__(self) -> str:
        """The explanation for a terminal."""
        right = f"  ({self.verdict})" if self.verdict else ""
        lines = [f"Question  {self.query}", f"Answer    {self.answer or '(none)'}{right}", ""]
        if self.rules:
            lines += ["Guiding rules", *self._rule_lines(), ""]
        lines.append("Documents")
        supporting = {document.alias for document in self.supporting}
        for document in self.documents:
            mark = "*" if document.alias in supporting else " "
            searches = "; ".join(map(str, document.found_by)) or "no search recorded"
            lines.append(f" {mark}{document.alias:<4}{shortened(document.text)}  [{searches}]")
        rests_on = f"{self.effort} {self.scope}".rstrip()
        why = (self.sentence, self.omission_sentence, self.evidence_sentence, rests_on)
        lines += ["", "Why", *(f"  {line}" for line in why if line)]
        if self.rerun is not None:
            lines += ["", "Retrieved again", *(f"  {line}" for line in self.rerun.lines())]
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
            "answers": list(self.answers),
            "right": self.right,
            "claim": self.claim,
            "counterclaim": self.counterclaim,
            "rules": [rule.to_json() for rule in self.rules],
            "documents": [document.to_json() for document in self.documents],
            "sources": list(self.sources),
            "together": list(self.together),
            "retention": [list(names) for names in self.retention],
            "omission": [list(names) for names in self.omission],
            "certificates": {
                "retention": [rule.to_json() for rule in self.retained],
                "omission": [rule.to_json() for rule in self.omitted],
            },
            "duality": None if self.duality is None else self.duality.to_json(),
            "supporting_documents": [document.id for document in self.supporting],
            "supporting_rules": [rule.id for rule in self.supporting_rules],
            "sentence": self.sentence,
            "omission_sentence": self.omission_sentence,
            "evidence_sentence": self.evidence_sentence,
            "scope": self.scope,
            "full_output": self.full_output,
            "empty_output": self.empty_output,
            "num_probes": self.num_probes,
            "seconds": self.seconds,
            "complete": self.complete,
            "settings": dict(self.settings),
            "rerun": None if self.rerun is None else self.rerun.to_json(),
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
        shown = expect({"certificates": None, **row}, "certificates", Mapping | None)
        if shown is None:
            raise DataFormatError(
                "the rules of this explanation stand without their certificates",
                key="certificates",
                hint="an earlier version wrote it: explain the answer again",
            )
        duality, rerun = (expect({key: None, **row}, key, Mapping | None) for key in _OPTIONAL)
        texts = ("query_id", "query", "answer", "claim", "counterclaim")
        return cls(
            **{key: expect(row, key, str) for key in texts},
            rules=tuple(RuleTrace.from_json(rule) for rule in expect(row, "rules", list)),
            documents=tuple(DocumentTrace.from_json(d) for d in expect(row, "documents", list)),
            sources=tuple(expect(row, "sources", list)),
            together=tuple(expect(row, "together", list)),
            retained=tuple(ShownRule.from_json(r) for r in expect(shown, "retention", list)),
            omitted=tuple(ShownRule.from_json(r) for r in expect(shown, "omission", list)),
            full_output=expect(row, "full_output", str | None),
            empty_output=expect(row, "empty_output", str | None),
            num_probes=expect(row, "num_probes", int),
            seconds=float(expect(row, "seconds", int | float)),
            complete=expect(row, "complete", bool),
            answers=tuple(expect({"answers": [], **row}, "answers", list)),
            settings=dict(expect({"settings": {}, **row}, "settings", Mapping)),
            duality=None if duality is None else Duality.from_json(duality),
            rerun=None if rerun is None else Rerun.from_json(rerun),
            attributions=tuple(Attribution.from_json(one) for one in _more(row, "attributions")),
            counterfactuals=tuple(
                Counterfactuals.from_json(one) for one in _more(row, "counterfactuals")
            ),
            group_views=tuple(GroupView.from_json(one) for one in _more(row, "group_views")),
        )

    def _scoped(self, words: str) -> str:
        return among(len(self.documents), words)

    @staticmethod
    def _whatever(rules: tuple[ShownRule, ...]) -> bool:
        """Whether the only rule names no source, and every subset was decided."""
        return len(rules) == 1 and not rules[0].names and rules[0].certificate.always

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
                quality = f"  ({rule.quality})" if rule.quality else ""
                lines += [
                    f"  {rule.alias:<4}{rule.text}{quality}",
                    f"      found {', '.join(hits)}",
                ]
            else:
                idle.append(rule.alias)
        if idle:
            lines.append(f"  {listing(runs(idle))} found none of these documents")
        return lines


def _more(row: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Records that were not asked for may be left out."""
    found = expect({key: [], **row}, key, list)
    return [expect({key: one}, key, Mapping) for one in found]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
