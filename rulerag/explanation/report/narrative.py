"""The record of one explained answer and the sentences that it says.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Definitions 4, 5 and 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulerag.explanation.attribution import (
    Attribution,
    Counterfactuals,
    KeywordFit,
    RegionExplanation,
)
from rulerag.explanation.records import (
    DocumentTrace,
    NamedRule,
    Record,
    RuleTrace,
    among,
    becomes,
    certificates_of,
    correctness,
    document_of,
    evidence,
    holding,
    strongest,
)
from rulerag.explanation.report.pictures import bars_of, flow_of, lattice_of
from rulerag.explanation.source_rules import Duality, GroupView
from rulerag.explanation.views import Picture
from rulerag.explanation.wording import (
    capital,
    choosing,
    finding,
    in_words,
    listing,
    quoted,
    runs,
    shortened,
    spelt_sets,
)

REST = "the rest"
"""The name of the source that holds every document without a source of its own."""

Names = tuple[str, ...]

_MOST_ANSWERS, _MOST_LINES = 3, 5


@dataclass(frozen=True)
class Rerun(Record):
    """What is answered without some documents in the corpus.

    Args:
        removed: the documents taken out, by their short names: D1, D2 …
        removed_ids: the same by their ids.
        answer: what is answered then.
        holds: whether the condition of the retention rules holds again.
        right: whether it is an accepted answer; None where none is known.
        newcomers: ids and texts of the documents retrieved then that were not there before.
        copies: ids of further documents of the corpus that state the same as one removed, but for
            its time.
    """

    removed: tuple[str, ...]
    removed_ids: tuple[str, ...]
    answer: str
    holds: bool
    right: bool | None
    newcomers: tuple[tuple[str, str], ...]
    copies: tuple[str, ...]

    def lines(self) -> list[str]:
        """The result in sentences, one a line."""
        gone = listing(runs(self.removed))
        right = {True: ", which is right", False: ", which is wrong", None: ""}[self.right]
        said = quoted(self.answer) + (right if self.answer.strip() else "")
        how = "The answer comes back" if self.holds else "The answer goes"
        lines = [f"{how}: without {gone} in the corpus the generator {said}."]
        one = len(self.newcomers) == 1
        place = f"{in_words(len(self.newcomers))} further document{'' if one else 's'} of the "
        place += f"corpus {'takes' if one else 'take'} "
        place += "its place" if len(self.removed) == 1 else "their place"
        among_new = len(set(self.copies) & {identifier for identifier, _ in self.newcomers})
        states = "document states" if len(self.copies) == 1 else "documents state"
        copies = f"{in_words(len(self.copies))} other {states} the same, at whatever time"
        if self.copies:
            copies += f", {in_words(among_new) if among_new else 'none'} of them among these"
        lines.append(f"{capital(place)}; {copies}.")
        lines += [f"  {shortened(text)}" for _, text in self.newcomers[:_MOST_LINES]]
        if len(self.newcomers) > _MOST_LINES:
            lines.append(f"  … and {len(self.newcomers) - _MOST_LINES} more")
        return lines

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object, with its sentences."""
        return {**super().to_json(), "lines": self.lines()}


