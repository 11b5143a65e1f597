"""A run folder of ``rulerag evaluate``, query by query, with its failures by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rulerag.composition import check_choice, check_range
from rulerag.errors import DataFormatError, UnknownNameError
from rulerag.evaluation import AnswerMatcher
from rulerag.io import read_json, read_jsonl
from rulerag.text import exact_match
from rulerag.types import Document

FAILURES: Mapping[str, str] = {
    "right": "the answer is an accepted one",
    "not retrieved": "wrong, and no document names an accepted answer",
    "ignored": "wrong, though a document names an accepted answer; no other names what was said",
    "misled": "wrong, though a document names an accepted answer; another names what was said",
}
"""What came of a query, and how that is decided: by words alone."""

Found = Literal["", "found", "not found"]
Exact = Literal["", "exact", "not exact"]


@dataclass(frozen=True)
class RunDocument:
    """A document that a query got.

    Args:
        id: of the document.
        text: its text.
        rules: ids of the rules that found it.
        holds: whether it names an accepted answer.
    """

    id: str
    text: str
    rules: tuple[str, ...]
    holds: bool


@dataclass(frozen=True)
class RunRow:
    """One query of a run.

    Args:
        query_id: its id.
        question: its words.
        answer: what was answered.
        answers: the accepted answers.
        outcome: a key of :data:`FAILURES`.
        rules: ids of the rules that found a document.
        rank: of the first document with an accepted answer, from 1; None where none has one.
    """

    query_id: str
    question: str
    answer: str
    answers: tuple[str, ...]
    outcome: str
    rules: tuple[str, ...]
    rank: int | None

    @property
    def exact(self) -> bool:
        """Whether the answer is an accepted one (exact match)."""
        return self.outcome == "right"


@dataclass(frozen=True)
class Run:
    """A run.

    Args:
        name: of its folder.
        metrics: of its ``metrics.json``.
        rows: its queries, in order.
        documents: of each query by its id, in the order that they were read.
        rules: the mined rules of its queries, in words by their ids.
    """

    name: str
    metrics: Mapping[str, Any]
    rows: tuple[RunRow, ...]
    documents: Mapping[str, tuple[RunDocument, ...]]
    rules: Mapping[str, str]

    @property
    def found_by(self) -> dict[str, int]:
        """The rules that found documents, with how many queries each, the most first."""
        counts = Counter(rule for row in self.rows for rule in row.rules)
        return dict(counts.most_common())

    @property
    def outcomes(self) -> dict[str, int]:
        """How often each outcome came."""
        counts = Counter(row.outcome for row in self.rows)
        return {name: counts[name] for name in FAILURES}

    def row(self, query_id: str) -> RunRow:
        """One query; :class:`UnknownNameError` where the run has none of this id."""
        for row in self.rows:
            if row.query_id == query_id:
                return row
        raise UnknownNameError(f"the run {self.name} has no query {query_id!r}")

    def filtered(
        self,
        *,
        outcome: str = "",
        rule: str = "",
        words: str = "",
        recall: Found = "",
        k: int = 10,
        match: Exact = "",
    ) -> list[RunRow]:
        """Some of the rows.

        Args:
            outcome: a key of :data:`FAILURES`; any when empty.
            rule: the id of a rule that found one of their documents.
            words: that the question holds.
            recall: whether one of the first ``k`` documents names an accepted answer.
            k: that depth.
            match: whether the answer is an accepted one.

        Raises:
            ConfigError: an unknown outcome or choice, or ``k`` is below 1.
        """
        check_choice("outcome", outcome, ("", *FAILURES))
        check_choice("recall", recall, ("", "found", "not found"))
        check_choice("match", match, ("", "exact", "not exact"))
        check_range("k", k, 1)
        wanted = words.casefold().split()
        return [
            row
            for row in self.rows
            if outcome in ("", row.outcome)
            and (not rule or rule in row.rules)
            and all(word in row.question.casefold() for word in wanted)
            and recall in ("", "found" if row.rank and row.rank <= k else "not found")
            and match in ("", "exact" if row.exact else "not exact")
        ]


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        DataError: it holds no ``metrics.json`` and ``predictions.jsonl``, or they are damaged.
    """
    metrics = read_json(folder / "metrics.json")
    if not isinstance(metrics, dict):
        raise DataFormatError("expected an object", path=folder / "metrics.json")
    file = folder / "predictions.jsonl"
    rows, documents, rules, matcher = [], {}, dict[str, str](), AnswerMatcher()
    for number, row in enumerate(read_jsonl(file), start=1):
        try:
            made, read = _row(row, matcher)
        except (KeyError, TypeError) as error:
            raise DataFormatError(f"no prediction ({error})", path=file, line=number) from error
        rows.append(made)
        documents[made.query_id] = read
        rules |= {str(one["id"]): str(one["text"]) for one in row.get("rules", ())}
    return Run(folder.name, metrics, tuple(rows), documents, rules)


@dataclass(frozen=True)
class RunPair:
    """The queries of two runs that both have.

    Args:
        first: one run.
        second: the other.
        rows: each query of the first that the second has, in the order of the first.
    """

    first: Run
    second: Run
    rows: tuple[tuple[RunRow, RunRow], ...]

    @property
    def moves(self) -> dict[tuple[str, str], int]:
        """How often each outcome of the first became each of the second."""
        counts = Counter((one.outcome, two.outcome) for one, two in self.rows)
        pairs = ((one, two) for one in FAILURES for two in FAILURES)
        return {pair: counts[pair] for pair in pairs if counts[pair]}

    def changed(self) -> list[tuple[RunRow, RunRow]]:
        """The queries whose outcomes, answers or ranks differ."""
        return [
            (one, two)
            for one, two in self.rows
            if (one.outcome, one.answer, one.rank) != (two.outcome, two.answer, two.rank)
        ]


def compared(first: Run, second: Run) -> RunPair:
    """Two runs, query by query."""
    others = {row.query_id: row for row in second.rows}
    pairs = [(row, others[row.query_id]) for row in first.rows if row.query_id in others]
    return RunPair(first, second, tuple(pairs))


def _row(row: Mapping[str, Any], matcher: AnswerMatcher) -> tuple[RunRow, tuple[RunDocument, ...]]:
    answers, answer = tuple(map(str, row["answers"])), str(row["answer"])
    read = tuple(_document(one, answers, matcher) for one in row["documents"])
    rank = next((place for place, one in enumerate(read, start=1) if one.holds), None)
    others = [Document(one.id, one.text) for one in read if not one.holds]
    if exact_match(answer, answers):
        outcome = "right"
    elif rank is None:
        outcome = "not retrieved"
    else:
        outcome = "ignored" if matcher.first_rank(others, [answer]) is None else "misled"
    rules = dict.fromkeys(rule for one in read for rule in one.rules)
    asked = str(row["query_id"]), str(row["query"])
    return RunRow(*asked, answer, answers, outcome, tuple(rules), rank), read


def _document(
    row: Mapping[str, Any], answers: tuple[str, ...], matcher: AnswerMatcher
) -> RunDocument:
    document = Document(str(row["id"]), str(row["text"]))
    rules = dict.fromkeys(str(hit["rule"]) for hit in row.get("found_by", ()) if hit.get("rule"))
    holds = matcher.first_rank([document], answers) is not None
    return RunDocument(document.id, document.text, tuple(rules), holds)
