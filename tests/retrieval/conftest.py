"""What the retrieval tests share: a reference scorer, facts as documents, fixed lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import pytest

from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

Scorer = Callable[[Sequence[Sequence[str]], Sequence[str], float, float], list[float]]


def reference_scores(
    corpus: Sequence[Sequence[str]], query: Sequence[str], k1: float, b: float
) -> list[float]:
    """BM25 as the textbook writes it, one document at a time."""
    mean = sum(map(len, corpus)) / len(corpus)
    scores = []
    for words in corpus:
        total = 0.0
        for token in query:
            holders = sum(token in other for other in corpus)
            idf = math.log(1 + (len(corpus) - holders + 0.5) / (holders + 0.5))
            times = words.count(token)
            if times:
                total += idf * times / (times + k1 * (1 - b + b * len(words) / mean))
        scores.append(total)
    return scores


@pytest.fixture(scope="session")
def bm25_scores() -> Scorer:
    """The reference scorer: token lists, query tokens, k1, b -> one score per document."""
    return reference_scores


def fact_document(number: int, fact: Fact) -> Document:
    time = "" if fact.timestamp is None else f"Time {fact.timestamp} "
    return Document(f"d{number}", f"{time}{fact.subject} {fact.relation} {fact.object}.", (fact,))


@pytest.fixture(scope="session")
def documents_of() -> Callable[[Sequence[Fact]], list[Document]]:
    """Facts as documents d0, d1, ... in the paper's form."""
    return lambda facts: [fact_document(i, fact) for i, fact in enumerate(facts)]


def ids(results: Sequence[ScoredDocument]) -> list[str]:
    """The ids of a list, after a look at its ranks, its order and its repeats."""
    names = [scored.document.id for scored in results]
    assert [scored.rank for scored in results] == list(range(1, len(results) + 1))
    assert len(set(names)) == len(names)
    scores = [scored.score for scored in results]
    assert scores == sorted(scores, reverse=True)
    return names


class Listed:
    """A retriever that gives fixed lists by query text; it remembers its batches."""

    fingerprint = "listed"

    def __init__(self, lists: Mapping[str, Sequence[tuple[Document, float]]]) -> None:
        self.lists = dict(lists)
        self.batches: list[list[Query]] = []

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        self.batches.append(list(queries))
        return [
            [
                ScoredDocument(document, score, rank, (RuleHit(None, rank, score),))
                for rank, (document, score) in enumerate(self.lists.get(q.text, ())[:top_k], 1)
            ]
            for q in queries
        ]
