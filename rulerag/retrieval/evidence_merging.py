"""Merging many rule-guided searches by the evidence that they give for each pair of entities.

Lists of several rules compete for k places. Merged by score or rank they fill these places with
copies of the best-known statement. Here the places go to what the documents are *about*: documents
about the same entities are one piece of news, told as often and under as many rules as it was
found; the k best-told pieces give one document each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.retrieval.corpus import Rows
from rulerag.types import Document, RuleHit, ScoredDocument

__all__ = ["EvidenceMerger", "Hits", "RowSearch", "in_layers"]

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
# A search that adds less than this share of its weight to a document did not find it in any
# sense that a reader would accept: it shares the subject alone, say.
_TOLD = 0.5


class RowSearch(NamedTuple):
    """One search of a query.

    Args:
        rule_id: the guiding rule; None for the plain query.
        weight: how much the search is trusted, from 0 to 1: the rule's confidence.
        place: the search's row in the batch of results.
        relations: of the rule's body atoms, one each.
    """

    rule_id: str | None
    weight: float
    place: int
    relations: tuple[str, ...] = ()


class EvidenceMerger:
    """Orders the documents of several searches by joined evidence.

    A document found with score ``s`` by a search with best score ``s*`` and rule confidence ``c``
    gets the evidence ``c · (s / s*) ** power``. Documents whose facts speak of the same entities
    form a group; a group's evidence ``E`` is the sum over its documents and searches, and its
    value ``1 − exp(−E)``. The list takes the best document of every group (groups by value,
    documents by evidence, then by corpus order), then every second document, and so on. The score
    of a document in round i (from 0) is its group's value minus i.

    Args:
        documents: the corpus.
        power: how fast evidence falls with the share of the best score.
    """

    def __init__(self, documents: Sequence[Document], *, power: float = 8.0) -> None:
        self.documents = documents
        self.power = power
        codes: dict[object, int] = {}
        self._group = np.array(
            [codes.setdefault(_about(document), len(codes)) for document in documents],
            dtype=np.int64,
        )

    def merge(self, searches: Sequence[RowSearch], found: Rows, top_k: int) -> list[ScoredDocument]:
        """The ``top_k`` best documents of a query's searches, each with the hits that tell of it.

        Args:
            searches: the searches of one query, in rule order.
            found: the results of the whole batch.
            top_k: how many documents to return at most.
        """
        places = [search.place for search in searches]
        rows, scores = found.rows[places], found.scores[places]
        valid = rows >= 0
        best = np.maximum(scores.max(axis=1, initial=0.0, keepdims=True), 1e-12)
        weights = np.array([search.weight for search in searches])[:, None]
        strength = np.where(valid, np.clip(scores / best, 0.0, 1.0) ** self.power, 0.0)
        of_search, rank = np.nonzero(valid & (strength > 0))
        if not len(of_search):
            return []
        row = rows[of_search, rank]
        evidence = (weights * strength)[of_search, rank]
        documents, position = np.unique(row, return_inverse=True)
        value: Floats = np.bincount(position, evidence).astype(np.float64)
        order, joined, layer = in_layers(documents, self._group[documents], value)
        score = -np.expm1(-joined) - layer
        hits = Hits(of_search, rank, scores[of_search, rank], strength[of_search, rank], position)
        return [
            ScoredDocument(
                self.documents[documents[i]],
                float(score[i]),
                number,
                hits.of(int(i), searches),
            )
            for number, i in enumerate(order[:top_k].tolist(), start=1)
        ]


def in_layers(documents: Longs, group: Longs, value: Floats) -> tuple[Longs, Floats, Longs]:
    """The best document of every group, groups by their joined value; then every second one.

    Args:
        documents: shape (n,), corpus rows, which break ties.
        group: shape (n,), what each is about.
        value: shape (n,), the evidence of each.

    Returns:
        The places of the documents, best first; of each document the value of its group, and its
        round, from 0.
    """
    _, group = np.unique(group, return_inverse=True)
    joined: Floats = np.bincount(group, value).astype(np.float64)
    by_group = np.lexsort((documents, -value, group))
    starts = np.flatnonzero(np.r_[True, np.diff(group[by_group]) != 0])
    sizes = np.diff(np.r_[starts, len(group)])
    layer = np.empty(len(group), dtype=np.int64)
    layer[by_group] = np.arange(len(group)) - np.repeat(starts, sizes)
    order: Longs = np.lexsort((documents, -joined[group], layer)).astype(np.int64)
    return order, joined[group], layer


class Hits(NamedTuple):
    """The hits of one query as columns of shape (n,), strengths from 0 to 1."""

    search: Longs
    rank: Longs
    score: Floats
    strength: Floats
    document: Longs

    def of(self, document: int, searches: Sequence[RowSearch]) -> tuple[RuleHit, ...]:
        """The hits that tell of a document, the strongest first; there is always one."""
        mine = np.flatnonzero(self.document == document)
        strength = self.strength[mine]
        told = mine[strength >= min(_TOLD, float(strength.max()))]
        ordered = sorted(told.tolist(), key=lambda i: (-self.strength[i], self.search[i]))
        return tuple(
            RuleHit(searches[self.search[i]].rule_id, int(self.rank[i]) + 1, float(self.score[i]))
            for i in ordered
        )


def _about(document: Document) -> object:
    """The entities that a document speaks of; a document of unknown content is its own kind."""
    if not document.facts:
        return document.id
    return frozenset(end for fact in document.facts for end in (fact.subject, fact.object))
