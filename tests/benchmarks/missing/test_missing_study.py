"""The study of questions whose fact is missing: its measures, the baseline, proofs that go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.missing.neighbourhood import NeighbourhoodRetriever
from benchmarks.missing.proofs import SHARES, explained, proofs, removal, without_proofs
from benchmarks.missing.study import (
    ROWS,
    Answers,
    MissingFacts,
    answered,
    chosen,
    drawn,
    hard_over_easy,
    measured,
)
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.ruleqa import build_missing
from rulerag.synthetic import World
from rulerag.types import Document, Fact, Query

TITLES = {row["title"]: row for row in ROWS}


def _query(*answers: str) -> Query:
    return Query("q", "?", "a", "r", None, answers)


def test_measures_tell_hard_answers_from_easy_ones() -> None:
    queries = [_query("Hard", "Easy", "Other"), _query("Hard"), _query("Hard", "Easy")]
    answers = [Answers.of(["Easy"], ["x", "hard"]), Answers((), ("hard",)), Answers((), ())]
    values = measured(answers, queries, 1)
    assert values["any"].tolist() == [1, 1, 0]
    assert values["hard"].tolist() == [0, 1, 0]
    assert values["f1"].tolist() == [2 / 5, 1, 0]
    np.testing.assert_equal(values["easy"], [1, np.nan, 0])
    np.testing.assert_equal(values["alone"], [np.nan, 1, np.nan])
    ratio, low, high = hard_over_easy(measured(answers, queries, 2))
    assert (ratio, low, high) == (1, 0, 1)


def test_a_neighbourhood_is_what_can_be_reached_in_so_many_hops() -> None:
    facts = [("a", "r", "b"), ("b", "s", "c"), ("c", "s", "d"), ("x", "r", "y")]
    corpus = [Document(f"d{n}", " ".join(f), facts=(Fact(*f),)) for n, f in enumerate(facts)]
    for hops, reached in ((1, ["d0"]), (2, ["d0", "d1"]), (3, ["d0", "d1", "d2"])):
        near = NeighbourhoodRetriever(corpus, BM25Retriever(corpus), hops)
        (found,) = near.retrieve([Query("q", "what does a r ?", "a", "r")], 10)
        assert [one.document.id for one in found] == reached


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> MissingFacts:
    folder = tmp_path_factory.mktemp("world")
    graph = World.generate(2000, kind="static").graph
    for name, dataset in build_missing(graph, changes={"min_head_size": 10}).items():
        dataset.save(folder / name)
    return MissingFacts(Path(folder))


def test_rules_answer_what_no_document_states(facts: MissingFacts) -> None:
    dataset = facts.dataset("incomplete")
    queries = drawn(dataset, 0)
    hits = {}
    for title in ("BM25, stated facts", "rules executed"):
        choice, inferred = chosen(TITLES[title], facts)
        answers, _ = answered(TITLES[title], choice, dataset, queries)
        hits[title] = measured(answers, queries, inferred)["hard"].mean()
    assert hits["BM25, stated facts"] == 0 < hits["rules executed"]


def test_proofs_go_by_shares_and_answers_with_them(facts: MissingFacts) -> None:
    dataset, rules = facts.dataset("incomplete"), facts.dataset("complete").rules
    queries = drawn(dataset, 0)
    found = proofs(dataset, rules, queries)
    assert all(map(len, found))  # every question keeps a proof
    for share in SHARES:
        left = {one.id for one in without_proofs(dataset, found, share)}
        gone = [row for row, one in enumerate(dataset.corpus) if one.id not in left]
        broken = np.mean([np.isin(rows, gone).any(axis=1).mean() for rows in found])
        assert share <= broken < share + 0.05
    title = "rules executed"
    hits = removal(facts, [TITLES[title]], {title: {"choice": {}, "inferred": 1}}, 0)[title]
    assert hits[0] > hits[2] > hits[-1] == 0


def test_a_minimal_set_behind_a_right_answer_is_a_proof(facts: MissingFacts) -> None:
    made = explained(facts, TITLES["rules executed"], {}, 5, 100)
    assert len(made["explained"]) == 5
    assert all(one["proof"] and one["proof_shown"] for one in made["explained"])
