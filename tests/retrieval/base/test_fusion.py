"""Fusion: values worked out by hand, laws, and retrievers fused over one corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rulerag.errors import ConfigError, FingerprintError
from rulerag.retrieval.base import FusedRetriever, TimeAwareRetriever, fuse
from rulerag.retrieval.base.fusion import METHODS
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument
from tests.retrieval.conftest import ids

LEXICAL = [("a", 9.0), ("b", 5.0), ("c", 1.0)]
DENSE = [("b", 0.9), ("d", 0.8), ("a", 0.5)]

scores = st.lists(st.integers(-9, 9), max_size=8).map(lambda xs: sorted(xs, reverse=True))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"b": 1 / 62 + 1 / 61, "a": 1 / 61 + 1 / 63, "d": 1 / 62, "c": 1 / 63}),
        (
            {"rank_constant": 0, "weights": [1, 2]},
            {"b": 1 / 2 + 2, "a": 1 + 2 / 3, "d": 1.0, "c": 1 / 3},
        ),
        # lexical: a 1, b 1/2, c 0; dense: b 1, d 3/4, a 0
        ({"method": "weighted"}, {"b": 1.5, "a": 1.0, "d": 0.75, "c": 0.0}),
        (
            {"method": "weighted", "weights": [0.9, 0.1]},
            {"a": 0.9, "b": 0.55, "d": 0.075, "c": 0.0},
        ),
    ],
)
def test_values_by_hand(options: dict[str, Any], expected: dict[str, float]) -> None:
    found = fuse([LEXICAL, DENSE], **options)
    assert [item for item, _ in found] == list(expected)
    assert dict(found) == pytest.approx(expected)


def test_equal_values_go_by_best_rank_then_by_list() -> None:
    one, two = [("a", 1.0), ("b", 0.5)], [("c", 1.0), ("b", 0.5), ("d", 0.0)]
    assert [item for item, _ in fuse([one, two], "weighted")] == ["a", "c", "b", "d"]
    crossed = fuse([[("a", 2.0), ("b", 1.0)], [("b", 2.0), ("a", 1.0)]])
    assert [item for item, _ in crossed] == ["a", "b"]
    assert crossed[0][1] == crossed[1][1]
    assert fuse([[], []]) == fuse([], "weighted") == []


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(one=scores, two=scores)
def test_laws(method: str, one: list[int], two: list[int]) -> None:
    first = [(name, float(s)) for name, s in zip("abcdefgh", one, strict=False)]
    second = [(name, float(s)) for name, s in zip("hgfaxyzb", two, strict=False)]
    assert [item for item, _ in fuse([first], method)] == [item for item, _ in first]
    found = fuse([first, second], method)
    assert sorted(item for item, _ in found) == sorted({i for li in (first, second) for i, _ in li})
    assert all(a >= b for (_, a), (_, b) in pairwise(found))
    # To be found by one more list never hurts.
    others = [(name.upper(), score) for name, score in second]
    alone = dict(fuse([first, others], method))
    for place in range(min(len(first), len(others))):
        item = first[place][0]
        joined = [(item if i == place else name, s) for i, (name, s) in enumerate(others)]
        assert dict(fuse([first, joined], method))[item] >= alone[item] - 1e-12


# --- retrievers --------------------------------------------------------------------------------

DOCUMENTS = [
    Document("a", "red green", (Fact("red", "is", "green", 1),)),
    Document("b", "green blue", (Fact("green", "is", "blue", 2),)),
    Document("c", "blue blue red", (Fact("blue", "is", "red", 3),)),
    Document("d", "grey", (Fact("grey", "is", "grey", 4),)),
]
QUERY = Query("q", "green")


class ByRule:
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
    bm25 = BM25Retriever(DOCUMENTS)
    fused = FusedRetriever([bm25, ByRule("dbc")], rank_constant=0)
    [found] = fused.retrieve([QUERY], 3)  # BM25: a, b; rule: d, b, c
    assert ids(found) == ["a", "d", "b"]
    assert [hit.rule_id for hit in found[2].found_by] == [None, "r1"]
    [union] = fused.retrieve_union([QUERY], 2)
    assert set(ids(union)) == {"a", "b", "d"}
    [timed] = TimeAwareRetriever(fused).retrieve([Query("q", "green", timestamp=3)], 4)
    assert sorted(ids(timed)) == ["a", "b"]
    for method in METHODS:
        [alone] = FusedRetriever([bm25], method=method, depth=2).retrieve([QUERY], 4)
        [plain] = bm25.retrieve([QUERY], 4)
        assert [(s.document, s.found_by) for s in alone] == [
            (s.document, s.found_by) for s in plain
        ]


def test_depth_parts_of_the_corpus_and_other_corpora() -> None:
    shallow = FusedRetriever([ByRule("abcd"), ByRule("dcba")], depth=1)
    assert ids(shallow.retrieve([QUERY], 1)[0]) == ["a"]
    assert len(shallow.retrieve([QUERY], 4)[0]) == 4
    part = BM25Retriever(DOCUMENTS[::-1][:3])
    fused = FusedRetriever([part, BM25Retriever(DOCUMENTS)])
    assert fused.documents == tuple(DOCUMENTS)
    assert set(ids(fused.retrieve([QUERY], 3)[0])) == {"a", "b"}
    with pytest.raises(FingerprintError, match="different corpora"):
        FusedRetriever([part, BM25Retriever([replace(DOCUMENTS[1], text="another text")])])
    with pytest.raises(ConfigError, match="nothing to fuse"):
        FusedRetriever([])
