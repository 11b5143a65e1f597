"""Plain retrieval merged as rule-guided searches are: the control that shows what rules add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rulerag.composition import find, register
from rulerag.errors import ConfigError
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import Statements
from rulerag.protocols import Retriever
from rulerag.retrieval.base import RowSearcher, check_top_k, known_answers_first, row_searcher
from rulerag.retrieval.guided.merging.hits import Merger, RuleSearch
from rulerag.retrieval.guided.merging.learned import MergeWeights
from rulerag.types import Document, Query, ScoredDocument


def make_merger(name: str, documents: Sequence[Document], settings: Mapping[str, Any]) -> Merger:
    """The merger of this name over a corpus, with those of the settings that it takes."""
    entry = find("merge", name, key="merge")
    taken = {key: settings[key] for key in entry.settings.model_fields if key in settings}
    merger: Merger = entry.maker(documents, **taken)
    return merger


def check_rows(retriever: Retriever, key: str) -> RowSearcher:
    """The retriever, if it can answer in rows.

    Raises:
        ConfigError: it cannot.
    """
    searcher = row_searcher(retriever)
    if searcher is None:
        raise ConfigError(
            f"{type(retriever).__name__} cannot answer in rows",
            key=key,
            hint="it needs BM25Retriever, LuceneRetriever or DenseRetriever, or one of these in a "
            "TimeAwareRetriever",
        )
    return searcher


@register("retriever", "pooled")
@dataclass(eq=False)
class DiversifiedRetriever:
    """Searches once, looks deep, and gives each of the k ranks to another pair of entities.

    The merging of ``RuleGuidedRetriever(merge="evidence")`` without its rules; with weights, that
    of ``merge="learned"``, which gives the ranks to candidate answers. What the corpus states of a
    query comes first (:mod:`~rulerag.retrieval.base.known_answers`), but for predictions.

    Args:
        retriever: the retriever to wrap; it must answer in rows.
        pool: the search depth: documents looked at.
        power: the exponent of a score's fraction of the best one.
        weights: of learned merging, or their file, as ``training.merging`` writes it.

    Raises:
        ConfigError: an option is out of range, or the retriever cannot answer in rows.
    """

    retriever: Retriever
    _: KW_ONLY
    pool: int = 200
    power: float = 8.0
    weights: MergeWeights | str | Path | None = None

    def __post_init__(self) -> None:
        check_top_k(self.pool, "pool")
        if self.power <= 0:
            raise ConfigError(f"{self.power} is out of range", key="power", hint="above 0: say 8")
        self._searcher = check_rows(self.retriever, "pooled")
        self._weights = None if self.weights is None else MergeWeights.of(self.weights)

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
    def _merger(self) -> Merger:
        name = "evidence" if self._weights is None else "learned"
        settings = {"power": self.power, "weights": self._weights}
        return make_merger(name, self._searcher.documents, settings)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        results = []
        for query, searches in self.searches(queries, top_k):
            merged = self._merger.merge(query, searches, top_k)
            results.append(known_answers_first(query, merged, self.statements)[:top_k])
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
