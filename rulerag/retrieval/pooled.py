"""Plain retrieval merged by evidence: the control that shows what rules add to rule guidance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object
from rulerag.protocols import Retriever
from rulerag.retrieval.corpus import RowSearcher, check_top_k
from rulerag.retrieval.evidence_merging import EvidenceMerger, RowSearch
from rulerag.types import Query, ScoredDocument

__all__ = ["PooledRetriever"]


class PooledRetriever:
    """Searches once, looks deep, and gives each of the k places to another pair of entities.

    The merging of ``RuleGuidedRetriever(merge="evidence")`` without its rules.

    Args:
        retriever: the retriever to wrap; it must answer in rows.
        pool: documents looked at.
        power: how fast evidence falls with the share of the best score.

    Raises:
        ConfigError: an option is out of range, or the retriever cannot answer in rows.
    """

    def __init__(self, retriever: Retriever, *, pool: int = 200, power: float = 8.0) -> None:
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
        self._searcher: RowSearcher = retriever

    @cached_property
    def _merger(self) -> EvidenceMerger:
        return EvidenceMerger(self._searcher.documents, power=self.power)

    @property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and every setting that changes results."""
        return fingerprint_object(["pooled", self.retriever.fingerprint, self.pool, self.power])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        found = self._searcher.search(queries, max(self.pool, top_k))
        return [
            self._merger.merge([RowSearch(None, 1.0, place)], found, top_k)
            for place in range(len(queries))
        ]
