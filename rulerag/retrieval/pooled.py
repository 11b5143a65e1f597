"""Plain retrieval merged by evidence: the control that shows what rules add to rule guidance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object
from rulerag.kg.statements import Statements
from rulerag.protocols import Retriever
from rulerag.retrieval.corpus import Rows, RowSearcher, check_top_k
from rulerag.retrieval.evidence_merging import EvidenceMerger, RowSearch
from rulerag.retrieval.learned_merging import LearnedMerger, MergeWeights
from rulerag.retrieval.stated import stated_first
from rulerag.types import Query, ScoredDocument

__all__ = ["PooledRetriever"]


class PooledRetriever:
    """Searches once, looks deep, and gives each of the k places to another pair of entities.

    The merging of ``RuleGuidedRetriever(merge="evidence")`` without its rules; with weights, that
    of ``merge="learned"``, which gives the places to candidate answers. What the corpus states of a
    query comes first (:mod:`~rulerag.retrieval.stated`), but for predictions.

    Args:
        retriever: the retriever to wrap; it must answer in rows.
        pool: documents looked at.
        power: how fast evidence falls with the share of the best score.
        weights: of learned merging, or their file, as ``python -m training.merging`` writes it.

    Raises:
        ConfigError: an option is out of range, or the retriever cannot answer in rows.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        pool: int = 200,
        power: float = 8.0,
        weights: MergeWeights | str | Path | None = None,
    ) -> None:
        check_top_k(pool, "pool")
        if power <= 0:
            raise ConfigError(f"{power} is not above 0", key="power", hint="say 8")
        if not isinstance(retriever, RowSearcher):
            raise ConfigError(
                f"{type(retriever).__name__} cannot answer in rows",
                key="pooled",
                hint="wrap a BM25Retriever or a LuceneRetriever",
            )
        self.retriever = retriever
        self.pool = pool
        self.power = float(power)
        self.weights = MergeWeights.of(weights)
        self._searcher: RowSearcher = retriever

    @cached_property
    def _merger(self) -> EvidenceMerger:
        return EvidenceMerger(self._searcher.documents, power=self.power)

    @cached_property
    def _learned(self) -> LearnedMerger | None:
        return LearnedMerger(self._searcher.documents, self.weights) if self.weights else None

    @property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and every setting that changes results."""
        settings = [self.pool, self.power]
        weights = [dict(self.weights.weights)] if self.weights is not None else []
        return fingerprint_object(["pooled", self.retriever.fingerprint, *settings, *weights])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """

        def merge(query: Query, searches: Sequence[RowSearch], rows: Rows) -> list[ScoredDocument]:
            if self._learned is not None:
                return self._learned.merge(query, searches, rows, top_k)
            return self._merger.merge(searches, rows, top_k)

        found = self.merged_rows(queries, top_k, merge)
        return [
            stated_first(query, listed, self.statements)[:top_k]
            for query, listed in zip(queries, found, strict=True)
        ]

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states."""
        return Statements(self._searcher.documents)

    def merged_rows(
        self,
        queries: Sequence[Query],
        top_k: int,
        merge: Callable[[Query, Sequence[RowSearch], Rows], list[ScoredDocument]],
    ) -> list[list[ScoredDocument]]:
        """What a function makes of the search of each query, ``pool`` documents deep.

        Args:
            queries: the queries.
            top_k: documents looked at, where they are more than ``pool``.
            merge: from a query, its search and the results to documents, best first.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        found = self._searcher.search(queries, max(self.pool, top_k))
        return [
            merge(query, [RowSearch(None, 1.0, place)], found)
            for place, query in enumerate(queries)
        ]
