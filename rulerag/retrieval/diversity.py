"""Diversity: documents that name an entity not seen further up stand before those that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from rulerag.io import fingerprint_object
from rulerag.retrieval.corpus import check_top_k
from rulerag.types import Query, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever

__all__ = ["DiverseRetriever", "new_entities_first"]


def new_entities_first(query: Query, documents: Sequence[ScoredDocument]) -> list[ScoredDocument]:
    """Reorder a list so that every possible answer appears before any appears again.

    Corpora of facts repeat themselves: ten best documents may name two entities. Going down the
    list, a document is *new* when it states a fact with an entity that neither the query's
    subject is nor a document above it names; new documents come first, then the others, each
    group in the order given. Documents of unknown content (no facts) count as new.

    The score of a new document is raised by more than the scores of the list differ, so that
    scores still fall with the rank.

    Args:
        query: the query that found them.
        documents: the list, best first.
    """
    if not documents:
        return []
    seen = {query.subject}
    new: list[ScoredDocument] = []
    old: list[ScoredDocument] = []
    for scored in documents:
        facts = scored.document.facts
        entities = {end for fact in facts for end in (fact.subject, fact.object)}
        (old if facts and entities <= seen else new).append(scored)
        seen |= entities
    scores = [scored.score for scored in documents]
    lift = max(scores) - min(scores) + 1.0
    lifted = [replace(scored, score=scored.score + lift) for scored in new]
    return [replace(scored, rank=rank) for rank, scored in enumerate(lifted + old, start=1)]


class DiverseRetriever:
    """Wraps any retriever and gives :func:`new_entities_first` of a deeper pool.

    Args:
        retriever: the retriever to wrap.
        pool: documents asked for; what is returned is the start of the reordered pool.

    Raises:
        ConfigError: ``pool`` is below 1.
    """

    def __init__(self, retriever: Retriever, *, pool: int = 50) -> None:
        check_top_k(pool, "pool")
        self.retriever = retriever
        self.pool = pool

    def __repr__(self) -> str:
        return f"DiverseRetriever({self.retriever!r}, pool={self.pool})"

    @cached_property
    def fingerprint(self) -> str:
        """Names the wrapped retriever and the pool."""
        return fingerprint_object(["diverse", self.retriever.fingerprint, self.pool])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        pools = self.retriever.retrieve(queries, max(self.pool, top_k))
        return [
            new_entities_first(query, pool)[:top_k]
            for query, pool in zip(queries, pools, strict=True)
        ]
