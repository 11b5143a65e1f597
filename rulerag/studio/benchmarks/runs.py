"""What came of queries: of a run folder of ``rulerag evaluate``, and of two of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rulerag.composition import check_choice
from rulerag.errors import DataFormatError
from rulerag.evaluation import OUTCOMES, AnswerMatcher, outcome_of
from rulerag.io import read_json, read_jsonl
from rulerag.types import Document


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
    """What came of one query.

    Args:
        query_id: its id.
        question: its words.
        answer: what was answered.
        answers: the accepted answers.
        outcome: a key of :data:`~rulerag.evaluation.OUTCOMES`.
        rank: of the first document with an accepted answer, from 1; None where none has one.
        rules: ids of the rules that found a document.
    """

    query_id: str
    question: str
    answer: str
    answers: tuple[str, ...]
    outcome: str
    rank: int | None
    rules: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the answer is an accepted one (exact match)."""
        return self.outcome == "right"

    @property
    def reciprocal(self) -> float:
        """The reciprocal rank."""
        return 0.0 if self.rank is None else 1 / self.rank


@dataclass(frozen=True)
class RunPair:
    """Queries that were answered twice, by two runs or in two ways.

    Args:
        rows: each query with what came of it the first and the second time.
    """

    rows: tuple[tuple[RunRow, RunRow], ...]

    @property
    def moves(self) -> dict[tuple[str, str], int]:
        """How often each outcome of the first became each of the second."""
        counts = Counter((one.outcome, two.outcome) for one, two in self.rows)
        pairs = ((one, two) for one in OUTCOMES for two in OUTCOMES)
        return {pair: counts[pair] for pair in pairs if counts[pair]}

    @property
    def changed(self) -> list[tuple[RunRow, RunRow]]:
        """The queries whose outcomes, answers or ranks differ."""
        return [
            (one, two)
            for one, two in self.rows
            if (one.outcome, one.answer, one.rank) != (two.outcome, two.answer, two.rank)
        ]

    @property
    def better(self) -> list[tuple[RunRow, RunRow]]:
        """Where the second is better, the greatest gain first."""
        return sorted((row for row in self.rows if gain(row) > (0, 0)), key=gain, reverse=True)

    @property
    def worse(self) -> list[tuple[RunRow, RunRow]]:
        """Where it is worse, the greatest loss first."""
        return sorted((row for row in self.rows if gain(row) < (0, 0)), key=gain)

    def means(self, cutoffs: Sequence[int] = (1, 5, 10)) -> dict[str, tuple[float, float]]:
        """Both over all queries: answer recall at some depths, reciprocal rank, exact match.

        Recall as in :mod:`rulerag.evaluation`: an accepted answer stands in one of the first k.
        """
        values: dict[str, Callable[[RunRow], float]] = {
            f"answer_recall@{k}": lambda row, k=k: row.rank is not None and row.rank <= k  # type: ignore[misc]
            for k in cutoffs
        }
        values |= {"mrr": lambda row: row.reciprocal, "exact_match": lambda row: row.right}
        sides = list(zip(*self.rows, strict=True))
        means = {
            name: [sum(map(value, side)) / len(side) for side in sides]
            for name, value in values.items()
        }
        return {name: (both[0], both[1]) for name, both in means.items() if both}


def gain(row: tuple[RunRow, RunRow]) -> tuple[float, int]:
    """How much better the second is: of reciprocal rank, then of right answers."""
    one, two = row
    return two.reciprocal - one.reciprocal, int(two.right) - int(one.right)


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
        return {name: counts[name] for name in OUTCOMES}

    def filtered(self, *, outcome: str = "", rule: str = "", words: str = "") -> list[RunRow]:
        """Some of the rows.

        Args:
            outcome: a key of :data:`~rulerag.evaluation.OUTCOMES`; any when empty.
            rule: the id of a rule that found one of their documents.
            words: that the question holds.

        Raises:
            ConfigError: an unknown outcome.
        """
        check_choice("outcome", outcome, ("", *OUTCOMES))
        wanted = words.casefold().split()
        return [
            row
            for row in self.rows
            if outcome in ("", row.outcome)
            and (not rule or rule in row.rules)
            and all(word in row.question.casefold() for word in wanted)
        ]

    def beside(self, other: Run) -> RunPair:
        """The queries that both have, in the order of this one."""
        others = {row.query_id: row for row in other.rows}
        there = (row for row in self.rows if row.query_id in others)
        return RunPair(tuple((row, others[row.query_id]) for row in there))


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


def _row(row: Mapping[str, Any], matcher: AnswerMatcher) -> tuple[RunRow, tuple[RunDocument, ...]]:
    answers, answer = tuple(map(str, row["answers"])), str(row["answer"])
    read = [Document(str(one["id"]), str(one["text"])) for one in row["documents"]]
    ended = outcome_of(answer, answers, read, matcher, row=row)
    documents = tuple(
        RunDocument(one.id, one.text, _rules(given), holds)
        for one, given, holds in zip(read, row["documents"], ended.holding, strict=True)
    )
    rules = dict.fromkeys(rule for one in documents for rule in one.rules)
    asked = str(row["query_id"]), str(row["query"])
    rank = first_rank(ended.holding)
    return RunRow(*asked, answer, answers, ended.name, rank, tuple(rules)), documents


def _rules(row: Mapping[str, Any]) -> tuple[str, ...]:
    hits = (hit["rule"] for hit in row.get("found_by", ()))
    return tuple(dict.fromkeys(str(rule) for rule in hits if rule))


def first_rank(holding: Iterable[bool]) -> int | None:
    """The rank from 1 of the first document that holds an accepted answer."""
    return next((rank for rank, holds in enumerate(holding, start=1) if holds), None)
