"""Plain retrieval merged as rule-guided searches are: the control that shows what rules add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path

from rulerag.composition import register
from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import Statements
from rulerag.protocols import Retriever
from rulerag.retrieval.base import RowSearcher, check_top_k, stated_first
from rulerag.retrieval.guided.merging.evidence import EvidenceMerger
from rulerag.retrieval.guided.merging.hits import GroupMerger, RuleSearch
from rulerag.retrieval.guided.merging.learned import LearnedMerger, MergeWeights
from rulerag.types import Document, Query, ScoredDocument

__all__ = ["PooledRetriever", "check_pool", "check_rows", "make_merger"]


def check_rows(retriever: Retriever, key: str) -> RowSearcher:
    """The retriever, if it can answer in rows.

    Raises:
        ConfigError: it cannot.
    """
    if not isinstance(retriever, RowSearcher):
        raise ConfigError(
            f"{type(retriever).__name__} cannot answer in rows",
            key=key,
            hint="it needs BM25Retriever, LuceneRetriever or DenseRetriever",
        )
    return retriever


def check_pool(pool: int, power: float) -> None:
    """Raise a ConfigError unless the options of merging are in range."""
    check_top_k(pool, "pool")
    if power <= 0:
        raise ConfigError(f"{power} is not above 0", key="power", hint="say 8")


def make_merger(
    documents: Sequence[Document], power: float, weights: MergeWeights | None
) -> GroupMerger:
    """Learned merging where there are weights, merging by evidence where there are none."""
    if weights is not None:
        return LearnedMerger(documents, weights)
    return EvidenceMerger(documents, power=power)


@register("retriever", "pooled")
@dataclass(eq=False)
class PooledRetriever:
    """Searches once, looks deep, and gives each of the k places to another pair of entities.

    The merging of ``RuleGuidedRetriever(merge="evidence")`` without its rules; with weights, that
    of ``merge="learned"``, which gives the places to candidate answers. What the corpus states of a
    query comes first (:mod:`~rulerag.retrieval.base.known_answers`), but for predictions.

    Args:
        retriever: the retriever to wrap; it must answer in rows.
        pool: documents looked at.
        power: how fast evidence falls with the fraction of the best score.
        weights: of learned merging, or their file, as ``rulerag learn-merging`` writes it.

    Raises:
        ConfigError: an option is out of range, or the retriever cannot answer in rows.
    """

    retriever: Retriever
    _: KW_ONLY
    pool: int = 200
    power: float = 8.0
    weights: MergeWeights | str | Path | None = None

    def __post_init__(self) -> None:
        check_pool(self.pool, self.power)
        self._searcher = check_rows(self.retriever, "pooled")
        self._weights = MergeWeights.of(self.weights)

    @property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and every setting that changes results."""
        weights = dict(self._weights.weights) if self._weights else None
        settings = [self.pool, self.power, weights]
        return fingerprint_object(["pooled", self.retriever.fingerprint, *settings])

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states."""
        return Statements(self._searcher.documents)

    @cached_property
    def _merger(self) -> GroupMerger:
        return make_merger(self._searcher.documents, self.power, self._weights)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        results = []
        for query, searches in self.searches(queries, top_k):
            found = self._merger.merge(query, searches, top_k)
            results.append(stated_first(query, found, self.statements)[:top_k])
        return results

    def searches(
        self, queries: Sequence[Query], top_k: int = 1
    ) -> Iterator[tuple[Query, list[RuleSearch]]]:
        """Each query with its one search, ``pool`` documents deep, or ``top_k`` if these are more.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        found = self._searcher.search(queries, max(self.pool, top_k))
        for query, rows, scores in zip(queries, *found, strict=True):
            yield query, [RuleSearch(None, 1.0, rows, scores)]
