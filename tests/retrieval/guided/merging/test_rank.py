"""Merging searches: every value worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rulerag.errors import ConfigError
from rulerag.retrieval.guided.merging.control import make_merger
from rulerag.retrieval.guided.merging.hits import RuleSearch
from rulerag.retrieval.guided.merging.rank import union_of
from rulerag.types import Document, RuleHit

NAMES = "abcde"
DOCUMENTS = [Document(name, name) for name in NAMES]


def search(rule_id: str | None, weight: float, **scores: float) -> RuleSearch:
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    # A place without a document, as where one was left out, is no rank.
    rows = [-1, *[NAMES.index(name) for name, _ in ranked]]
    values = [0.0, *[float(score) for _, score in ranked]]
    return RuleSearch(rule_id, weight, np.array(rows, dtype=np.int64), np.array(values))


SEARCHES = [search("r1", 0.5, a=10, b=8, c=5), search("r2", 0.4, d=20, b=20, e=4)]
# Ranks: r1 a1 b2 c3; r2 d1 b2 e3 (d before b: ties keep the order of the search).


def merged(**options: bool) -> list[tuple[str, float]]:
    found = union_of(DOCUMENTS, SEARCHES, **options)
    assert [scored.rank for scored in found] == list(range(1, len(found) + 1))
    assert all(x.score >= y.score for x, y in pairwise(found))
    return [(scored.document.id, round(scored.score, 6)) for scored in found]


def test_by_rank_the_searches_take_turns_in_rule_order() -> None:
    assert [name for name, _ in merged()] == ["a", "d", "b", "c", "e"]
    assert dict(merged())["b"] == 0.5


def test_by_the_best_evidence() -> None:
    assert merged(by_rank=False) == [
        ("a", 0.5),  # 0.5 * 10 / 10
        ("d", 0.4),  # 0.4 * 20 / 20, best rank 1
        ("b", 0.4),  # max(0.5 * 8 / 10, 0.4 * 20 / 20), best rank 2
        ("c", 0.25),
        ("e", 0.08),
    ]


@pytest.mark.parametrize("by_rank", [True, False])
def test_one_search_keeps_its_order_and_every_hit_is_recorded(by_rank: bool) -> None:
    [alone, _] = SEARCHES
    assert [s.document.id for s in union_of(DOCUMENTS, [alone], by_rank=by_rank)] == ["a", "b", "c"]
    b = next(s for s in union_of(DOCUMENTS, SEARCHES, by_rank=by_rank) if s.document.id == "b")
    assert b.found_by == (RuleHit("r1", 2, 8), RuleHit("r2", 2, 20))
    assert union_of(DOCUMENTS, [], by_rank=by_rank) == []
    assert union_of(DOCUMENTS, [search("r", 1.0)], by_rank=by_rank) == []


@pytest.mark.parametrize(
    "scores", [{"a": -1.0, "b": -2.0}, {"a": 0.0, "b": -3.0}, {"a": 3, "b": -1}]
)
@pytest.mark.parametrize("by_rank", [True, False])
def test_negative_scores_keep_their_order(scores: dict[str, float], by_rank: bool) -> None:
    found = union_of(DOCUMENTS, [search("r", 0.5, **scores)], by_rank=by_rank)
    assert [s.document.id for s in found] == ["a", "b"]
    assert found[0].score == (1.0 if by_rank else 0.5)


def test_a_merge_that_is_not_there_names_one_that_is() -> None:
    with pytest.raises(ConfigError, match=r"key 'merge': .* did you mean 'learned'"):
        make_merger("learnt", DOCUMENTS, {})
