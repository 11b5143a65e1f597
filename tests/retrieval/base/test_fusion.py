"""Fusion: values worked out by hand, laws, and retrievers fused over one corpus."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.errors import ConfigError, FingerprintError
from rulerag.protocols import Retriever
from rulerag.retrieval.base.fusion import METHODS, FusedRetriever, fuse
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

LEXICAL = [("a", 9.0), ("b", 5.0), ("c", 1.0)]
DENSE = [("b", 0.9), ("d", 0.8), ("a", 0.5)]

scores = st.lists(st.integers(-9, 9), max_size=8).map(lambda xs: sorted(xs, reverse=True))


def ranked(values: Sequence[int], names: str) -> list[tuple[str, float]]:
    return [(name, float(value)) for name, value in zip(names, values, strict=False)]


def expected(pairs: list[tuple[str, float]]) -> Any:
    return [(name, pytest.approx(value)) for name, value in pairs]


# --- by hand -----------------------------------------------------------------------------------


def test_reciprocal_ranks() -> None:
    assert fuse([LEXICAL, DENSE]) == expected(
        [
            ("b", 1 / 62 + 1 / 61),
            ("a", 1 / 61 + 1 / 63),
            ("d", 1 / 62),
            ("c", 1 / 63),
        ]
    )
    assert fuse([LEXICAL, DENSE], rank_constant=0, weights=[1, 2]) == expected(
        [("b", 1 / 2 + 2), ("a", 1 + 2 / 3), ("d", 1.0), ("c", 1 / 3)]
    )


def test_weighted_sums_of_scores_between_zero_and_one() -> None:
    # lexical: a 1, b 1/2, c 0; dense: b 1, d 3/4, a 0
    assert fuse([LEXICAL, DENSE], "weighted") == expected(
        [("b", 1.5), ("a", 1.0), ("d", 0.75), ("c", 0.0)]
    )
    assert fuse([LEXICAL, DENSE], "weighted", weights=[0.9, 0.1]) == expected(
        [("a", 0.9), ("b", 0.55), ("d", 0.075), ("c", 0.0)]
    )


def test_equal_values_go_by_best_rank_then_by_list() -> None:
    one, two = [("a", 1.0), ("b", 0.5)], [("c", 1.0), ("b", 0.5), ("d", 0.0)]
    assert [item for item, _ in fuse([one, two], "weighted")] == ["a", "c", "b", "d"]
    same = [("x", 2.0), ("y", 2.0), ("z", 2.0)]
    assert fuse([same], "weighted") == [("x", 1.0), ("y", 1.0), ("z", 1.0)]
    crossed = fuse([[("a", 2.0), ("b", 1.0)], [("b", 2.0), ("a", 1.0)]])
    assert [item for item, _ in crossed] == ["a", "b"]
    assert crossed[0][1] == crossed[1][1]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_fuses_to_nothing(method: str) -> None:
    assert fuse([], method) == fuse([[], []], method) == []


# --- laws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@given(values=scores)
def test_one_list_keeps_its_order(method: str, values: list[int]) -> None:
    one = ranked(values, "abcdefgh")
    found = fuse([one], method)
    assert [item for item, _ in found] == [item for item, _ in one]
    assert all(a >= b for (_, a), (_, b) in pairwise(found))


@pytest.mark.parametrize("method", METHODS)
@given(one=scores, two=scores)
def test_every_item_stands_once_best_first_and_names_do_not_matter(
    method: str, one: list[int], two: list[int]
) -> None:
    lists = [ranked(one, "abcdefgh"), ranked(two, "hgfaxyzb")]
    found = fuse(lists, method)
    assert sorted(item for item, _ in found) == sorted({item for li in lists for item, _ in li})
    assert all(a >= b for (_, a), (_, b) in pairwise(found))
    renamed = fuse([[(ord(i), s) for i, s in li] for li in lists], method)
    assert [(chr(item), value) for item, value in renamed] == found


@pytest.mark.parametrize("method", METHODS)
@given(one=scores, two=scores)
def test_to_be_found_by_one_more_list_never_hurts(
    method: str, one: list[int], two: list[int]
) -> None:
    first, second = ranked(one, "abcdefgh"), ranked(two, "stuvwxyz")
    alone = dict(fuse([first, second], method))
    for place in range(min(len(first), len(second))):
        item = first[place][0]
        joined = [(item if i == place else name, s) for i, (name, s) in enumerate(second)]
        both = dict(fuse([first, joined], method))
        assert both[item] >= alone[item] - 1e-12


# --- retrievers --------------------------------------------------------------------------------

DOCUMENTS = [
    Document("a", "red green", (Fact("red", "is", "green", 1),)),
    Document("b", "green blue", (Fact("green", "is", "blue", 2),)),
    Document("c", "blue blue red", (Fact("blue", "is", "red", 3),)),
    Document("d", "grey", (Fact("grey", "is", "grey", 4),)),
]
QUERY = Query("q", "green")


class Rule:
    """A retriever of fixed results that name the rule that led to them."""

    fingerprint = "rule"

    def __init__(self, names: str) -> None:
        by_id = {document.id: document for document in DOCUMENTS}
        self.results = [
            ScoredDocument(by_id[name], 10.0 - rank, rank, (RuleHit("r1", rank, 10.0 - rank),))
            for rank, name in enumerate(names, 1)
        ]

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        return [self.results[:top_k] for _ in queries]


def test_retrievers_fuse_and_keep_every_hit() -> None:
    fused = FusedRetriever([BM25Retriever(DOCUMENTS), Rule("dbc")], rank_constant=0)
    assert isinstance(fused, Retriever)
    [found] = fused.retrieve([QUERY], 3)  # BM25: a, b; rule: d, b, c
    assert [(s.document.id, s.score, s.rank) for s in found] == [
        ("a", 1.0, 1),
        ("d", 1.0, 2),
        ("b", 1.0, 3),
    ]
    assert [hit.rule_id for hit in found[2].found_by] == [None, "r1"]
    assert found[1].rule_ids == ("r1",)


def test_time_aware_retrieval_takes_it() -> None:
    fused = FusedRetriever([BM25Retriever(DOCUMENTS), Rule("dbc")])
    [found] = TimeAwareRetriever(fused).retrieve([Query("q", "green", timestamp=3)], 4)
    assert sorted(s.document.id for s in found) == ["a", "b"]
    assert fused.retrieve([], 2) == []


def test_fusing_one_retriever_gives_its_list() -> None:
    alone = BM25Retriever(DOCUMENTS)
    for method in METHODS:
        fused = FusedRetriever([alone], method=method, depth=2)
        [found] = fused.retrieve([Query("q", "blue red green")], 4)
        [plain] = alone.retrieve([Query("q", "blue red green")], 4)
        assert [s.document for s in found] == [s.document for s in plain]
        assert [s.found_by for s in found] == [s.found_by for s in plain]


def test_the_depth_is_what_each_retriever_is_asked_for() -> None:
    shallow = FusedRetriever([Rule("abcd"), Rule("dcba")], depth=1)
    deep = FusedRetriever([Rule("abcd"), Rule("dcba")], depth=4)
    assert [s.document.id for s in shallow.retrieve([QUERY], 1)[0]] == ["a"]
    assert len(deep.retrieve([QUERY], 4)[0]) == 4
    assert len(shallow.retrieve([QUERY], 4)[0]) == 4


def test_the_fingerprint_names_what_changes_results() -> None:
    bm25 = BM25Retriever(DOCUMENTS)
    fused = [
        FusedRetriever([bm25, Rule("a")]),
        FusedRetriever([Rule("a"), bm25]),
        FusedRetriever([bm25, Rule("a")], rank_constant=1),
        FusedRetriever([bm25, Rule("a")], weights=[1, 2]),
        FusedRetriever([bm25, Rule("a")], method="weighted"),
        FusedRetriever([bm25, Rule("a")], depth=7),
    ]
    assert len({f.fingerprint for f in fused}) == len(fused)
    unread = FusedRetriever([bm25, Rule("a")], method="weighted", rank_constant=1)
    assert unread.fingerprint == fused[4].fingerprint


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"method": "borda"}, "method"),
        ({"rank_constant": -1}, "rank_constant"),
        ({"weights": [1]}, "weights"),
        ({"weights": [1, -1]}, "weights"),
        ({"weights": [0, 0]}, "weights"),
        ({"weights": [1, math.nan]}, "weights"),
        ({"depth": 0}, "depth"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"key '{key}'"):
        FusedRetriever([Rule("a"), Rule("b")], **options)
    if key != "depth":
        with pytest.raises(ConfigError, match=f"key '{key}'"):
            fuse([LEXICAL, DENSE], **options)


def test_retrievers_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="nothing to fuse"):
        FusedRetriever([])
    with pytest.raises(FingerprintError, match="different corpora"):
        other = replace(DOCUMENTS[1], text="another text")
        FusedRetriever([BM25Retriever(DOCUMENTS), BM25Retriever([DOCUMENTS[0], other])])
    with pytest.raises(ConfigError, match="key 'method': unknown method 'wieghted' — did you"):
        FusedRetriever([Rule("a")], method="wieghted")
    with pytest.raises(ConfigError, match="top_k"):
        FusedRetriever([Rule("a")]).retrieve([QUERY], 0)


def test_a_part_of_the_corpus_is_fused_with_the_whole() -> None:
    whole, part = BM25Retriever(DOCUMENTS), BM25Retriever(DOCUMENTS[::-1][:3])
    fused = FusedRetriever([part, whole])
    assert fused.documents == tuple(DOCUMENTS)
    (found,) = fused.retrieve([QUERY], 3)
    assert {s.document.id for s in found} == {"a", "b"}


def test_the_union_holds_what_every_retriever_gives() -> None:
    one, two = Rule("a"), BM25Retriever(DOCUMENTS)
    fused = FusedRetriever([one, two])
    (union,) = fused.retrieve_union([QUERY], 2)
    each = {s.document.id for r in (one, two) for s in r.retrieve([QUERY], 2)[0]}
    assert {s.document.id for s in union} == each
    assert [s.rank for s in union] == list(range(1, len(union) + 1))
    with pytest.raises(ConfigError, match="top_k"):
        fused.retrieve_union([QUERY], 0)
