"""Of each fact, the document that stated it last."""

from __future__ import annotations

from rulerag.retrieval.base.deduplicate import latest_of, latest_statements
from rulerag.types import Document, Fact


def told(number: int, *facts: tuple[str, str, str, int | None]) -> Document:
    return Document(f"d{number}", f"text {number}", tuple(Fact(*fact) for fact in facts))


def test_the_latest_of_each_statement_stands_for_the_others() -> None:
    corpus = [
        told(0, ("a", "r", "b", 1)),
        told(1, ("a", "r", "b", 3)),
        told(2, ("b", "r", "a", 2)),
        told(3, ("a", "r", "b", 2)),
        told(4, ("a", "r", "b", 3)),
    ]
    assert latest_of(corpus) == [1, 1, 2, 1, 1], "the direction counts; of two last ones the first"
    assert latest_statements(corpus) == [corpus[1], corpus[2]]


def test_undated_and_unknown_documents_are_their_own() -> None:
    corpus = [told(0, ("a", "r", "b", None)), told(1, ("a", "r", "b", None)), told(2), told(3)]
    assert latest_of(corpus) == [0, 1, 2, 3]
    assert latest_statements(corpus) == corpus


def test_several_facts_are_one_statement() -> None:
    one, other = ("a", "r", "b", 1), ("a", "r", "c", 1)
    corpus = [told(0, one, other), told(1, one), told(2, ("a", "r", "c", 2), ("a", "r", "b", 2))]
    assert latest_of(corpus) == [2, 1, 2]
