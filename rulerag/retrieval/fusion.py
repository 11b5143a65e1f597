"""One list from several retrievers or runs: reciprocal ranks, summed and weighted scores."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from rulerag.errors import ConfigError, FingerprintError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.kg.statements import Statements
from rulerag.retrieval.corpus import Rows, RowSearcher, check_top_k
from rulerag.retrieval.runs import RunEntry
from rulerag.retrieval.stated import stated_first
from rulerag.types import Document, Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever

__all__ = ["METHODS", "NORMALIZATIONS", "FusedRetriever", "fuse", "fuse_runs", "normalize_scores"]

K = TypeVar("K", bound=Hashable)

METHODS = ("rrf", "combsum", "combmnz", "weighted")
"""Values of an item d, over the lists i that hold it, with weights w:

- ``rrf``: ``Σ w_i / (c + rank_i(d))``; scores do not matter;
- ``combsum``: ``Σ s_i(d)``;
- ``combmnz``: ``Σ s_i(d)``, times the number of lists that hold d;
- ``weighted``: ``Σ w_i · s_i(d)``;

where ``s_i`` are the normalised scores of list i.
"""

NORMALIZATIONS = ("minmax", "zscore")
"""Ways to make the scores of different lists comparable:

- ``minmax``: ``(s − min) / (max − min)``, from 0 to 1; all 1 where all scores are equal;
- ``zscore``: ``(s − mean) / deviation``; all 0 where all scores are equal.
"""


class _Setting(NamedTuple):
    """How lists are fused; checked by :func:`_check`."""

    method: str
    normalization: str | None
    weights: tuple[float, ...] | None
    rank_constant: float

    def weight(self, place: int) -> float:
        weighs = self.weights is not None and self.method in ("rrf", "weighted")
        return self.weights[place] if weighs and self.weights is not None else 1.0


def fuse(
    lists: Sequence[Sequence[tuple[K, float]]],
    method: str = "rrf",
    *,
    normalization: str | None = "minmax",
    weights: Sequence[float] | None = None,
    rank_constant: float = 60.0,
) -> list[tuple[K, float]]:
    """Fuse ranked lists of items and scores; the best items first, with their values.

    An item counts with 0 in a list that does not hold it; under ``zscore``, where 0 is the mean,
    with the lowest value of that list: to be missed by a list never helps. Equal values are
    ordered by the best rank in any list, then by the order of the lists; fusing one list keeps its
    order.

    Args:
        lists: ranked lists, best first, no score above the one before it, no item twice in one.
        method: one of :data:`METHODS`.
        normalization: one of :data:`NORMALIZATIONS`, or None to take scores as they are; ``rrf``
            reads ranks alone.
        weights: how much each list counts, for ``rrf`` and ``weighted``; equal when None.
        rank_constant: ``c`` of ``rrf``; larger lets low ranks count more.

    Raises:
        ConfigError: an option is unknown or out of range, or does not fit another.

    References:
        Reciprocal rank fusion: Cormack, Clarke & Büttcher 2009. CombSUM and CombMNZ: Fox & Shaw
        1994. Normalisation of scores before fusion: Lee 1997.
    """
    setting = _check(method, normalization, weights, rank_constant, len(lists))
    points = [
        _points(setting, order, [score for _, score in ranked])
        for order, ranked in enumerate(lists)
    ]
    lowest = [floor for floor, _ in points]
    told: dict[K, list[float]] = {}
    counts: dict[K, int] = {}
    first: dict[K, tuple[int, int]] = {}
    for order, ranked in enumerate(lists):
        for rank, ((item, _), point) in enumerate(zip(ranked, points[order][1], strict=True), 1):
            told.setdefault(item, list(lowest))[order] = point
            counts[item] = counts.get(item, 0) + 1
            first[item] = min(first.get(item, (rank, order)), (rank, order))
    # Summed exactly: equal parts make equal values in whatever order they come.
    values = {item: math.fsum(parts) for item, parts in told.items()}
    if method == "combmnz":
        values = {item: value * counts[item] for item, value in values.items()}
    return sorted(values.items(), key=lambda pair: (-pair[1], first[pair[0]]))


def _points(setting: _Setting, place: int, scores: Sequence[float]) -> tuple[float, list[float]]:
    """What a list gives to items that it does not hold, and to each of its own."""
    weight = setting.weight(place)
    if setting.method == "rrf":
        return 0.0, [weight / (setting.rank_constant + i) for i in range(1, len(scores) + 1)]
    points = [weight * score for score in normalize_scores(scores, setting.normalization)]
    lowest = min(points, default=0.0) if setting.normalization == "zscore" else 0.0
    return lowest, points


def normalize_scores(scores: Sequence[float], normalization: str | None) -> list[float]:
    """The scores of one list, made comparable with those of others.

    Raises:
        ConfigError: there is no such normalization.
    """
    if normalization is None or not scores:
        return [float(score) for score in scores]
    if normalization not in NORMALIZATIONS:
        raise _unknown("normalization", normalization, NORMALIZATIONS)
    low, high = min(scores), max(scores)
    if normalization == "minmax":
        return [(score - low) / (high - low) if high > low else 1.0 for score in scores]
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    return [(score - mean) / deviation if high > low else 0.0 for score in scores]


def fuse_runs(
    runs: Sequence[Mapping[str, Sequence[RunEntry]]],
    method: str = "rrf",
    *,
    normalization: str | None = "minmax",
    weights: Sequence[float] | None = None,
    rank_constant: float = 60.0,
    depth: int | None = None,
) -> dict[str, list[RunEntry]]:
    """Fuse TREC runs query by query; options as in :func:`fuse`.

    Args:
        runs: what :func:`~rulerag.retrieval.runs.read_run` gives; a query that a run lacks is an
            empty list there.
        method: see there.
        normalization: see there.
        weights: see there.
        rank_constant: see there.
        depth: entries kept of each query; all when None.

    Raises:
        ConfigError: as there.
    """
    if depth is not None:
        check_top_k(depth, "depth")
    _check(method, normalization, weights, rank_constant, len(runs))
    fused: dict[str, list[RunEntry]] = {}
    for query_id in dict.fromkeys(query_id for run in runs for query_id in run):
        lists = [
            [(entry.document_id, entry.score) for entry in run.get(query_id, ())] for run in runs
        ]
        ranked = fuse(
            lists,
            method,
            normalization=normalization,
            weights=weights,
            rank_constant=rank_constant,
        )
        fused[query_id] = [
            RunEntry(document_id, rank, value)
            for rank, (document_id, value) in enumerate(ranked[:depth], start=1)
        ]
    return fused


class FusedRetriever:
    """Asks several retrievers over one corpus and fuses their lists.

    Any retrievers fuse: lexical with dense, plain with rule-guided. A result carries the hits of
    every retriever that found it, rules and all. What the corpus states of a query comes first
    (:mod:`~rulerag.retrieval.stated`), but for predictions.

    Args:
        retrievers: the retrievers to ask, in the order that settles ties.
        method: one of :data:`METHODS`.
        normalization: one of :data:`NORMALIZATIONS`, or None for scores as they are; ``rrf`` reads
            ranks alone.
        weights: how much each retriever counts, for ``rrf`` and ``weighted``; equal when None.
        rank_constant: ``c`` of ``rrf``.
        depth: documents asked of each retriever, or as many as are wanted in the end.

    Raises:
        ConfigError: an option is unknown or out of range, or does not fit another.
        FingerprintError: the retrievers search different corpora.

    References:
        See :func:`fuse`.
    """

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        method: str = "rrf",
        normalization: str | None = "minmax",
        weights: Sequence[float] | None = None,
        rank_constant: float = 60.0,
        depth: int = 100,
    ) -> None:
        if not retrievers:
            raise ConfigError("there is nothing to fuse", key="retrievers", hint="one or more")
        check_top_k(depth, "depth")
        self._setting = _check(method, normalization, weights, rank_constant, len(retrievers))
        self.retrievers = tuple(retrievers)
        self.depth = depth
        self.documents = self._corpus()

    def _corpus(self) -> tuple[Document, ...]:
        """The corpus that all search, as far as they tell; some may search a part of it."""
        corpora = [d for d in (getattr(r, "documents", None) for r in self.retrievers) if d]
        whole: tuple[Document, ...] = max(map(tuple, corpora), key=len, default=())
        known = {document.id: document for document in whole}
        for corpus in corpora:
            if any(known.get(document.id) != document for document in corpus):
                raise FingerprintError(
                    f"the retrievers search different corpora ({len(whole):,} and "
                    f"{len(corpus):,} documents)",
                    hint="build every retriever from the same documents",
                )
        return whole

    @property
    def method(self) -> str:
        """How lists are fused."""
        return self._setting.method

    def __repr__(self) -> str:
        return f"FusedRetriever({list(self.retrievers)!r}, method={self.method!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the fused retrievers and every setting that changes results."""
        parts = [retriever.fingerprint for retriever in self.retrievers]
        method, normalization, weights, constant = self._setting
        ranks = method == "rrf"
        settings = [method, None if ranks else normalization, constant if ranks else None]
        weighed = list(weights) if weights and method in ("rrf", "weighted") else None
        return fingerprint_object(["fused", parts, settings, weighed, self.depth])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        depth = max(self.depth, top_k)
        found = [retriever.retrieve(queries, depth) for retriever in self.retrievers]
        lists = zip(*found, strict=True)
        return [self._fused(*part, top_k) for part in zip(queries, lists, strict=True)]

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, all that the retrievers give for ``top_k``, in fused order.

        That is the whole union of a rule-guided retriever, and the ``top_k`` best of another.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        found = [
            getattr(retriever, "retrieve_union", retriever.retrieve)(queries, top_k)
            for retriever in self.retrievers
        ]
        lists = zip(*found, strict=True)
        return [self._fused(*part, None) for part in zip(queries, lists, strict=True)]

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states, as far as the retrievers tell it."""
        return Statements(self.documents)

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first.

        Raises:
            ConfigError: ``depth`` is below 1.
            RetrievalError: no retriever tells its corpus, or one finds a document outside of it.
        """
        check_top_k(depth, "depth")
        if not self.documents:
            raise RetrievalError(
                "none of the fused retrievers tells its corpus",
                hint="fuse at least one BM25Retriever, LuceneRetriever or DenseRetriever",
            )
        asked = max(self.depth, depth)
        width = min(depth, len(self.documents))
        rows = np.full((len(queries), width), -1, dtype=np.int64)
        scores = np.zeros((len(queries), width), dtype=np.float64)
        found = [self._rows_of(retriever, queries, asked) for retriever in self.retrievers]
        for i, lists in enumerate(zip(*found, strict=True)):
            ranked = self._values(lists)[:width]
            rows[i, : len(ranked)] = [row for row, _ in ranked]
            scores[i, : len(ranked)] = [value for _, value in ranked]
        return Rows(rows, scores)

    def _rows_of(
        self, retriever: Retriever, queries: Sequence[Query], depth: int
    ) -> Iterator[list[tuple[int, float]]]:
        """The lists of one retriever as rows and scores."""
        # The rows of a part of the corpus are other rows.
        if isinstance(retriever, RowSearcher) and tuple(retriever.documents) == self.documents:
            for rows, scores in zip(*retriever.search(queries, depth), strict=True):
                size = int(np.count_nonzero(rows >= 0))
                yield list(zip(rows[:size].tolist(), scores[:size].tolist(), strict=True))
            return
        for ranked in retriever.retrieve(queries, depth):
            try:
                yield [(self._row[scored.document.id], scored.score) for scored in ranked]
            except KeyError as error:
                raise RetrievalError(
                    f"{type(retriever).__name__} found the document {error}, which is not in the "
                    "corpus of the others",
                    hint="build every retriever from the same documents",
                ) from error

    @cached_property
    def _row(self) -> dict[str, int]:
        return {document.id: row for row, document in enumerate(self.documents)}

    def _values(self, lists: Sequence[Sequence[tuple[K, float]]]) -> list[tuple[K, float]]:
        return fuse(
            lists,
            self._setting.method,
            normalization=self._setting.normalization,
            weights=self._setting.weights,
            rank_constant=self._setting.rank_constant,
        )

    def _fused(
        self, query: Query, lists: Sequence[Sequence[ScoredDocument]], top_k: int | None
    ) -> list[ScoredDocument]:
        documents: dict[str, Document] = {}
        hits: dict[str, list[RuleHit]] = {}
        for ranked in lists:
            for scored in ranked:
                key = scored.document.id
                documents.setdefault(key, scored.document)
                told = scored.found_by or (RuleHit(None, scored.rank, scored.score),)
                hits.setdefault(key, []).extend(told)
        values = self._values([[(s.document.id, s.score) for s in ranked] for ranked in lists])
        fused = [
            ScoredDocument(documents[key], value, rank, tuple(hits[key]))
            for rank, (key, value) in enumerate(values[: top_k if query.prediction else None], 1)
        ]
        return stated_first(query, fused, self.statements)[:top_k]


