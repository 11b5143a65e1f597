"""One list from several searches: the union of what they found, in a documented order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rulerag.errors import ConfigError
from rulerag.types import Document, RuleHit, ScoredDocument

__all__ = ["MERGES", "Search", "check_merge", "merge_searches"]


class Search(NamedTuple):
    """One search of a query and what it found.

    Args:
        rule_id: the guiding rule; None for the plain query.
        weight: how much the search is trusted, from 0 to 1: the rule's confidence.
        found: its results, best first.
    """

    rule_id: str | None
    weight: float
    found: Sequence[ScoredDocument]


class _Hit(NamedTuple):
    """One hit of a document: rank and score, share of the search's best score, weight."""

    rank: int
    score: float
    share: float
    weight: float


def _best_score(hits: Sequence[_Hit], _: float) -> float:
    return max(hit.score for hit in hits)


def _best_rank(hits: Sequence[_Hit], _: float) -> float:
    return 1.0 / min(hit.rank for hit in hits)


def _weighted_ranks(hits: Sequence[_Hit], constant: float) -> float:
    return sum(hit.weight / (constant + hit.rank) for hit in hits)


def _best_share(hits: Sequence[_Hit], _: float) -> float:
    return max(hit.weight * hit.share for hit in hits)


def _noisy_or(hits: Sequence[_Hit], _: float) -> float:
    return 1.0 - math.prod(1.0 - min(hit.weight * hit.share, 1.0) for hit in hits)


MERGES: dict[str, Callable[[Sequence[_Hit], float], float]] = {
    "score": _best_score,
    "rank": _best_rank,
    "confidence": _weighted_ranks,
    "calibrated": _best_share,
    "noisy-or": _noisy_or,
}
"""Values by merge name, over all hits h of a document:

- ``score``: ``max score(h)``, as the retriever gave it;
- ``rank``: ``1 / min rank(h)``: the searches take turns, in rule order;
- ``confidence``: ``Σ weight(h) / (c + rank(h))``, reciprocal rank fusion (Cormack et al. 2009)
  with the rule's confidence as weight;
- ``calibrated``: ``max weight(h) · score(h) / best score of h's search``: scores of searches of
  different lengths are made comparable, and a rule counts as far as it holds;
- ``noisy-or``: ``1 − Π (1 − weight(h) · score(h) / best score of h's search)``: as calibrated, and
  several rules that agree count for more.
"""


def check_merge(merge: str, *, more: Sequence[str] = ()) -> None:
    """Raise a ConfigError unless ``merge`` is one of :data:`MERGES`, or of some more names."""
    known = (*MERGES, *more)
    if merge not in known:
        raise ConfigError(
            f"unknown merge {merge!r}", key="merge", hint=f"one of {', '.join(known)}"
        )


def merge_searches(
    searches: Sequence[Search], merge: str, *, rank_constant: float = 60.0
) -> list[ScoredDocument]:
    """The union of several searches, best first; every document carries all its hits.

    Documents are ordered by the value of :data:`MERGES`, ties by best rank, then by the order of
    the searches: two documents never tie in all three.

    Args:
        searches: the searches of one query, in rule order.
        merge: a name of :data:`MERGES`.
        rank_constant: ``c`` of ``confidence``.

    Returns:
        All documents found, with ``score`` the value of the merge and ranks from 1.
    """
    documents: dict[str, Document] = {}
    hits: dict[str, list[_Hit]] = {}
    records: dict[str, list[RuleHit]] = {}
    first: dict[str, tuple[int, int]] = {}
    for order, search in enumerate(searches):
        best = search.found[0].score if search.found else 0.0
        for rank, scored in enumerate(search.found, start=1):
            key = scored.document.id
            documents.setdefault(key, scored.document)
            share = _share(scored.score, best)
            hits.setdefault(key, []).append(_Hit(rank, scored.score, share, search.weight))
            records.setdefault(key, []).append(RuleHit(search.rule_id, rank, scored.score))
            first[key] = min(first.get(key, (rank, order)), (rank, order))
    value = MERGES[merge]
    values = {key: value(found, rank_constant) for key, found in hits.items()}
    ordered = sorted(documents, key=lambda key: (-values[key], first[key]))
    return [
        ScoredDocument(documents[key], values[key], rank, tuple(records[key]))
        for rank, key in enumerate(ordered, start=1)
    ]


def _share(score: float, best: float) -> float:
    """A score as a share of the best of its search, 1 for the best itself, never below 0."""
    if score == best:
        return 1.0
    if best > 0:
        return max(score, 0.0) / best
    return best / score  # both negative: the further below, the less
