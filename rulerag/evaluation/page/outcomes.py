"""How the answers of a run ended: right, or wrong by the step that lost the accepted answer.

What is told apart can be read off a run: whether an accepted answer stands in a document that was
read, and whether the wrong one stands in another. Whether that other document caused the wrong
answer is for an explanation, which removes it and asks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.evaluation.significance import bootstrap_interval, wilson_interval
from rulerag.explanation.views import Node, sankey
from rulerag.text import exact_match, token_f1
from rulerag.types import Document

Kind = Literal["right", "misled by another document", "retrieved but not read", "not retrieved"]

KINDS: Mapping[Kind, str] = {
    "right": "the answer equals an accepted one (exact match)",
    "misled by another document": "a document that was read holds an accepted answer, and the "
    "answer given stands in one that does not",
    "retrieved but not read": "a document that was read holds an accepted answer, and the answer "
    "given stands in none of the others",
    "not retrieved": "no document that was read holds an accepted answer",
}
"""The ends of an answer with what each means, the good one first."""

_PAIRS = 2
_SAMPLES = 2000
_COLUMN = 6.0  # what all answers together are as a flow: a quarter of a screen


@dataclass(frozen=True)
class Outcome:
    """How one answer ended.

    Args:
        kind: a key of :data:`KINDS`.
        retrieved: whether a document that was read holds an accepted answer.
        row: the line of ``predictions.jsonl``.
    """

    kind: Kind
    retrieved: bool
    row: Mapping[str, Any]


def outcome(row: Mapping[str, Any], matcher: AnswerMatcher) -> Outcome | None:
    """How the answer of one line of ``predictions.jsonl`` ended; None without accepted answers.

    Args:
        row: with ``answer``, ``answers`` and ``documents``.
        matcher: one for a whole run, which makes it fast.
    """
    accepted = row["answers"]
    if not accepted:
        return None
    holding = [matcher.first_rank([document], accepted) for document in _read(row)]
    retrieved = any(holding)
    if exact_match(row["answer"], accepted):
        return Outcome("right", retrieved, row)
    if not retrieved:
        return Outcome("not retrieved", False, row)
    others = [one for one, held in zip(_read(row), holding, strict=True) if not held]
    misled = matcher.first_rank(others, [row["answer"]]) is not None
    return Outcome("misled by another document" if misled else "retrieved but not read", True, row)


def outcomes(rows: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """How the answers of a run ended; those without accepted answers are left out."""
    matcher = AnswerMatcher()
    return [one for row in rows if (one := outcome(row, matcher)) is not None]


def _read(row: Mapping[str, Any]) -> list[Document]:
    return [Document(one["id"], one["text"]) for one in row["documents"]]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean over questions.

    Of values that are 0 or 1 it is Wilson's, which stays honest when all are alike; of
    others the percentile bootstrap's.

    Args:
        values: one a question, at least one.
    """
    if set(values) <= {0.0, 1.0}:
        return wilson_interval(round(sum(values)), len(values))
    return bootstrap_interval(values, samples=_SAMPLES)


def paired(
    ended: Sequence[Outcome],
) -> list[tuple[Kind, list[tuple[Outcome, Outcome | None]]]]:
    """Wrong answers of each kind, each beside the right answer to the most similar question.

    The first two of a kind, in the order of the questions: none is picked. Questions are alike as
    far as their words overlap.
    """
    right = [one for one in ended if one.kind == "right"]
    kinds = [kind for kind in KINDS if kind != "right"]
    found: list[tuple[Kind, list[tuple[Outcome, Outcome | None]]]] = []
    for kind in kinds:
        wrong = [one for one in ended if one.kind == kind][:_PAIRS]
        if wrong:
            found.append((kind, [(one, _nearest(one, right)) for one in wrong]))
    return found


def _nearest(wrong: Outcome, right: Sequence[Outcome]) -> Outcome | None:
    asked = wrong.row["query"]
    return max(right, key=lambda one: token_f1(one.row["query"], asked), default=None)


def marked(one: Outcome) -> list[tuple[Mapping[str, Any], list[str]]]:
    """The documents of a row, each with what of the answers it holds, in words."""
    matcher, row = AnswerMatcher(), one.row
    found = []
    for document, read in zip(row["documents"], _read(row), strict=True):
        marks = []
        for answer in row["answers"]:
            if matcher.first_rank([read], [answer]):
                marks.append(f"holds the accepted answer {answer}")
                break
        if one.kind != "right" and matcher.first_rank([read], [row["answer"]]):
            marks.append("holds the answer given")
        found.append((document, marks))
    return found


def sankey_of(ended: Sequence[Outcome], width: float) -> str:
    """From whether an accepted answer was retrieved to how the answer ended, as bands."""
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in ended)]
    steps = [step for step in (True, False) if any(one.retrieved is step for one in ended)]
    counts = np.array(
        [
            [sum(one.kind == kind and one.retrieved is step for one in ended) for kind in kinds]
            for step in steps
        ],
        dtype=np.float64,
    )
    words = {True: "accepted answer among the documents", False: "not among the documents"}
    left = [
        Node("", words[step], _count(row.sum())) for step, row in zip(steps, counts, strict=True)
    ]
    right = [
        Node("", kind, _count(total)) for kind, total in zip(kinds, counts.sum(0), strict=True)
    ]
    return sankey(
        left,
        right,
        counts * (_COLUMN / counts.sum()),
        titles=("retrieved", "answered"),
        caption="How the answers ended, by whether a document read holds an accepted answer",
        width=width,
    )


def _count(number: float) -> str:
    return f"{number:,.0f} answer{'' if number == 1 else 's'}"
