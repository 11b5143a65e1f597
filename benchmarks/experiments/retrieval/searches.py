"""A retriever that searches for each text once, for what merges the same searches many times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rulerag.retrieval.base import Rows, RowSearcher, scored_documents
from rulerag.types import Document, Query, ScoredDocument

__all__ = ["Remembered"]


class Remembered:
    """A retriever that searches for each text once.

    Args:
        retriever: what searches.
        depth: documents kept of each search; a smaller depth is cut from them.
    """

    fingerprint = "remembered"

    def __init__(self, retriever: RowSearcher, depth: int = 200) -> None:
        self.retriever = retriever
        self.documents: Sequence[Document] = retriever.documents
        self.depth = depth
        self._known: dict[str, tuple[Any, Any]] = {}

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """As the wrapped retriever, up to the depth that is kept."""
        fresh = {query.text: query for query in queries if query.text not in self._known}
        if fresh:
            found = self.retriever.search(list(fresh.values()), self.depth)
            self._known.update(zip(fresh, zip(found.rows, found.scores, strict=True), strict=True))
        depth = min(depth, self.depth)
        rows = np.stack([self._known[query.text][0][:depth] for query in queries])
        scores = np.stack([self._known[query.text][1][:depth] for query in queries])
        return Rows(rows, scores)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """As the wrapped retriever."""
        return scored_documents(self.documents, self.search(queries, top_k)) if queries else []
