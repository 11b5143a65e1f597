"""The share of claims that rest on documents, of systems whose workings are known."""

from __future__ import annotations

from typing import Any

import pytest

import rulerag
from rulerag.explanation.faithfulness import ClaimFaithfulness, claim_faithfulness

DOCUMENTS = [
    "Lyon is a city in France.",
    "Paris is the capital of France.",
    "The Seine flows through the capital.",
]
MANY = [f"Filler number {n}." for n in range(30)] + DOCUMENTS[1:2]


def half_read(_: str, documents: list[str]) -> str:
    """One claim by a document, one by heart."""
    known = any("Paris" in document for document in documents)
    return f"{'The capital is Paris. ' if known else ''}It has 2 million inhabitants."


def reading(_: str, documents: list[str]) -> str:
    return "It is Paris." if DOCUMENTS[1] in documents else "I don't know."


def faithful(
    answer: Any, documents: list[str] = DOCUMENTS, anyway: tuple[int, ...] = (), **options: Any
) -> ClaimFaithfulness:
    why = rulerag.explain(answer, "What is the capital of France?", documents, **options)
    return claim_faithfulness(why.explanation, anyway)


def test_claims_by_documents_and_by_heart() -> None:
    assert faithful(half_read) == ClaimFaithfulness(
        0.5,
        "1 of 2 claims rests on retrieved documents. “The capital is Paris” rests on “Paris is the "
        "capital of France.” [2]. “It has 2 million inhabitants” rests on no document: it is said "
        "without any of them, too (known to the model, or made up).",
    )


@pytest.mark.parametrize(
    ("answer", "options", "score", "words"),
    [
        (lambda question, documents: "I don't know.", {}, None, "makes no claim"),
        (half_read, {"text": "The capital is Rome."}, 0, "Rome” is not said again"),
        (half_read, {"anyway": (0,)}, 0, "Paris” is said with documents about something else"),
        # A set counts when it was tested.
        (reading, {"documents": MANY, "budget": 20}, 0, "Stopped early"),
        (reading, {"documents": MANY, "budget": 500}, 1, "1 of 1 claims"),
    ],
)
def test_what_counts(answer: Any, options: dict[str, Any], score: float, words: str) -> None:
    made = faithful(answer, **options)
    assert made.score == score and words in made.reason
