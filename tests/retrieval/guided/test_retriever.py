"""Rule-guided retrieval: laws, batches, provenance, fall-back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rulerag.errors import RetrievalError
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.pipeline import RuleRAGPipeline
from rulerag.retrieval.base import TimeAwareRetriever
from rulerag.retrieval.guided import GuidedSettings, HeadRelationSelector, RuleGuidedRetriever
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument
from tests.retrieval.conftest import Listed, ids


def rule(body: str, confidence: float, *, inverse: bool = False) -> Rule:
    ends = ("?y", "?x") if inverse else ("?x", "?y")
    quality = RuleQuality(support=10, confidence=confidence)
    return Rule(Atom("visit", "?x", "?y"), (Atom(body, *ends),), True, quality)


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


def asked(name: str, time: int, subject: str, relation: str = "visit") -> Query:
    text = f"Time {time} what does {subject} {relation} ?"
    # Forecasts: what is stated has no precedence.
    return Query(name, text, subject, relation, time, prediction=True)


QUERIES = [asked("q1", 7, "france"), asked("q2", 7, "ghana", "blame"), asked("q3", 9, "india")]


@pytest.fixture(scope="module")
def bm25(documents_of: Callable[[Sequence[Fact]], list[Document]]) -> BM25Retriever:
    return BM25Retriever(documents_of(FACTS), stopwords=["time"])


def guided(retriever: Any, rules: RuleBank = BANK, **options: Any) -> RuleGuidedRetriever:
    return RuleGuidedRetriever(retriever, HeadRelationSelector(rules), **options)


@pytest.mark.parametrize("merge", ["rank", "evidence"])
def test_law_without_rules_it_is_the_wrapped_retriever(bm25: BM25Retriever, merge: str) -> None:
    for inner in (bm25, TimeAwareRetriever(bm25)):
        retriever = guided(inner, RuleBank([]), merge=merge, include_plain=True, per_rule_k=1)
        for top_k in (1, 10):
            assert retriever.retrieve(QUERIES, top_k) == inner.retrieve(QUERIES, top_k)
            assert retriever.retrieve_union(QUERIES, top_k) == inner.retrieve(QUERIES, top_k)
    itself = guided(bm25)
    assert guided(itself, RuleBank([])).retrieve(QUERIES, 3) == itself.retrieve(QUERIES, 3)


@pytest.mark.parametrize("compose", ["append", "substitute", "both"])
@pytest.mark.parametrize("include_plain", [False, True])
def test_law_the_list_is_the_start_of_the_union_of_its_searches(
    bm25: BM25Retriever, compose: str, include_plain: bool
) -> None:
    retriever = guided(bm25, compose=compose, include_plain=include_plain)
    for top_k in (1, 2, 4):
        lists = retriever.retrieve(QUERIES, top_k)
        unions = retriever.retrieve_union(QUERIES, top_k)
        for found, union in zip(lists, unions, strict=True):
            assert found == union[:top_k]
            assert ids(union)
            assert all(hit.rank <= top_k for s in union for hit in s.found_by)
        searches = {hit.rule_id for s in unions[0] for hit in s.found_by}
        assert searches == {CALL.id, PRAISE.id} | ({None} if include_plain else set())


def test_each_document_names_the_rules_that_found_it(bm25: BM25Retriever) -> None:
    retriever = guided(bm25, compose="substitute", include_plain=True, per_rule_k=3)
    [union, plain, _] = retriever.retrieve_union(QUERIES, 10)
    texts = "what does france visit ?", "what does france call ?", "what praise france ?"
    visit, call, praise = bm25.retrieve([Query(text, text) for text in texts], 3)
    expected: dict[str, list[RuleHit]] = {}
    grounds = {CALL.id: {"d0", "d1", "d5"}, PRAISE.id: {"d3"}}
    for rule_id, found in ((None, visit), (CALL.id, call), (PRAISE.id, praise)):
        for scored in found:
            atom = 0 if scored.document.id in grounds.get(rule_id or "", ()) else None
            hit = RuleHit(rule_id, scored.rank, scored.score, atom)
            expected.setdefault(scored.document.id, []).append(hit)
    assert {s.document.id: list(s.found_by) for s in union} == expected
    # The query without rules fell back to its own text.
    assert plain == bm25.retrieve([QUERIES[1]], 10)[0]


def test_all_pairs_go_in_one_batch_and_equal_ones_once(bm25: BM25Retriever) -> None:
    inner = Listed({})
    retriever = guided(inner, RuleBank([CALL, SELF]), compose="substitute", include_plain=True)
    retriever.retrieve([QUERIES[0], QUERIES[2], replace(QUERIES[0], id="q1b")], 5)
    [batch] = inner.batches
    # The rule visit => visit asks the query's own text: the plain search serves it too.
    assert [query.text for query in batch] == [
        "Time 7 what does france visit ?",
        "Time 7 what does france call ?",
        "Time 9 what does india visit ?",
        "Time 9 what does india call ?",
    ]
    pair = batch[1]
    assert pair.id == f"q1|{CALL.id}"
    assert (pair.subject, pair.relation, pair.timestamp) == ("france", "visit", 7)
    # One search for several rules is recorded for each.
    retriever = guided(bm25, RuleBank([CALL, SELF]), compose=lambda query, _: query.text)
    [[found]], [[plain]] = retriever.retrieve(QUERIES[:1], 1), bm25.retrieve(QUERIES[:1], 1)
    assert plain.document.id == "d2"  # states a visit, no call
    assert found.found_by == (
        RuleHit(CALL.id, 1, plain.score),
        RuleHit(SELF.id, 1, plain.score, 0),
    )


@pytest.mark.parametrize("merge", ["rank", "evidence"])
def test_time_is_kept_and_queries_of_one_text_are_not_mixed_up(
    bm25: BM25Retriever, merge: str
) -> None:
    text = "what does france visit ?"
    same = [replace(QUERIES[0], id=f"q{t}", text=text, timestamp=t) for t in (2, 9, 1)]
    retriever = guided(TimeAwareRetriever(bm25), merge=merge, compose="substitute")
    for query, found in zip(same, retriever.retrieve(same, 10), strict=True):
        assert all((s.document.timestamp or 0) < (query.timestamp or 0) for s in found)
    first = [ids(found)[:1] for found in retriever.retrieve(same, 2)]
    # Of two statements of one fact, evidence takes the first of the corpus.
    assert first == [["d0"], ["d5" if merge == "rank" else "d0"], []]


def test_a_composition_may_pass_over_a_rule_and_labels_are_those_of_the_text(
    bm25: BM25Retriever,
) -> None:
    def only_calls(query: Query, rule: Rule) -> list[str]:
        return [query.text] if rule == CALL else []

    found = guided(bm25, compose=only_calls).retrieve(QUERIES[:1], 2)
    assert {hit.rule_id for s in found[0] for hit in s.found_by} == {CALL.id}
    for merge in ("rank", "evidence"):
        nothing = guided(bm25, RuleBank([PRAISE]), compose=only_calls, merge=merge)
        assert nothing.retrieve(QUERIES, 3) == bm25.retrieve(QUERIES, 3)
    inner, query = Listed({}), Query("q", "whom does Q1 visit?", "Q1", "visit", prediction=True)
    labels = {"visit": "visit", "call": "phone", "praise": "speak well of"}
    guided(inner, compose="substitute", rule_label=labels.__getitem__).retrieve([query], 3)
    assert [one.text for one in inner.batches[0]] == [
        "whom does Q1 phone?",
        "whom speak well of Q1?",
    ]


def test_foreign_retrievers_and_selectors(bm25: BM25Retriever) -> None:
    class Bare:
        fingerprint = "bare"

        def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
            found = bm25.retrieve(queries, top_k)
            return [[ScoredDocument(s.document, s.score, s.rank) for s in r] for r in found]

    class Short:
        def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
            return [[]]

    assert guided(Bare()).retrieve(QUERIES, 3) == guided(bm25).retrieve(QUERIES, 3)
    with pytest.raises(RetrievalError, match="1 lists of rules for 3 queries"):
        RuleGuidedRetriever(bm25, Short()).retrieve(QUERIES, 3)


def test_rules_are_selected_once_for_retrieval_and_reading(bm25: BM25Retriever) -> None:
    class Counted(HeadRelationSelector):
        batches = 0

        def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
            self.batches += 1
            return super().select(queries)

    selector, other = Counted(BANK), Counted(RuleBank([CALL]))
    retriever = RuleGuidedRetriever(bm25, selector, merge="evidence")
    answers = RuleRAGPipeline(retriever, SymbolicReader(), selector=selector).answer(QUERIES)
    assert selector.batches == 1
    assert [list(answer.rules) for answer in answers] == HeadRelationSelector(BANK).select(QUERIES)
    # Another selector of the reader's is its own affair.
    RuleRAGPipeline(retriever, SymbolicReader(), selector=other).answer(QUERIES)
    assert (other.batches, selector.batches) == (1, 3)


def test_settings_come_together_or_one_by_one(bm25: BM25Retriever) -> None:
    together = GuidedSettings(merge="evidence", pool=300)
    one_by_one = guided(bm25, merge="evidence", pool=300)
    assert one_by_one.settings == together
    assert guided(bm25, settings=together).fingerprint == one_by_one.fingerprint
    assert guided(bm25, settings=together, pool=7).settings.pool == 7
