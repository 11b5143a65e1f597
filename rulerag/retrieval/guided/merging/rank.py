"""Merging by rank: the union of the searches, which take turns."""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.composition import register
from rulerag.retrieval.guided.merging.hits import Merger, RuleSearch
from rulerag.types import Document, Query, RuleHit, ScoredDocument


@register("merge", "rank")
class RankMerger(Merger):
    """The searches take turns, in rule order: all best documents, then the second ones, and so on.

    RuleRAG does not say which documents of a union are shown; this is the plainest order.
    """

    deep = False

    def merge(
        self, query: Query, searches: Sequence[RuleSearch], top_k: int
    ) -> list[ScoredDocument]:
        """The whole union."""
        return union_of(self.documents, searches)


def union_of(
    documents: Sequence[Document], searches: Sequence[RuleSearch], *, by_rank: bool = True
) -> list[ScoredDocument]:
    """The union of several searches, best first; every document carries all its hits.

    Documents are ordered by value, ties by best rank, then by the order of the searches: two
    documents never tie in all three. Rows of -1 do not count as ranks.

    Args:
        documents: what the rows of the searches are of.
        searches: the searches of one query, in rule order.
        by_rank: a document's value is ``1 / best rank``. Otherwise it is its best evidence: the
            weight of a search that found it times the fraction of that search's best score.

    Returns:
        All documents found, with their values as scores and ranks from 1.
    """
    hits: dict[int, list[RuleHit]] = {}
    values: dict[int, float] = {}
    first: dict[int, tuple[int, int]] = {}
    for order, search in enumerate(searches):
        found = search.rows >= 0
        best = 0.0
        pairs = zip(search.rows[found].tolist(), search.scores[found].tolist(), strict=True)
        for rank, (row, score) in enumerate(pairs, start=1):
            best = score if rank == 1 else best
            value = 1.0 / rank if by_rank else search.weight * _fraction(score, best)
            values[row] = max(values.get(row, 0.0), value)
            hits.setdefault(row, []).append(RuleHit(search.rule_id, rank, score))
            first[row] = min(first.get(row, (rank, order)), (rank, order))
    ordered = sorted(values, key=lambda row: (-values[row], first[row]))
    return [
        ScoredDocument(documents[row], values[row], rank, tuple(hits[row]))
        for rank, row in enumerate(ordered, start=1)
    ]


def _fraction(score: float, best: float) -> float:
    """A score over the best of its search, 1 for the best itself, never below 0."""
    if score == best:
        return 1.0
    if best > 0:
        return max(score, 0.0) / best
    return best / score  # both negative: the further below, the less
