"""One list from several retrievers: reciprocal ranks, or weighted scores."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rulerag.composition import check_choice, check_range, register
from rulerag.errors import ConfigError, FingerprintError
from rulerag.io import fingerprint_object
from rulerag.kg.grounding import Statements
from rulerag.retrieval.base.corpus import check_top_k
from rulerag.retrieval.base.known_answers import known_answers_first
from rulerag.types import Document, Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever

K = TypeVar("K", bound=Hashable)

METHODS = ("rrf", "weighted")
"""Values of an item d, over the lists i that hold it, with weights w:

- ``rrf``: ``Σ w_i / (c + rank_i(d))``; scores do not matter;
- ``weighted``: ``Σ w_i · (s − min) / (max − min)`` over the scores of list i; 1 where all its
  scores are equal.
"""


def check_method(method: str, key: str = "method") -> None:
    """Raise a ConfigError unless ``method`` is one of :data:`METHODS`."""
    check_choice(key, method, METHODS, "method")


def fuse(
    lists: Sequence[Sequence[tuple[K, float]]],
    method: str = "rrf",
    *,
    weights: Sequence[float] | None = None,
    rank_constant: float = 60.0,
) -> list[tuple[K, float]]:
    """Fuse ranked lists of items and scores; the best items first, with their values.

    An item counts with 0 in a list that does not hold it. Equal values are ordered by the best
    rank in any list, then by the order of the lists; fusing one list keeps its order.

    Args:
        lists: ranked lists, best first, no score above the one before it, no item twice in one.
        method: one of :data:`METHODS`.
        weights: how much each list counts; equal when None.
        rank_constant: ``c`` of ``rrf``; larger lets low ranks count more.

    Raises:
        ConfigError: an option is unknown or out of range.

    References:
        Reciprocal rank fusion: Cormack, Clarke & Büttcher 2009. Normalised scores: Lee 1997.
    """
    _check(method, weights, rank_constant, len(lists))
    parts: dict[K, list[float]] = {}
    first: dict[K, tuple[int, int]] = {}
    for order, ranked in enumerate(lists):
        weight = 1.0 if weights is None else float(weights[order])
        low = min((score for _, score in ranked), default=0.0)
        span = max((score for _, score in ranked), default=0.0) - low
        for rank, (item, score) in enumerate(ranked, start=1):
            if method == "rrf":
                part = weight / (rank_constant + rank)
            else:
                part = weight * ((score - low) / span if span > 0 else 1.0)
            parts.setdefault(item, []).append(part)
            first[item] = min(first.get(item, (rank, order)), (rank, order))
    # Summed exactly: equal parts make equal values in whatever order they come.
    values = {item: math.fsum(of_item) for item, of_item in parts.items()}
    return sorted(values.items(), key=lambda pair: (-pair[1], first[pair[0]]))


@register("retriever", "fused")
@dataclass(eq=False, repr=False)
class FusedRetriever:
    """Asks several retrievers over one corpus and fuses their lists.

    Any retrievers fuse: lexical with dense, plain with rule-guided. A result carries the hits of
    every retriever that found it, rules and all. What the corpus states of a query comes first
    (:mod:`~rulerag.retrieval.base.known_answers`), but for predictions.

    Args:
        retrievers: the retrievers to ask, in the order that settles ties.
        method: one of :data:`METHODS`.
        weights: how much each retriever counts; equal when None.
        rank_constant: ``c`` of ``rrf``.
        depth: documents asked of each retriever, or as many as are wanted in the end.

    Raises:
        ConfigError: an option is unknown or out of range.
        FingerprintError: the retrievers search different corpora.

    References:
        See :func:`fuse`.
    """

    retrievers: Sequence[Retriever]
    _: KW_ONLY
    method: str = "rrf"
    weights: Sequence[float] | None = None
    rank_constant: float = 60.0
    depth: int = 100

    def __post_init__(self) -> None:
        if not self.retrievers:
            raise ConfigError("there is nothing to fuse", key="retrievers", hint="one or more")
        check_top_k(self.depth, "depth")
        _check(self.method, self.weights, self.rank_constant, len(self.retrievers))
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

    def __repr__(self) -> str:
        return f"FusedRetriever({list(self.retrievers)!r}, method={self.method!r})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the fused retrievers and every setting that changes results."""
        parts = [retriever.fingerprint for retriever in self.retrievers]
        constant = self.rank_constant if self.method == "rrf" else None
        weights = list(map(float, self.weights)) if self.weights else None
        return fingerprint_object(["fused", parts, self.method, constant, weights, self.depth])

    @cached_property
    def statements(self) -> Statements:
        """What the corpus states, as far as the retrievers tell it."""
        return Statements(self.documents)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        depth = max(self.depth, top_k)
        lists = zip(*(one.retrieve(queries, depth) for one in self.retrievers), strict=True)
        return [self._fused(*part, top_k) for part in zip(queries, lists, strict=True)]

    def retrieve_union(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, all that the retrievers give for ``top_k``, in fused order.

        That is the whole union of a rule-guided retriever, and the ``top_k`` best of another.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        unions = (getattr(one, "retrieve_union", one.retrieve) for one in self.retrievers)
        lists = zip(*(union(queries, top_k) for union in unions), strict=True)
        return [self._fused(*part, None) for part in zip(queries, lists, strict=True)]

    def _fused(
        self, query: Query, lists: Sequence[Sequence[ScoredDocument]], top_k: int | None
    ) -> list[ScoredDocument]:
        documents: dict[str, Document] = {}
        hits: dict[str, list[RuleHit]] = {}
        for ranked in lists:
            for scored in ranked:
                key = scored.document.id
                documents.setdefault(key, scored.document)
                plain = RuleHit(None, scored.rank, scored.score)
                hits.setdefault(key, []).extend(scored.found_by or (plain,))
        values = fuse(
            [[(s.document.id, s.score) for s in ranked] for ranked in lists],
            self.method,
            weights=self.weights,
            rank_constant=self.rank_constant,
        )
        fused = [
            ScoredDocument(documents[key], value, rank, tuple(hits[key]))
            for rank, (key, value) in enumerate(values[: top_k if query.prediction else None], 1)
        ]
        return known_answers_first(query, fused, self.statements)[:top_k]


def _check(method: str, weights: Sequence[float] | None, rank_constant: float, lists: int) -> None:
    check_method(method)
    check_range("rank_constant", rank_constant, 0)
    if weights is None:
        return
    able = all(math.isfinite(weight) and weight >= 0 for weight in weights) and any(weights)
    if len(weights) != lists or not able:
        hint = f"one for each of {lists} lists, 0 or more, not all 0"
        raise ConfigError(f"{list(weights)} cannot weigh", key="weights", hint=hint)
