"""Metrics counted by hand, the laws that they obey, and agreement with trec_eval's definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from rulerag.errors import UnknownNameError
from rulerag.evaluation.metrics import (
    AnswerCoverage,
    AnswerMatcher,
    answer_metrics,
    mean_metrics,
    metric,
    qrels_metrics,
)
from rulerag.text import contains_answer
from rulerag.types import Answer, Completion, Document, Query, ScoredDocument


def scored(*texts: str) -> tuple[ScoredDocument, ...]:
    documents = [Document(f"d{text}", text) for text in texts]
    return tuple(ScoredDocument(d, 1.0 / n, n) for n, d in enumerate(documents, start=1))


def answer(
    text: str, answers: tuple[str, ...], documents: tuple[str, ...], union: tuple[str, ...] = ()
) -> Answer:
    query = Query("q", "who ?", answers=answers)
    return Answer(query, Completion(text), scored(*documents), union=scored(*union))


def test_an_answer_counted_by_hand() -> None:
    documents = ("Time 1 Iraq.", "Time 2 South Korea.", "Time 3 the Korea, South!", "Time 4 Iran.")
    found = answer_metrics(answer("South-Korea x", ("Korea South", "Irak"), documents), top_k=4)
    assert found == {
        "answer_recall@1": 0.0,
        "answer_recall@2": 0.0,  # "South Korea" is not "Korea South"
        "answer_recall@4": 1.0,
        "answer_recall@4_union": 1.0,
        "answer_coverage@100_tokens": 1.0,
        "tokens_per_query": 20.0,  # four, five, seven and four, signs counted
        "documents_per_query": 4.0,
        "documents_per_query_union": 4.0,
        "exact_match": 0.0,
        # tokens {southkorea, x} and {korea, south} share none
        "token_f1": 0.0,
    }
    assert answer_metrics(answer("the South, Korea", ("Korea South",), ()))["token_f1"] == 1.0


def test_the_union_counts_apart_from_the_ten_best() -> None:
    found = answer_metrics(answer("b", ("b",), ("a", "c"), ("a", "c", "x b y")), top_k=2)
    assert found["answer_recall@2"] == 0.0
    assert found["answer_recall@2_union"] == 1.0
    assert (found["documents_per_query"], found["documents_per_query_union"]) == (2.0, 3.0)
    assert found["exact_match"] == found["token_f1"] == 1.0
    cutoffs = [name for name in answer_metrics(answer("", (), ()), top_k=5) if "recall" in name]
    assert cutoffs == [f"answer_recall@{k}" for k in ("1", "2", "5", "5_union")]


@pytest.mark.parametrize(
    ("texts", "answers", "rank"),
    [
        (("Nigeria", "Niger."), ["niger"], 2),  # boundaries are those of tokens
        (("Nigeria",), ["niger"], None),
        (("a . b", ""), ["", "..."], None),  # an answer without a token is nowhere
        (("a",), [], None),
    ],
)
def test_where_an_answer_stands(
    texts: tuple[str, ...], answers: list[str], rank: int | None
) -> None:
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    assert AnswerMatcher().first_rank(documents, answers) == rank


WORDS = st.lists(st.sampled_from(["a", "b", "the", "c,", "D", "b-c"]), max_size=4).map(" ".join)


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, max_size=14, unique=True), st.integers(0, 12))
def test_laws_of_answer_recall(answers: list[str], texts: list[str], cut: int) -> None:
    found = answer_metrics(answer("b", tuple(answers), tuple(texts[:cut]), tuple(texts)), top_k=10)
    recalls = [found[f"answer_recall@{k}"] for k in (1, 2, 5, 10)]
    assert recalls == sorted(recalls)
    assert found["answer_recall@10_union"] >= recalls[-1]
    for k, recall in zip((1, 2, 5, 10), recalls, strict=True):
        assert recall == float(any(contains_answer(text, answers) for text in texts[:cut][:k]))
    assert found["token_f1"] >= found["exact_match"]
    for name, value in found.items():
        assert value >= 0 and (value <= 1 or not metric(name).is_fraction)


def test_means_are_exact_whatever_the_order() -> None:
    rows = [{"token_f1": value} for value in (0.1, 0.2, 0.3, 1e-17, 0.7, 1 / 3)]
    assert mean_metrics(rows) == mean_metrics(rows[::-1])
    assert mean_metrics([{"x": 1.0}, {"x": 0.0}]) == {"x": 0.5}
    assert mean_metrics([]) == {}


def test_qrels_metrics_by_hand() -> None:
    qrels = {"q1": {"a": 1, "b": 1}, "q2": {"c": 1}, "q3": {"d": 1}, "q4": {}}
    rankings = {"q1": ["x", "a", "y"], "q2": ["c"], "unjudged": ["a"]}
    found = qrels_metrics(qrels, rankings, top_k=3)
    # q3 is judged and has no ranking: it counts as 0; q4 has no judged document: left out.
    assert found["recall@3"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert found["mrr@3"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    gain = (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert found["ndcg@3"] == pytest.approx((gain + 1 + 0) / 3)
    # The order of a ranking decides, not the ids.
    assert qrels_metrics({"q": {"a": 1}}, {"q": ["z", "a"]})["mrr@10"] == 0.5
    assert qrels_metrics({"q": {"z": 1}}, {"q": ["z", "a"]})["mrr@10"] == 1.0
    assert qrels_metrics({"q": {"z": 1}}, {"q": ["a", "z"]}, top_k=1)["recall@1"] == 0.0
    assert qrels_metrics({}, {"q": ["a"]}) == qrels_metrics({"q": {}}, {"q": ["a"]}) == {}


def test_every_metric_says_what_it_means() -> None:
    titles = {name: metric(name).title for name in ("answer_recall@5", "entity_recall@10_union")}
    assert titles == {"answer_recall@5": "R@5", "entity_recall@10_union": "R@10 union, entity"}
    assert "first 5 documents" in metric("answer_recall@5").description
    assert metric("documents_per_query").higher_is_better is None
    assert not metric("documents_per_query").is_fraction and metric("lenient_match").is_fraction
    with pytest.raises(UnknownNameError, match=r"'exact_mach' — did you mean 'exact_match'"):
        metric("exact_mach")


def test_coverage_counts_the_tokens_until_an_answer_stands_whole() -> None:
    first, second = Document("1", "Ann met Bob."), Document("2", "On Monday, Cy saw New York.")
    coverage = AnswerCoverage()
    assert coverage.num_tokens(second) == 8
    assert coverage.tokens_needed((first, second), ["Bob"]) == 3
    assert coverage.tokens_needed((first, second), ["New York"]) == 4 + 7
    assert coverage.tokens_needed((second, first), ["nobody", "Bob"]) == 8 + 3
    assert coverage.tokens_needed((first, second), ["York New"]) == math.inf


def test_coverage_at_a_budget_is_not_more_than_recall() -> None:
    long = " ".join(f"w{n}" for n in range(120))
    found = answer_metrics(answer("", ("Bob",), (long, "Bob")))
    assert found["answer_recall@10"] == 1.0 and found["answer_coverage@100_tokens"] == 0.0
    assert found["tokens_per_query"] == 121
    assert metric("answer_coverage@100_tokens").title == "coverage@100 tokens"