def _check(
    method: str,
    normalization: str | None,
    weights: Sequence[float] | None,
    rank_constant: float,
    lists: int,
) -> _Setting:
    if method not in METHODS:
        raise _unknown("method", method, METHODS)
    if normalization is not None and normalization not in NORMALIZATIONS:
        raise _unknown("normalization", normalization, NORMALIZATIONS)
    if method == "combmnz" and normalization == "zscore":
        raise ConfigError(
            "combmnz would punish agreement on values below 0",
            key="normalization",
            hint="minmax, or method: combsum",
        )
    if rank_constant < 0:
        raise ConfigError(f"{rank_constant} is negative", key="rank_constant", hint="0 or more")
    if weights is None:
        return _Setting(method, normalization, None, float(rank_constant))
    if len(weights) != lists:
        raise ConfigError(
            f"{len(weights)} weights for {lists} lists", key="weights", hint="one for each"
        )
    if any(not math.isfinite(w) or w < 0 for w in weights) or not any(weights):
        raise ConfigError(
            f"{list(weights)} cannot weigh", key="weights", hint="0 or more, not all 0"
        )
    return _Setting(method, normalization, tuple(map(float, weights)), float(rank_constant))


def _unknown(key: str, given: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(f"unknown {key} {given!r}", key=key, hint=f"one of {', '.join(known)}")
