"""The share of claims that rest on documents, of systems whose workings are known."""

from __future__ import annotations

import pytest

import rulerag
from rulerag.explanation.faithfulness import claim_faithfulness

QUESTION = "What is the capital of France?"
DOCUMENTS = [
    "Lyon is a city in France.",
    "Paris is the capital of France.",
    "The Seine flows through the capital.",
]


def half_read(_: str, documents: list[str]) -> str:
    """One claim by a document, one by heart."""
    known = any("Paris" in document for document in documents)
    return f"{'The capital is Paris. ' if known else ''}It has 2 million inhabitants."


def refusing(_: str, documents: list[str]) -> str:
    return "I don't know."


def test_claims_by_documents_and_by_heart() -> None:
    found = claim_faithfulness(rulerag.explain(half_read, QUESTION, DOCUMENTS).explained)
    assert found.score == 0.5
    assert found.reason == (
        "1 of 2 claims rests on retrieved documents. “The capital is Paris” rests on “Paris is the "
        "capital of France.” [2]. “It has 2 million inhabitants” rests on no document: it is said "
        "without any of them, too (known to the model, or made up)."
    )


def test_a_refusal_makes_no_claim() -> None:
    found = claim_faithfulness(rulerag.explain(refusing, QUESTION, DOCUMENTS).explained)
    assert found.score is None and "makes no claim" in found.reason


def test_a_claim_that_is_not_said_again() -> None:
    why = rulerag.explain(half_read, QUESTION, DOCUMENTS, text="The capital is Rome.")
    found = claim_faithfulness(why.explained)
    assert found.score == 0 and "“The capital is Rome” is not said again" in found.reason


def test_claims_that_are_made_anyway_rest_on_nothing() -> None:
    explained = rulerag.explain(half_read, QUESTION, DOCUMENTS).explained
    found = claim_faithfulness(explained, anyway=[0])
    assert found.score == 0
    assert "“The capital is Paris” is said with documents about something else" in found.reason


@pytest.mark.parametrize(("budget", "score"), [(20, 0), (500, 1)])
def test_a_set_counts_when_it_was_tested(budget: int, score: int) -> None:
    documents = [f"Filler number {n}." for n in range(30)] + DOCUMENTS[1:2]

    def reading(_: str, kept: list[str]) -> str:
        return "It is Paris." if DOCUMENTS[1] in kept else "I don't know."

    explained = rulerag.explain(reading, QUESTION, documents, budget=budget).explained
    found = claim_faithfulness(explained)
    assert found.score == score
    assert ("Stopped early" in found.reason) == (score == 0)
