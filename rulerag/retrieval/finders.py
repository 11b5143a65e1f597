"""Searches whose results hops can be followed through: as records, or as rows of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rulerag.retrieval.corpus import Rows
from rulerag.types import Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever
    from rulerag.retrieval.corpus import RowSearcher

__all__ = ["RecordFinder", "RowFinder"]

# How many documents of a search are looked at for entities to follow.
_LOOK = 20


class RecordFinder:
    """Any retriever: a search's result is its list of scored documents.

    Args:
        retriever: what searches.
        depth: documents of a search.
    """

    def __init__(self, retriever: Retriever, depth: int) -> None:
        self._retriever = retriever
        self._depth = depth

    def search(self, batch: Sequence[Query]) -> list[list[ScoredDocument]]:
        """What each query of a batch found."""
        return self._retriever.retrieve(batch, self._depth)

    def best(self, found: list[ScoredDocument]) -> list[tuple[Document, float]]:
        """The best documents of a search, with their shares of its best score."""
        top = max(found[0].score, 1e-12) if found else 1.0
        return [(s.document, min(max(s.score, 0.0) / top, 1.0)) for s in found[:_LOOK]]

    def keep(
        self, found: list[ScoredDocument], wanted: Callable[[Document], bool]
    ) -> list[ScoredDocument]:
        """The same search without the documents that are not wanted."""
        return [scored for scored in found if wanted(scored.document)]


class RowFinder:
    """A retriever that answers in rows: a search's result is one row of :class:`Rows`.

    Args:
        retriever: what searches.
        depth: documents of a search.
    """

    def __init__(self, retriever: RowSearcher, depth: int) -> None:
        self._retriever = retriever
        self._depth = depth

    def search(self, batch: Sequence[Query]) -> list[Rows]:
        """What each query of a batch found: arrays of shape (depth,)."""
        found = self._retriever.search(batch, self._depth)
        return [Rows(*pair) for pair in zip(found.rows, found.scores, strict=True)]

    def best(self, found: Rows) -> list[tuple[Document, float]]:
        """The best documents of a search, with their shares of its best score."""
        top = max(float(found.scores.max(initial=0.0)), 1e-12)
        pairs = zip(found.rows.tolist(), found.scores.tolist(), strict=True)
        kept = [(row, score) for row, score in pairs if row >= 0][:_LOOK]
        documents = self._retriever.documents
        return [(documents[row], min(max(score, 0.0) / top, 1.0)) for row, score in kept]

    def keep(self, found: Rows, wanted: Callable[[Document], bool]) -> Rows:
        """The same search without the documents that are not wanted."""
        documents = self._retriever.documents
        keep = np.array([row >= 0 and wanted(documents[row]) for row in found.rows.tolist()], bool)
        return Rows(np.where(keep, found.rows, -1), np.where(keep, found.scores, 0.0))
