"""Diversified merging: the ranks of a list are shared out among groups of documents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.retrieval.base import rank_in_group
from rulerag.retrieval.guided.merging.hits import Merger, RuleSearch, SearchHits
from rulerag.types import Query, RuleHit, ScoredDocument

# A search that adds less than this fraction of its weight to a document did not find it in any
# sense that a reader would accept: it shares the subject alone, say.
_NAMED = 0.5


class GroupMerger(Merger):
    """Round robin over groups of documents.

    A group's evidence is the sum over the hits of its documents. The list takes the document with
    most evidence of every group, groups by their evidence, then every second document, and so on.
    The score of a document in round i (from 0) is its group's value minus i.
    """

    @abstractmethod
    def weigh(
        self, query: Query, searches: Sequence[RuleSearch], hits: SearchHits
    ) -> tuple[Doubles, Doubles, Longs]:
        """What the n hits of a query are worth, three columns of shape (n,).

        Returns:
            The evidence of each hit; its strength, the same without the search's weight, from 0
            to 1: what is worth naming; and the group of its document, what that is about.
        """

    @abstractmethod
    def value(self, joined: Doubles, total: float) -> Doubles:
        """A group's value, from 0 to 1.

        Args:
            joined: shape (m,), the evidence of groups.
            total: that of all hits.
        """

    def merge(
        self, query: Query, searches: Sequence[RuleSearch], top_k: int
    ) -> list[ScoredDocument]:
        """The ``top_k`` best documents of a query's searches."""
        hits = SearchHits.of(searches)
        evidence, strength, group = self.weigh(query, searches, hits)
        keep = strength > 0
        if not keep.any():
            return []
        hits = SearchHits._make(column[keep] for column in hits)
        evidence, strength, group = evidence[keep], strength[keep], group[keep]
        rows, first, document = np.unique(hits.row, return_index=True, return_inverse=True)
        of_document: Doubles = np.bincount(document, evidence).astype(np.float64)
        order, joined, turn = _round_robin(rows, group[first], of_document)
        score = self.value(joined, float(evidence.sum())) - turn
        return [
            ScoredDocument(
                self.documents[rows[i]],
                float(score[i]),
                rank,
                _worth_naming(hits, strength, np.flatnonzero(document == i), searches),
            )
            for rank, i in enumerate(order[:top_k].tolist(), start=1)
        ]


def _round_robin(rows: Longs, group: Longs, evidence: Doubles) -> tuple[Longs, Doubles, Longs]:
    """The best document of every group, groups by their joined evidence; then every second one.

    Args:
        rows: shape (n,), documents, which break ties.
        group: shape (n,), what each is about.
        evidence: shape (n,), that of each.

    Returns:
        Indices into the arguments, best first; of each document the evidence of its group, and
        its round, from 0.
    """
    _, group = np.unique(group, return_inverse=True)
    joined: Doubles = np.bincount(group, evidence).astype(np.float64)
    turn = rank_in_group(group, -evidence, rows)
    order: Longs = np.lexsort((rows, -joined[group], turn)).astype(np.int64)
    return order, joined[group], turn


def _worth_naming(
    hits: SearchHits, strength: Doubles, mine: Longs, searches: Sequence[RuleSearch]
) -> tuple[RuleHit, ...]:
    """The hits that a document is worth naming for, the strongest first; there is always one."""
    named = mine[strength[mine] >= min(_NAMED, float(strength[mine].max()))]
    ordered = sorted(named.tolist(), key=lambda i: (-strength[i], hits.search[i]))
    return tuple(
        RuleHit(searches[hits.search[i]].rule_id, int(hits.rank[i]) + 1, float(hits.score[i]))
        for i in ordered
    )
