"""Settings of every retriever: what is out of range is named, what changes results has a name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.protocols import Retriever, RuleSelector
from rulerag.retrieval.base import FusedRetriever, RowSearcher, TimeAwareRetriever, fuse
from rulerag.retrieval.guided import HeadRelationSelector, RuleGuidedRetriever
from rulerag.retrieval.guided.merging import DiversifiedRetriever, make_merger
from rulerag.retrieval.guided.query_text import Composition
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.retrieval.lexical.tokenization import Tokenizer
from rulerag.retrieval.symbolic import SymbolicRetriever
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query
from tests.retrieval.conftest import Listed

QUERY = Query("q", "what does ann visit ?", "ann", "visit")
FACTS = [Fact("ann", "call", "bob", 1), Fact("bob", "visit", "cid", 2)]
DOCUMENTS = [Document(f"d{i}", " ".join(fact[:3]), (fact,)) for i, fact in enumerate(FACTS)]


def rule(body: str, support: int, confidence: float) -> Rule:
    quality = RuleQuality(support=support, confidence=confidence)
    return Rule(Atom("visit", "?x", "?y"), (Atom(body, "?x", "?y"),), quality=quality)


BANK = RuleBank([rule("call", 5, 0.5), rule("praise", 2, 0.9)])
BM25, FIXED = BM25Retriever(DOCUMENTS), Listed({})
SELECTOR = HeadRelationSelector(BANK)


def bm25(**options: Any) -> BM25Retriever:
    return BM25Retriever(**{"documents": DOCUMENTS, **options})


def aware(**options: Any) -> TimeAwareRetriever:
    return TimeAwareRetriever(BM25, **options)


def fused(**options: Any) -> FusedRetriever:
    return FusedRetriever([BM25, FIXED], **options)


def guided(retriever: Any = BM25, **options: Any) -> RuleGuidedRetriever:
    return RuleGuidedRetriever(retriever, options.pop("selector", SELECTOR), **options)


def pooled(retriever: Any = BM25, **options: Any) -> DiversifiedRetriever:
    return DiversifiedRetriever(retriever, **options)


def symbolic(**options: Any) -> SymbolicRetriever:
    return SymbolicRetriever(**{"documents": DOCUMENTS, "selector": SELECTOR, **options})


def select(**options: Any) -> HeadRelationSelector:
    return HeadRelationSelector(**{"bank": BANK, **options})


MAKERS: list[Callable[..., Any]] = [bm25, aware, fused, guided, pooled, symbolic]


@pytest.mark.parametrize("make", MAKERS)
def test_every_retriever_fits_the_seam_and_wants_a_document(make: Callable[..., Any]) -> None:
    retriever = make()
    assert isinstance(retriever, Retriever)
    assert retriever.retrieve([], 5) == []
    for top_k in (0, -1, True, 2.5):
        with pytest.raises(ConfigError, match="top_k"):
            retriever.retrieve([QUERY], top_k)
    assert isinstance(BM25, RowSearcher) and isinstance(SELECTOR, RuleSelector)


OUT_OF_RANGE: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (bm25, {"k1": -1}, "k1"),
    (bm25, {"b": 1.5}, "b"),
    (bm25, {"threads": 0}, "threads"),
    (bm25, {"dates": "no"}, "dates"),
    (Tokenizer, {"dates": "keep"}, "dates"),
    (Tokenizer, {"stopwords": "fr"}, "stopwords"),
    (Tokenizer, {"min_length": 0}, "min_length"),
    (aware, {"pool": 0}, "pool"),
    (aware, {"pool": 9, "max_pool": 8}, "max_pool"),
    *((fused, {"weights": weights}, "weights") for weights in ([1], [1, -1], [0, 0])),
    (fused, {"weights": [1, math.nan]}, "weights"),
    (fused, {"method": "wieghted"}, "method': unknown method 'wieghted' — did you mean 'weighted"),
    (fused, {"rank_constant": -1}, "rank_constant"),
    (fused, {"depth": 0}, "depth"),
    (lambda **o: fuse([[("a", 1.0)]], **o), {"method": "borda"}, "method"),
    (guided, {"compose": "prepend"}, "compose"),
    (guided, {"merge": "vote"}, "merge"),
    (guided, {"per_rule_k": 0}, "per_rule_k"),
    (guided, {"pool": 0}, "pool': 0 is out of range"),
    (guided, {"power": 0.0}, "power"),
    (guided, {"plain_weight": 1.5}, "plain_weight"),
    (guided, {"max_hops": 0}, "max_hops"),
    (guided, {"whole_chains": -1}, "whole_chains"),
    (guided, {"beam_width": -1}, "beam_width"),
    (guided, {"bridge_weight": 1.5}, "bridge_weight"),
    (guided, {"pol": 300}, "pol': unknown key — did you mean 'pool'"),
    (guided, {"merge": "learned"}, "weights': learned merging and learned weights go together"),
    (guided, {"retriever": FIXED, "merge": "evidence"}, "merge': Listed cannot answer in rows"),
    (guided, {"retriever": FIXED, "skip_stated": True}, "skip_stated"),
    (pooled, {"pool": 0}, "pool"),
    (pooled, {"power": 0}, "power"),
    (pooled, {"retriever": aware}, "pooled': function cannot answer in rows"),
    (
        pooled,
        {"retriever": TimeAwareRetriever(TimeAwareRetriever(FIXED))},
        "pooled': TimeAwareRetriever cannot answer in rows",
    ),
    (symbolic, {"whole_chains": -1}, "whole_chains"),
    (symbolic, {"max_rows": 0}, "max_rows"),
    (select, {"max_rules": -1}, "max_rules"),
    (select, {"min_confidence": 2}, "min_confidence"),
    (select, {"min_support": -1}, "min_support"),
    (select, {"rank_by": "luck"}, "rank_by"),
    (Composition, {"compose": "prepend"}, "compose': .* did you mean 'append'"),
    (
        lambda **o: make_merger(o["merge"], DOCUMENTS, {}),
        {"merge": "learnt"},
        "merge': .* did you mean 'learned'",
    ),
]


@pytest.mark.parametrize(("make", "options", "message"), OUT_OF_RANGE)
def test_what_is_out_of_range_is_named(
    make: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"key '{message}"):
        make(**options)


def own(query: Query, rule: Rule) -> str:
    return query.text + rule.id


TOLD_APART: list[tuple[Callable[..., Any], Sequence[dict[str, Any]]]] = [
    (
        bm25,
        [
            {"documents": DOCUMENTS[::-1]},
            {"documents": [Document("d9", DOCUMENTS[0].text), *DOCUMENTS[1:]]},
            {"k1": 1.2},
            {"b": 0.4},
            {"dates": "drop"},
            {"stopwords": ["red"]},
            {"min_token_length": 2},
        ],
    ),
    (aware, [{"strict": False}, {"pool": 5}, {"max_pool": 400}, {"distinct_facts": True}]),
    (fused, [{"rank_constant": 1}, {"weights": [1, 2]}, {"method": "weighted"}, {"depth": 7}]),
    (
        guided,
        [
            {"selector": HeadRelationSelector(RuleBank([]))},
            {"retriever": TimeAwareRetriever(BM25)},
            {"compose": "substitute"},
            {"compose": own},
            {"merge": "evidence"},
            {"per_rule_k": 10},
            {"include_plain": True},
            {"plain_weight": 0.5},
            {"beam_width": 0},
        ],
    ),
    (pooled, [{"pool": 5}, {"power": 2.0}]),
    (
        symbolic,
        [
            {"documents": [Document("d0", "other words", (FACTS[0],)), DOCUMENTS[1]]},
            {"selector": HeadRelationSelector(RuleBank([]))},
            {"whole_chains": 0},
            {"skip_stated": True},
        ],
    ),
    (
        select,
        [{"max_rules": 2}, {"min_confidence": 0.6}, {"min_support": 4}, {"rank_by": "support"}],
    ),
]


@pytest.mark.parametrize(("make", "changes"), TOLD_APART)
def test_the_fingerprint_names_what_changes_results(
    make: Callable[..., Any], changes: Sequence[dict[str, Any]]
) -> None:
    made = [make(**options).fingerprint for options in ({}, {}, *changes)]
    assert made[0] == made[1]
    assert len(set(made)) == len(changes) + 1
    assert bm25(threads=1).fingerprint == bm25(threads=2).fingerprint


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BM25Retriever([]), EmptyDataError, "no documents"),
        (lambda: BM25Retriever([Document("d", "the ???")]), EmptyDataError, "not one word"),
        (lambda: BM25Retriever([DOCUMENTS[0]] * 2), DataFormatError, "'d0'"),
        (lambda: symbolic(documents=[Document("d", "text")]), EmptyDataError, "states a fact"),
    ],
)
def test_corpora_that_cannot_be_searched(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()