@dataclass(frozen=True)
class AnswerExplanation(Record):
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
        statements: what documents state of the question, and what rules say beside it, a line
            each; empty for a prediction, of which nothing can be stated.
        rerun: what retrieval and generator give without the documents of the first omission rule
            in the corpus, where that was asked for.
        attributions: what each source counts, where that was asked for.
        counterfactuals: the smallest removals and subsets, likewise.
        group_views: the rules over groups of sources, likewise.
        regions: the parts of the text that are enough, where they were looked for in place of
            rules.
        keywords: the words that the generator named as its reasons, beside those that it needs.
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
    retained: tuple[NamedRule, ...]
    omitted: tuple[NamedRule, ...]
    full_output: str | None
    empty_output: str | None
    num_probes: int
    seconds: float
    complete: bool = True
    answers: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    statements: tuple[str, ...] = ()
    duality: Duality | None = None
    rerun: Rerun | None = None
    attributions: tuple[Attribution, ...] = ()
    counterfactuals: tuple[Counterfactuals, ...] = ()
    group_views: tuple[GroupView, ...] = ()
    regions: RegionExplanation | None = None
    keywords: KeywordFit | None = None

    @property
    def retention(self) -> tuple[Names, ...]:
        """The retention rules as tuples of source names."""
        return tuple(rule.names for rule in self.retained)

    @property
    def omission(self) -> tuple[Names, ...]:
        """The omission rules as tuples of source names."""
        return tuple(rule.names for rule in self.omitted)

    @property
    def right(self) -> bool | None:
        """Whether the answer is an accepted one (exact match); None where none is known."""
        return correctness(self.answer, self.answers) == "right" if self.answers else None

    @property
    def supporting(self) -> tuple[DocumentTrace, ...]:
        """The documents of a retention rule that was shown to hold, whole or in part, in order.

        Of an explanation by regions, those that a sufficient region reaches into.
        """
        names = {document_of(name) for rule in strongest(self.retained) for name in rule.names}
        for region in self.regions.regions if self.regions else ():
            names.update(self.documents[piece.document].alias for piece in region.pieces)
        return tuple(document for document in self.documents if document.alias in names)

    @property
    def supporting_rules(self) -> tuple[RuleTrace, ...]:
        """The guiding rules that found a supporting document, in order."""
        names = {rule for document in self.supporting for rule in document.rules}
        return tuple(rule for rule in self.rules if rule.alias in names)

    @property
    def sentence(self) -> str:
        """When the answer stands, and which rules found the documents that it needs."""
        if self.regions is not None:
            return f"{self.regions.sentence}."
        words = self._holding(self.retained, "kept", "set of documents", self.claim)
        sets = [rule.names for rule in strongest(self.retained)]
        spelt_rules = spelt_sets(sets)
        spelt = {name for rule in spelt_rules for name in rule}
        rules_of = {document.alias: document.rules for document in self.documents}
        ordered = [name for name in self.sources if name in spelt]
        found = {n: rules_of[document_of(n)] for n in ordered if document_of(n) in rules_of}
        if not found:
            return f"{words}."
        texts = {rule.alias: rule.text for rule in self.rules}
        pronoun = len(spelt_rules) == len(sets) and len(found) == len(spelt)
        # What scorers chose was not found for the sake of a rule or of the query.
        reasons_of = {one.alias: str(one.support[0]) for one in self.documents if one.support}
        chosen = {n: reasons_of[document_of(n)] for n in found if document_of(n) in reasons_of}
        by_search = {name: rules for name, rules in found.items() if name not in chosen}
        alone = pronoun and not (chosen and by_search)
        clauses = [choosing(chosen, pronoun=alone)] if chosen else []
        clauses += [finding(by_search, texts, pronoun=alone)] if by_search else []
        return f"{words}; {'; '.join(clauses)}."

    @property
    def omission_sentence(self) -> str:
        """When the answer goes, and what comes in its place."""
        if self.regions is not None:
            return ""
        words = self._holding(self.omitted, "removed", "removal", self.counterclaim)
        return f"{words}. {becomes(self.omitted, self.answers)}".rstrip()

    def _holding(self, rules: tuple[NamedRule, ...], done: str, what: str, claim: str) -> str:
        """When a claim holds, without a full stop."""
        if not rules and not self.complete:
            return f"No {what} is certain yet to guarantee that {claim}"
        if not rules:
            output = self.full_output if done == "kept" else self.empty_output
            said = f"With every document {done} the generator {quoted(output)}"
            return f"{said}, so no {what} guarantees that {claim}"
        whatever = len(rules) == 1 and not rules[0].names and rules[0].certificate.always
        words = f"{claim} whatever is kept or removed" if whatever else holding(rules, claim, done)
        return among(len(self.documents), words)

    @property
    def evidence_sentence(self) -> str:
        """Failures, tests missed and minimality of rules that are not exact; empty without any."""
        return " ".join(evidence(self.retained, self.omitted))

    @property
    def scope(self) -> str:
        """What the statement rests on, and what it leaves open."""
        parts = []
        if self.together:
            names = listing(runs(self.together))
            parts.append(f"“{capital(REST)}” is {names}, kept or removed as one.")
        if self.duality is not None:
            parts.append(str(self.duality))
        if not self.complete:
            if all(rule.certificate.always for rule in (*self.retained, *self.omitted)):
                more = "The probe budget ran out: what is said here is certain, there may be more."
            else:
                more = "The search ended early: there may be more rules."
            parts.append(more)
        if self.rerun is None:
            parts.append("No other document of the corpus was looked at.")
        return " ".join(parts)

    @property
    def correctness(self) -> str:
        """Whether the answer is right, with the accepted answers where it is wrong."""
        word = correctness(self.answer, self.answers)
        if word != "wrong":
            return word
        more = len(self.answers) - _MOST_ANSWERS
        accepted = [shortened(answer, 60) for answer in self.answers[:_MOST_ANSWERS]]
        return f"wrong; accepted: {'; '.join(accepted)}" + (f" and {more} more" if more > 0 else "")

    def pictures(self) -> tuple[Picture, ...]:
        """What can be drawn of it; each prints as a table and is written by its ``save``.

        The flow from rule to document to answer; the lattice, where rules decide every subset of
        two to five sources that matter; bars, where attributions were asked for.
        """
        drawn = (flow_of(self), lattice_of(self), *bars_of(self))
        return tuple(one for one in drawn if one is not None)

    def __str__(self) -> str:
        """The explanation for a terminal."""
        right = f"  ({self.correctness})" if self.correctness else ""
        lines = [f"Question  {self.query}", f"Answer    {self.answer or '(none)'}{right}"]
        supporting = {document.alias for document in self.supporting}
        documents = []
        for document in self.documents:
            mark = "*" if document.alias in supporting else " "
            searches = "; ".join(map(str, document.found_by)) or "no search recorded"
            text = shortened(document.text)
            documents.append(f" {mark}{document.alias:<4}{text}  [{searches}]")
            documents += [f"      {reason}" for reason in document.support[:1]]
        asked = f"{_count(self.num_probes, 'subset')} of {_count(len(self.sources), 'source')}"
        why = [self.sentence, self.omission_sentence, self.evidence_sentence]
        if self.regions is not None:
            asked = _count(self.num_probes, "request")
            why = [
                line
                for part in (self.regions, self.keywords)
                if part
                for line in str(part).splitlines()
            ]
        why.append(f"{asked} asked in {self.seconds:.2f} s. {self.scope}".rstrip())
        sections: dict[str, list[str]] = {
            "Guiding rules": self._rule_lines(),
            "Documents": documents,
            "Stated": [f"  {line}" for line in self.statements],
            "Why": [f"  {line}" for line in why if line],
            "Retrieved again": [f"  {line}" for line in (self.rerun.lines() if self.rerun else ())],
            "In groups": _indented(self.group_views),
            "In numbers": _indented((*self.counterfactuals, *self.attributions)),
        }
        for heading, spelt in sections.items():
            if spelt:
                lines += ["", heading, *spelt]
        return "\n".join(lines)

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
                lines.append(f"  {rule.alias:<4}{rule.text}{quality}")
                lines.append(f"      found {', '.join(hits)}")
            else:
                idle.append(rule.alias)
        if idle:
            lines.append(f"  {listing(runs(idle))} found none of these documents")
        return lines

    def to_json(self) -> dict[str, Any]:
        """The object written to ``explanations.jsonl``."""
        row = super().to_json()
        row |= {
            "right": self.right,
            "certificates": {"retention": row["retained"], "omission": row["omitted"]},
            "retention": [rule["names"] for rule in row["retained"]],
            "omission": [rule["names"] for rule in row["omitted"]],
            "supporting_documents": [document.id for document in self.supporting],
            "supporting_rules": [rule.id for rule in self.supporting_rules],
            "sentence": self.sentence,
            "omission_sentence": self.omission_sentence,
            "evidence_sentence": self.evidence_sentence,
            "scope": self.scope,
        }
        return {key: row[key] for key in _KEYS}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> AnswerExplanation:
        """Read an object of ``explanations.jsonl``; sentences are made again.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        rules_of_kinds = certificates_of(row)
        rules = {
            "retained": rules_of_kinds.get("retention"),
            "omitted": rules_of_kinds.get("omission"),
        }
        return super().from_json({**row, **rules})


_KEYS = (
    *("query_id", "query", "answer", "answers", "right", "claim", "counterclaim", "rules"),
    *("documents", "statements", "sources", "together", "retention", "omission", "certificates"),
    *("duality", "supporting_documents", "supporting_rules", "sentence", "omission_sentence"),
    *("evidence_sentence", "scope", "full_output", "empty_output", "num_probes", "seconds"),
    *("complete", "settings", "rerun", "attributions", "counterfactuals", "group_views"),
    *("regions", "keywords"),
)
"""The keys of ``explanations.jsonl``, in their order."""


def _indented(records: Iterable[object]) -> list[str]:
    return [f"  {line}" for record in records for line in str(record).splitlines()]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
