"""No retrieval: what a reader knows by itself, as in RuleRAG's standard prompting."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.composition import register
from rulerag.io import fingerprint_object
from rulerag.retrieval.base.corpus import check_top_k
from rulerag.types import Query, ScoredDocument


@register("retriever", "none")
class NoRetriever:
    """Finds nothing, for the baseline without documents (RuleRAG, section 4.1)."""

    @property
    def fingerprint(self) -> str:
        """Always the same."""
        return fingerprint_object(["none"])

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return an empty list for each query."""
        check_top_k(top_k)
        return [[] for _ in queries]
