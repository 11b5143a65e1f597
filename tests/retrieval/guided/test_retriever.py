"""Rule-guided retrieval: laws, batches, provenance, fall-back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from rulerag.composition import names, register, registry
from rulerag.errors import ConfigError, RetrievalError
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import Retriever
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.guided.merging import Merger, RuleSearch, union_of
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.guided.settings import GuidedSettings
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument


def rule(body: str, confidence: float, *, head: str = "visit", inverse: bool = False) -> Rule:
    ends = ("?y", "?x") if inverse else ("?x", "?y")
    quality = RuleQuality(support=10, confidence=confidence)
    return Rule(Atom(head, "?x", "?y"), (Atom(body, *ends),), True, quality)


CALL, PRAISE, SELF = rule("call", 0.8), rule("praise", 0.4, inverse=True), rule("visit", 0.6)
BANK = RuleBank([CALL, PRAISE])
FACTS = [
    Fact("france", "call", "italy", 1),
    Fact("france", "call", "spain", 2),
    Fact("france", "visit", "china", 1),
    Fact("ghana", "praise", "france", 3),
    Fact("ghana", "praise", "india", 3),
    Fact("france", "call", "italy", 8),
    Fact("india", "visit", "ghana", 9),
]
# Forecasts: what is stated has no precedence.
QUERIES = [
    Query(
        "q1", "Time 7 what does france visit ?", "france", "visit", 7, ("italy",), prediction=True
    ),
    Query(
        "q2", "Time 7 what does ghana blame ?", "ghana", "blame", 7, ("france",), prediction=True
    ),
    Query("q3", "Time 9 what does india visit ?", "india", "visit", 9, ("ghana",), prediction=True),
]


def ids(results: Sequence[ScoredDocument]) -> list[str]:
    return [scored.document.id for scored in results]


@pytest.fixture(scope="module")
def documents(documents_of: Callable[[Sequence[Fact]], list[Document]]) -> list[Document]:
    return documents_of(FACTS)


@pytest.fixture(scope="module")
def bm25(documents: list[Document]) -> BM25Retriever:
    return BM25Retriever(documents, stopwords=["time"])


def guided(retriever: Any, rules: RuleBank = BANK, **options: Any) -> RuleGuidedRetriever:
    return RuleGuidedRetriever(retriever, HeadRelationSelector(rules), **options)


def test_it_fits_the_seam(bm25: BM25Retriever) -> None:
    assert isinstance(guided(bm25), Retriever)


@pytest.mark.parametrize("merge", ["rank", "evidence"])
@pytest.mark.parametrize("wrapped", ["bm25", "time-aware"])
def test_law_without_rules_it_is_the_wrapped_retriever(
    bm25: BM25Retriever, merge: str, wrapped: str
) -> None:
    inner = bm25 if wrapped == "bm25" else TimeAwareRetriever(bm25)
    for options in ({}, {"include_plain": True, "per_rule_k": 1}):
        retriever = guided(inner, RuleBank([]), merge=merge, **options)
        for top_k in (1, 3, 10):
            assert retriever.retrieve(QUERIES, top_k) == inner.retrieve(QUERIES, top_k)
            assert retriever.retrieve_union(QUERIES, top_k) == inner.retrieve(QUERIES, top_k)
    assert guided(inner, merge=merge).retrieve([], 3) == []


@pytest.mark.parametrize("compose", ["append", "substitute", "both"])
@pytest.mark.parametrize("include_plain", [False, True])
def test_law_the_list_is_the_start_of_the_union_of_its_searches(
    bm25: BM25Retriever, compose: str, include_plain: bool
) -> None:
    retriever = guided(bm25, compose=compose, include_plain=include_plain)
    for top_k in (1, 2, 4):
        lists, unions = (
            retriever.retrieve(QUERIES, top_k),
            retriever.retrieve_union(QUERIES, top_k),
        )
        for found, union in zip(lists, unions, strict=True):
            assert found == union[:top_k]
            assert [s.rank for s in union] == list(range(1, len(union) + 1))
            assert len(set(ids(union))) == len(union)
            assert all(a.score >= b.score for a, b in pairwise(union))
            assert all(hit.rank <= top_k for s in union for hit in s.found_by)
        searches = {hit.rule_id for s in unions[0] for hit in s.found_by}
        assert searches == {CALL.id, PRAISE.id} | ({None} if include_plain else set())


def test_each_document_names_the_rules_that_found_it(bm25: BM25Retriever) -> None:
    retriever = guided(bm25, compose="substitute", include_plain=True, per_rule_k=3)
    [union, plain, _] = retriever.retrieve_union(QUERIES, 10)
    call, praise, visit = (
        bm25.retrieve([Query("x", text)], 3)[0]
        for text in ("what does france call ?", "what praise france ?", "what does france visit ?")
    )
    expected: dict[str, list[RuleHit]] = {}
    grounds = {CALL.id: {"d0", "d1", "d5"}, PRAISE.id: {"d3"}}
    for rule_id, found in ((None, visit), (CALL.id, call), (PRAISE.id, praise)):
        for scored in found:
            atom = 0 if scored.document.id in grounds.get(rule_id or "", ()) else None
            hit = RuleHit(rule_id, scored.rank, scored.score, atom)
            expected.setdefault(scored.document.id, []).append(hit)
    assert {s.document.id: list(s.found_by) for s in union} == expected
    by_id = {s.document.id: s for s in union}
    assert by_id["d0"].rule_ids[0] == CALL.id
    assert by_id["d3"].found_by[-1].rule_id == PRAISE.id
    # The query without rules fell back to its own text.
    assert plain == bm25.retrieve([QUERIES[1]], 10)[0]
    assert {hit.rule_id for s in plain for hit in s.found_by} == {None}


def test_all_pairs_go_in_one_batch_and_equal_ones_once(listed: Any) -> None:
    inner = listed({})
    retriever = guided(inner, RuleBank([CALL, SELF]), compose="substitute", include_plain=True)
    again = replace(QUERIES[0], id="q1b")
    retriever.retrieve([QUERIES[0], QUERIES[2], again], 5)
    [batch] = inner.batches
    # The rule visit => visit asks the query's own text: the plain search serves it too.
    assert [query.text for query in batch] == [
        "Time 7 what does france visit ?",
        "Time 7 what does france call ?",
        "Time 9 what does india visit ?",
        "Time 9 what does india call ?",
    ]
    assert batch[1].id == f"q1|{CALL.id}"
    pair = batch[1]
    assert (pair.subject, pair.relation, pair.timestamp) == ("france", "visit", 7)


def test_one_search_for_several_rules_is_recorded_for_each(bm25: BM25Retriever) -> None:
    retriever = guided(bm25, RuleBank([CALL, SELF]), compose=lambda query, _: query.text)
    [found] = retriever.retrieve(QUERIES[:1], 1)
    [plain] = bm25.retrieve(QUERIES[:1], 1)
    score = plain[0].score
    assert plain[0].document.id == "d2"  # states a visit, no call
    assert found[0].found_by == (RuleHit(CALL.id, 1, score), RuleHit(SELF.id, 1, score, 0))


def test_queries_with_the_same_text_and_another_time_are_not_mixed_up(
    bm25: BM25Retriever,
) -> None:
    text = "what does france visit ?"
    queries = [Query(f"q{t}", text, "france", "visit", t, prediction=True) for t in (2, 9, 1)]
    retriever = guided(TimeAwareRetriever(bm25), compose="substitute", per_rule_k=2)
    found = [ids(r) for r in retriever.retrieve(queries, 2)]
    assert found[0][0] == "d0"
    assert found[1][0] == "d5"
    assert "d5" not in found[0] + found[2]
    assert "d0" not in found[2]


def test_time_is_kept_by_every_merge(documents: list[Document], bm25: BM25Retriever) -> None:
    times = {document.id: document.timestamp for document in documents}
    for merge in ("rank", "evidence"):
        retriever = guided(TimeAwareRetriever(bm25), merge=merge, include_plain=True)
        for query, found in zip(QUERIES, retriever.retrieve(QUERIES, 10), strict=True):
            assert found
            assert all((times[s.document.id] or 0) < (query.timestamp or 0) for s in found)


def test_evidence_gives_each_pair_of_entities_one_place_first(bm25: BM25Retriever) -> None:
    retriever = guided(bm25, compose="substitute", merge="evidence", power=2.0)
    [found] = retriever.retrieve(QUERIES[:1], 3)
    pairs = [{f.subject, f.object} for s in found for f in s.document.facts]
    assert pairs[0] == {"france", "italy"}  # told twice
    assert all(a != b for i, a in enumerate(pairs) for b in pairs[:i])
    assert found[0].rule_ids == (CALL.id,)
    with pytest.raises(ConfigError, match="rows"):
        guided(retriever, merge="evidence")


def test_the_fall_back_is_told_once(bm25: BM25Retriever, caplog: pytest.LogCaptureFixture) -> None:
    retriever = guided(bm25)
    with caplog.at_level(logging.INFO, logger="rulerag.retrieval.guided.retriever"):
        for _ in range(3):
            retriever.retrieve(QUERIES, 2)
    assert [record.getMessage() for record in caplog.records] == [
        "1 of 3 queries have no guiding rule and are searched as they are"
    ]


def test_a_composition_may_pass_over_a_rule(bm25: BM25Retriever) -> None:
    def only_calls(query: Query, rule: Rule) -> list[str]:
        return [query.text] if rule == CALL else []

    found = guided(bm25, compose=only_calls).retrieve(QUERIES[:1], 2)
    assert {hit.rule_id for s in found[0] for hit in s.found_by} == {CALL.id}
    for merge in ("rank", "evidence"):
        nothing = guided(bm25, RuleBank([PRAISE]), compose=only_calls, merge=merge)
        assert nothing.retrieve(QUERIES, 3) == bm25.retrieve(QUERIES, 3)


def test_it_can_wrap_itself(bm25: BM25Retriever) -> None:
    inner = guided(bm25)
    assert guided(inner, RuleBank([])).retrieve(QUERIES, 3) == inner.retrieve(QUERIES, 3)


def test_a_foreign_retriever_without_hits_gets_them(bm25: BM25Retriever) -> None:
    class Bare:
        fingerprint = "bare"

        def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
            found = bm25.retrieve(queries, top_k)
            return [[ScoredDocument(s.document, s.score, s.rank) for s in r] for r in found]

    assert guided(Bare()).retrieve(QUERIES, 3) == guided(bm25).retrieve(QUERIES, 3)


def test_labels_name_relations_as_the_text_does(listed: Any) -> None:
    inner = listed({})
    query = Query("q", "whom does Q1 visit?", "Q1", "visit", prediction=True)
    labels = {"visit": "visit", "call": "phone", "praise": "speak well of"}
    guided(inner, compose="substitute", rule_label=labels.__getitem__).retrieve([query], 3)
    assert [pair.text for pair in inner.batches[0]] == [
        "whom does Q1 phone?",
        "whom speak well of Q1?",
    ]


def test_rules_are_selected_once_for_retrieval_and_reading(bm25: BM25Retriever) -> None:
    class Counted(HeadRelationSelector):
        batches = 0

        def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
            self.batches += 1
            return super().select(queries)

    selector = Counted(BANK)
    retriever = RuleGuidedRetriever(bm25, selector, merge="evidence")
    pipeline = RuleRAGPipeline(retriever, SymbolicReader(), selector=selector, top_k=3)
    answers = pipeline.answer(QUERIES)
    assert selector.batches == 1
    assert [answer.documents for answer in answers] == list(
        map(tuple, retriever.retrieve(QUERIES, 3))
    )
    assert [list(answer.rules) for answer in answers] == HeadRelationSelector(BANK).select(QUERIES)
    # Another selector of the reader's is its own affair.
    other = Counted(RuleBank([CALL]))
    RuleRAGPipeline(retriever, SymbolicReader(), selector=other).answer(QUERIES)
    assert other.batches == 1 and selector.batches == 4


def test_a_selector_must_answer_for_every_query(bm25: BM25Retriever) -> None:
    class Short:
        def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
            return [[]]

    with pytest.raises(RetrievalError, match="1 lists of rules for 3 queries"):
        RuleGuidedRetriever(bm25, Short()).retrieve(QUERIES, 3)


def test_the_fingerprint_names_every_setting(bm25: BM25Retriever) -> None:
    def own(query: Query, rule: Rule) -> str:
        return query.text + rule.id

    settings: list[dict[str, Any]] = [
        {},
        {"rules": RuleBank([CALL])},
        {"compose": "substitute"},
        {"compose": own},
        {"merge": "evidence"},
        {"per_rule_k": 10},
        {"include_plain": True},
        {"plain_weight": 0.5},
    ]
    prints = {guided(bm25, **options).fingerprint for options in settings}
    prints.add(guided(TimeAwareRetriever(bm25)).fingerprint)
    assert len(prints) == len(settings) + 1
    assert guided(bm25).fingerprint in prints


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"compose": "prepend"}, "compose"),
        ({"merge": "vote"}, "merge"),
        ({"per_rule_k": 0}, "per_rule_k"),
        ({"plain_weight": 2}, "plain_weight"),
    ],
)
def test_options_out_of_range(bm25: BM25Retriever, options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        guided(bm25, **options)
    for merge in ("rank", "evidence"):
        with pytest.raises(ConfigError, match="top_k"):
            guided(bm25, merge=merge).retrieve(QUERIES, 0)


def test_settings_come_together_or_one_by_one(bm25: BM25Retriever) -> None:
    together = GuidedSettings(merge="evidence", pool=300)
    one_by_one = guided(bm25, merge="evidence", pool=300)
    assert one_by_one.settings == together
    assert guided(bm25, settings=together).fingerprint == one_by_one.fingerprint
    assert guided(bm25, settings=together, pool=7).settings.pool == 7
    with pytest.raises(ConfigError, match="key 'pol': unknown key — did you mean 'pool'"):
        guided(bm25, pol=300)
    for key, value in (("pool", 0), ("power", 0.0), ("plain_weight", 1.5), ("max_hops", 0)):
        with pytest.raises(ConfigError, match=f"key '{key}': {value} is out of range"):
            guided(bm25, **{key: value})


@pytest.fixture
def backwards() -> Iterator[str]:
    """A way to merge of one's own: the union, last first."""

    class Backwards(Merger):
        deep = False

        def __init__(self, documents: Sequence[Document], *, power: float = 1.0) -> None:
            super().__init__(documents)
            self.power = power

        def merge(
            self, query: Query, searches: Sequence[RuleSearch], top_k: int
        ) -> list[ScoredDocument]:
            found = reversed(union_of(self.documents, searches))
            return [replace(one, rank=n, score=self.power) for n, one in enumerate(found, 1)]

    register("merge", "backwards")(Backwards)
    yield "backwards"
    del registry._REGISTERED["merge", "backwards"]


def test_a_way_to_merge_of_ones_own_is_found_by_name(bm25: BM25Retriever, backwards: str) -> None:
    plain, other = guided(bm25), guided(bm25, merge=backwards, power=3.0)
    [union], [found] = plain.retrieve(QUERIES[:1], 9), other.retrieve(QUERIES[:1], 9)
    assert ids(found) == ids(union)[::-1]
    assert {one.score for one in found} == {3.0}  # it takes the settings that it names
    assert backwards in names("merge")
    with pytest.raises(ConfigError, match="no merge is called 'backward' — did you mean 'backwa"):
        guided(bm25, merge="backward")
