"""What several searches of one query found, by search and as columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.types import Document, Query, ScoredDocument

# The least that scores are divided by.
_LEAST = 1e-12


class RuleSearch(NamedTuple):
    """One search of a query and what it found.

    Args:
        rule_id: the guiding rule; None for the plain query.
        weight: how much the search is trusted, from 0 to 1: the rule's confidence.
        rows: shape (depth,), documents, best first; -1 where there is none.
        scores: shape (depth,), as the retriever gave them.
        relations: of the rule's body atoms, one each.
    """

    rule_id: str | None
    weight: float
    rows: Longs
    scores: Doubles
    relations: tuple[str, ...] = ()


class SearchHits(NamedTuple):
    """What several searches of a query found, one line a hit: columns of shape (n,).

    Args:
        search: the search's number.
        rank: the rank in its search, from 0.
        row: the document.
        score: as the retriever gave it.
        best: the best score of the search, above 0.
        weight: the search's weight.
    """

    search: Longs
    rank: Longs
    row: Longs
    score: Doubles
    best: Doubles
    weight: Doubles

    @classmethod
    def of(cls, searches: Sequence[RuleSearch]) -> SearchHits:
        """The hits of the searches, one search after the other."""
        ranks = [np.flatnonzero(search.rows >= 0) for search in searches]
        number = np.repeat(np.arange(len(searches)), [len(one) for one in ranks])
        best = [max(float(search.scores.max(initial=0.0)), _LEAST) for search in searches]
        weight = [search.weight for search in searches]
        pairs = list(zip(searches, ranks, strict=True))
        return cls(
            number,
            np.concatenate(ranks),
            np.concatenate([search.rows[one] for search, one in pairs]),
            np.concatenate([search.scores[one] for search, one in pairs]).astype(np.float64),
            np.array(best)[number],
            np.array(weight, dtype=np.float64)[number],
        )


class Merger(ABC):
    """A way to merge the searches of a query, registered as ``merge``.

    What its constructor takes besides the documents is filled from the settings of the retriever
    by name (``power``, ``weights``).

    Args:
        documents: what the rows of searches are of.

    Attributes:
        deep: whether it looks deeper into each search than the list is long, which takes a
            retriever that answers in rows.
    """

    deep = True

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents

    @abstractmethod
    def merge(
        self, query: Query, searches: Sequence[RuleSearch], top_k: int
    ) -> list[ScoredDocument]:
        """The best documents of a query's searches, each with the hits that support it.

        Args:
            query: the query.
            searches: its searches, in rule order.
            top_k: how many documents are wanted; more may come.
        """
