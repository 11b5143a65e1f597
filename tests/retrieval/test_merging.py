"""Merging searches: every value worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rulerag.errors import ConfigError
from rulerag.retrieval.merging import MERGES, Search, check_merge, merge_searches
from rulerag.types import Document, RuleHit, ScoredDocument

DOCUMENTS = {name: Document(name, name) for name in "abcde"}


def search(rule_id: str | None, weight: float, **scores: float) -> Search:
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    found = [ScoredDocument(DOCUMENTS[n], s, r) for r, (n, s) in enumerate(ranked, start=1)]
    return Search(rule_id, weight, found)


SEARCHES = [search("r1", 0.5, a=10, b=8, c=5), search("r2", 0.4, d=20, b=20, e=4)]
# Ranks: r1 a1 b2 c3; r2 d1 b2 e3 (d before b: ties keep the order of the search).


def merged(merge: str, **options: float) -> list[tuple[str, float]]:
    found = merge_searches(SEARCHES, merge, **options)
    assert [scored.rank for scored in found] == list(range(1, len(found) + 1))
    assert all(x.score >= y.score for x, y in pairwise(found))
    return [(scored.document.id, round(scored.score, 6)) for scored in found]


def test_by_score() -> None:
    # d and b tie at 20; d's best rank is 1, b's 2.
    assert merged("score") == [("d", 20), ("b", 20), ("a", 10), ("c", 5), ("e", 4)]


def test_by_rank_the_searches_take_turns_in_rule_order() -> None:
    assert [name for name, _ in merged("rank")] == ["a", "d", "b", "c", "e"]
    assert dict(merged("rank"))["b"] == 0.5


def test_by_weighted_reciprocal_rank() -> None:
    assert merged("confidence", rank_constant=1) == [
        ("b", 0.3),  # 0.5 / 3 + 0.4 / 3
        ("a", 0.25),  # 0.5 / 2
        ("d", 0.2),  # 0.4 / 2
        ("c", 0.125),  # 0.5 / 4
        ("e", 0.1),  # 0.4 / 4
    ]


def test_calibrated() -> None:
    assert merged("calibrated") == [
        ("a", 0.5),  # 0.5 * 10 / 10
        ("d", 0.4),  # 0.4 * 20 / 20, best rank 1
        ("b", 0.4),  # max(0.5 * 8 / 10, 0.4 * 20 / 20), best rank 2
        ("c", 0.25),
        ("e", 0.08),
    ]


def test_noisy_or() -> None:
    assert merged("noisy-or") == [
        ("b", 0.64),  # 1 - (1 - 0.4) * (1 - 0.4)
        ("a", 0.5),
        ("d", 0.4),
        ("c", 0.25),
        ("e", 0.08),
    ]


@pytest.mark.parametrize("merge", sorted(MERGES))
def test_one_search_keeps_its_order_and_every_hit_is_recorded(merge: str) -> None:
    [alone, _] = SEARCHES
    assert [s.document.id for s in merge_searches([alone], merge)] == ["a", "b", "c"]
    b = next(s for s in merge_searches(SEARCHES, merge) if s.document.id == "b")
    assert b.found_by == (RuleHit("r1", 2, 8), RuleHit("r2", 2, 20))
    assert merge_searches([], merge) == []
    assert merge_searches([search("r", 1.0)], merge) == []


@pytest.mark.parametrize(
    "scores", [{"a": -1.0, "b": -2.0}, {"a": 0.0, "b": -3.0}, {"a": 3, "b": -1}]
)
def test_negative_scores_keep_their_order(scores: dict[str, float]) -> None:
    for merge in MERGES:
        found = merge_searches([search("r", 0.5, **scores)], merge)
        assert [s.document.id for s in found] == ["a", "b"]
    [best, _] = merge_searches([search("r", 0.5, **scores)], "calibrated")
    assert best.score == 0.5


def test_unknown_merges_are_named() -> None:
    with pytest.raises(ConfigError, match="noisy-or"):
        check_merge("vote")
    check_merge("more", more=["more"])
