"""One list from several searches: their union, or places shared out among groups of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.errors import ConfigError
from rulerag.retrieval.base import check_choice
from rulerag.types import Document, Query, RuleHit, ScoredDocument

__all__ = [
    "MERGES",
    "GroupMerger",
    "RuleSearch",
    "SearchHits",
    "Weighed",
    "check_merge",
    "union_of",
]


MERGES = ("rank", "evidence", "learned")
"""How several searches become one list:

- ``rank``: the searches take turns, in rule order: the best documents of all, then the second ones,
  and so on. RuleRAG does not say which of a union are shown; this is the plainest order;
- ``evidence``: the places go to pairs of entities
(:mod:`~rulerag.retrieval.guided.merging.evidence`);
- ``learned``: the places go to candidate answers
(:mod:`~rulerag.retrieval.guided.merging.learned`).
"""

_GONE = ("score", "confidence", "calibrated", "noisy-or")
# The least that scores are divided by.
_LEAST = 1e-12
# A search that adds less than this fraction of its weight to a document did not find it in any
# sense that a reader would accept: it shares the subject alone, say.
_NAMED = 0.5


def check_merge(merge: str) -> None:
    """Raise a ConfigError unless ``merge`` is one of :data:`MERGES`."""
    if merge in _GONE:
        raise ConfigError(
            f"the merge {merge!r} is gone: it found less than evidence on every benchmark",
            key="merge",
            hint="say evidence, or rank for the union as the paper writes it",
        )
    check_choice("merge", merge, MERGES)


class RuleSearch(NamedTuple):
    """One search of a query and what it found.

    Args:
        rule_id: the guiding rule; None for the plain query.
        weight: how much the search is trusted, from 0 to 1: the rule's confidence.
        rows: shape (depth,), documents, best first; -1 in places without one.
        scores: shape (depth,), as the retriever gave them.
        relations: of the rule's body atoms, one each.
    """

    rule_id: str | None
    weight: float
    rows: Longs
    scores: Doubles
    relations: tuple[str, ...] = ()


def union_of(
    documents: Sequence[Document], searches: Sequence[RuleSearch], *, by_rank: bool = True
) -> list[ScoredDocument]:
    """The union of several searches, best first; every document carries all its hits.

    Documents are ordered by value, ties by best rank, then by the order of the searches: two
    documents never tie in all three. Places without a document do not count as ranks.

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


class SearchHits(NamedTuple):
    """What several searches of a query found, one line a hit: columns of shape (n,).

    Args:
        search: the search's number.
        rank: the place in its search, from 0.
        row: the document.
        score: as the retriever gave it.
        best: the best score of the search, above 0.
        weight: the search's weight.
    """

    search: Longs
    rank: Longs
    row: Longs
    score: Doubles
    best: Doubles
    weight: Doubles

    @classmethod
    def of(cls, searches: Sequence[RuleSearch]) -> SearchHits:
        """The hits of the searches, one search after the other."""
        found = [np.flatnonzero(search.rows >= 0) for search in searches]
        number = np.repeat(np.arange(len(searches)), [len(ranks) for ranks in found])
        best = [max(float(search.scores.max(initial=0.0)), _LEAST) for search in searches]
        weight = [search.weight for search in searches]
        pairs = list(zip(searches, found, strict=True))
        return cls(
            number,
            np.concatenate(found),
            np.concatenate([search.rows[ranks] for search, ranks in pairs]),
            np.concatenate([search.scores[ranks] for search, ranks in pairs]).astype(np.float64),
            np.array(best)[number],
            np.array(weight, dtype=np.float64)[number],
        )


class Weighed(NamedTuple):
    """What the hits of a query tell, columns of shape (n,).

    Args:
        evidence: how much each hit tells.
        strength: the same without the search's weight, from 0 to 1: what is worth naming.
        group: what its document is about: documents of one group share a place.
    """

    evidence: Doubles
    strength: Doubles
    group: Longs


class GroupMerger:
    """Gives each of the k places to another group of documents.

    A group's evidence is the sum over the hits of its documents. The list takes the document with
    most evidence of every group, groups by their evidence, then every second document, and so on.
    The score of a document in round i (from 0) is its group's value minus i.

    Args:
        documents: what the rows of searches are of.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents

    def weigh(self, query: Query, searches: Sequence[RuleSearch], hits: SearchHits) -> Weighed:
        """What each hit tells; hits of no evidence have strength 0."""
        raise NotImplementedError

    def value(self, joined: Doubles, total: float) -> Doubles:
        """A group's value, from 0 to 1.

        Args:
            joined: shape (m,), the evidence of groups.
            total: that of all hits.
        """
        raise NotImplementedError

    def merge(
        self, query: Query, searches: Sequence[RuleSearch], top_k: int
    ) -> list[ScoredDocument]:
        """The ``top_k`` best documents of a query's searches, each with the hits that tell of it.

        Args:
            query: the query.
            searches: its searches, in rule order.
            top_k: how many documents to return at most.
        """
        hits = SearchHits.of(searches)
        weighed = self.weigh(query, searches, hits)
        keep = weighed.strength > 0
        if not keep.any():
            return []
        hits = SearchHits._make(column[keep] for column in hits)
        weighed = Weighed._make(column[keep] for column in weighed)
        rows, first, position = np.unique(hits.row, return_index=True, return_inverse=True)
        told: Doubles = np.bincount(position, weighed.evidence).astype(np.float64)
        order, joined, turn = _in_rounds(rows, weighed.group[first], told)
        score = self.value(joined, float(weighed.evidence.sum())) - turn
        return [
            ScoredDocument(
                self.documents[rows[i]],
                float(score[i]),
                rank,
                _named(hits, weighed.strength, np.flatnonzero(position == i), searches),
            )
            for rank, i in enumerate(order[:top_k].tolist(), start=1)
        ]


def _in_rounds(rows: Longs, group: Longs, told: Doubles) -> tuple[Longs, Doubles, Longs]:
    """The best document of every group, groups by their joined evidence; then every second one.

    Args:
        rows: shape (n,), documents, which break ties.
        group: shape (n,), what each is about.
        told: shape (n,), the evidence of each.

    Returns:
        The places of the documents, best first; of each document the evidence of its group, and
        its round, from 0.
    """
    _, group = np.unique(group, return_inverse=True)
    joined: Doubles = np.bincount(group, told).astype(np.float64)
    by_group = np.lexsort((rows, -told, group))
    starts = np.flatnonzero(np.r_[True, np.diff(group[by_group]) != 0])
    sizes = np.diff(np.r_[starts, len(group)])
    turn = np.empty(len(group), dtype=np.int64)
    turn[by_group] = np.arange(len(group)) - np.repeat(starts, sizes)
    order: Longs = np.lexsort((rows, -joined[group], turn)).astype(np.int64)
    return order, joined[group], turn


def _named(
    hits: SearchHits, strength: Doubles, mine: Longs, searches: Sequence[RuleSearch]
) -> tuple[RuleHit, ...]:
    """The hits of a document that tell of it, the strongest first; there is always one."""
    told = mine[strength[mine] >= min(_NAMED, float(strength[mine].max()))]
    ordered = sorted(told.tolist(), key=lambda i: (-strength[i], hits.search[i]))
    return tuple(
        RuleHit(searches[hits.search[i]].rule_id, int(hits.rank[i]) + 1, float(hits.score[i]))
        for i in ordered
    )
