"""A run folder of ``rulerag evaluate``, query by query, with its failures by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerag.errors import DataFormatError
from rulerag.io import read_json, read_jsonl
from rulerag.text import contains_answer, exact_match

FAILURES: Mapping[str, str] = {
    "right": "the answer is an accepted one",
    "not retrieved": "wrong, and no document names an accepted answer",
    "ignored": "wrong, though a document names an accepted answer; no document names what was said",
    "misled": "wrong, though a document names an accepted answer; another names what was said",
}
"""What came of a query, and how that is decided: by words alone."""


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
    """

    query_id: str
    question: str
    answer: str
    answers: tuple[str, ...]
    outcome: str
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A run.

    Args:
        name: of its folder.
        metrics: of its ``metrics.json``.
        rows: its queries, in order.
    """

    name: str
    metrics: Mapping[str, Any]
    rows: tuple[RunRow, ...]

    @property
    def outcomes(self) -> dict[str, int]:
        """How often each outcome came."""
        counts = Counter(row.outcome for row in self.rows)
        return {name: counts[name] for name in FAILURES}

    def filtered(self, *, outcome: str = "", rule: str = "", words: str = "") -> list[RunRow]:
        """The rows of one outcome, with a document of one rule, whose question holds some words."""
        wanted = words.casefold().split()
        return [
            row
            for row in self.rows
            if outcome in ("", row.outcome)
            and (not rule or rule in row.rules)
            and all(word in row.question.casefold() for word in wanted)
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
    rows = []
    for number, row in enumerate(read_jsonl(file), start=1):
        try:
            rows.append(_row(row))
        except (KeyError, TypeError) as error:
            raise DataFormatError(f"no prediction ({error})", path=file, line=number) from error
    return Run(folder.name, metrics, tuple(rows))


def compared(first: Run, second: Run) -> list[tuple[RunRow, RunRow]]:
    """The queries of two runs whose outcomes differ, in the order of the first."""
    others = {row.query_id: row for row in second.rows}
    pairs = [(row, others[row.query_id]) for row in first.rows if row.query_id in others]
    return [(one, two) for one, two in pairs if one.outcome != two.outcome]


def _row(row: Mapping[str, Any]) -> RunRow:
    texts = [str(document["text"]) for document in row["documents"]]
    found = (hit for document in row["documents"] for hit in document.get("found_by", ()))
    rules = dict.fromkeys(str(hit["rule"]) for hit in found if hit.get("rule"))
    answers = tuple(map(str, row["answers"]))
    return RunRow(
        str(row["query_id"]),
        str(row["query"]),
        str(row["answer"]),
        answers,
        _outcome(str(row["answer"]), answers, texts),
        tuple(rules),
    )


def _outcome(answer: str, answers: Sequence[str], texts: Sequence[str]) -> str:
    if exact_match(answer, answers):
        return "right"
    if not any(contains_answer(text, answers) for text in texts):
        return "not retrieved"
    said = bool(answer.strip()) and any(contains_answer(text, [answer]) for text in texts)
    return "misled" if said else "ignored"
