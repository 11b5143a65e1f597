"""Examples of F_R: whose positives they are, what is kept for tuning, what is a hard negative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query, ScoredDocument
from tests.training.conftest import changed
from training.retriever.data import TrainingData, prepare as prepare_for, with_latest_statements
from training.retriever.settings import RetrieverSettings

FORWARD = Rule(
    Atom("visit", "?x", "?y"), (Atom("invite", "?x", "?y"),), quality=RuleQuality(support=9)
)
INVERSE = Rule(
    Atom("visit", "?x", "?y"), (Atom("call", "?y", "?x"),), quality=RuleQuality(support=5)
)
CHAIN = Rule(
    Atom("visit", "?x", "?y"),
    (Atom("know", "?x", "?z"), Atom("know", "?z", "?y")),
    quality=RuleQuality(support=3),
)


def prepare(dataset: RuleQADataset, **changes: object) -> TrainingData:
    settings = RetrieverSettings(dataset={"path": ""}, model={"query": ""}, out="")
    return prepare_for(dataset, changed(settings, **changes))


def facts(*triples: tuple[str, str, str]) -> list[Document]:
    return [
        Document(f"d{n}", f"{s} {r} {o}.", (Fact(s, r, o),)) for n, (s, r, o) in enumerate(triples)
    ]


@pytest.fixture
def small() -> RuleQADataset:
    """Two judged queries: ann is answered by b, who lives under the label B (d1 names another); c
    by d."""
    corpus = facts(
        ("ann", "invite", "b"),
        ("ann", "invite", "c"),
        ("b", "call", "ann"),
        ("ann", "call", "b"),
        ("ann", "know", "m"),
        ("m", "know", "b"),
        ("c", "invite", "d"),
    )
    queries = [
        Query("q1", "what does ann visit ?", "ann", "visit", answers=("B",)),
        Query("q2", "what does c visit ?", "c", "visit", answers=("d",)),
        Query("q3", "what does d visit ?", "d", "visit", answers=("ann",)),
    ]
    judged = {"q1": {f"d{n}": 1 for n in range(6)}, "q2": {"d6": 1}}
    return RuleQADataset(
        corpus=corpus,
        queries={"f_r": queries},
        qrels={"f_r": judged},
        rules=RuleBank([FORWARD, INVERSE, CHAIN]),
        labels={"entities": {"b": "B"}},
    )


def test_positives_of_a_rule_are_the_oracle_documents_that_ground_it(small: RuleQADataset) -> None:
    data = prepare(small, tuning_share=0.01)
    found = {e.text: e.positives.tolist() for e in data.examples}
    hop = Rule(Atom("visit", "?x", "?y"), (Atom("know", "?x", "?y"),)).text
    assert found == {
        f"what does ann visit ? {FORWARD.text}": [0],
        f"what does ann visit ? {INVERSE.text}": [2],
        # The chain is asked hop by hop: about ann, then about m, whom ann knows.
        f"what does ann visit ? {hop}": [4],
        f"what does m visit ? {hop}": [5],
        f"what does c visit ? {FORWARD.text}": [6],
    }
    assert [rows.tolist() for rows in data.oracle] == [[0, 1, 2, 3, 4, 5], [6]]
    assert [data.queries[e.query].id for e in data.examples] == ["q1", "q1", "q1", "q1", "q2"]


def test_hops_are_asked_in_training_as_in_retrieval(small: RuleQADataset) -> None:
    asked: list[str] = []

    class Spy(BM25Retriever):
        def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
            asked.extend(query.text for query in queries)
            return super().retrieve(queries, top_k)

    data = prepare(small, tuning_share=0.01)
    guided = RuleGuidedRetriever(Spy(small.corpus), HeadRelationSelector(RuleBank([CHAIN])))
    guided.retrieve(data.queries[:1], 5)
    learned = [e.text for e in data.examples if e.query == 0 and "know" in e.text]
    assert set(learned) <= set(asked) and len(learned) == 2


def test_without_rules_and_mixed(small: RuleQADataset) -> None:
    plain = prepare(small, method="ssft", tuning_share=0.01)
    assert [e.text for e in plain.examples] == ["what does ann visit ?", "what does c visit ?"]
    assert plain.examples[0].positives.tolist() == [0, 1, 2, 3, 4, 5]
    assert plain.selector is None
    assert len(prepare(small, method="mixed", tuning_share=0.01).examples) == 7
    assert len(prepare(small, max_rules=1, tuning_share=0.01).examples) == 2


def test_queries_are_kept_for_tuning_and_drawn_by_seed(world_dataset: RuleQADataset) -> None:
    one, again, other = (prepare(world_dataset, seed=seed) for seed in (0, 0, 1))
    judged = len(world_dataset.qrels("f_r"))
    assert len(one.tuning) == round(judged / 10)
    assert len(one.tuning) + len(one.queries) == judged
    assert not {q.id for q in one.tuning} & {q.id for q in one.queries}
    assert one.tuning == again.tuning != other.tuning
    few = prepare(world_dataset, num_queries=5)
    assert few.tuning == one.tuning and len(few.queries) == len(few.oracle) == 5
    assert {q.id for q in few.queries} < {q.id for q in one.queries}
    assert few.queries == prepare(world_dataset, num_queries=5).queries
    data = prepare(world_dataset, validation={"split": "f_g"})
    assert {q.id for q in data.tuning} == {q.id for q in world_dataset.query_set("f_g")}
    assert len(data.queries) == judged, "none of F_R is held back"
    assert data.tuning != prepare(world_dataset, validation={"split": "f_g"}, seed=1).tuning


def test_the_latest_statement_is_judged_for_those_it_repeats() -> None:
    corpus = [
        Document(f"d{n}", f"{time}: a invite b.", (Fact("a", "invite", "b", time),))
        for n, time in enumerate((1, 5, 3))
    ]
    corpus.append(Document("d3", "2: a invite c.", (Fact("a", "invite", "c", 2),)))
    query = Query("q1", "what does a visit ?", "a", "visit", timestamp=9, answers=("b", "c"))
    dataset = RuleQADataset(
        corpus=corpus,
        queries={"f_r": [query], "f_g": [replace(query, id="q2")], "test": []},
        qrels={"f_r": {"q1": {"d0": 1, "d2": 1, "d3": 1}}},
        rules=RuleBank([FORWARD]),
    )
    latest = with_latest_statements(dataset, "f_r", "f_g")
    assert [document.id for document in latest.corpus] == ["d1", "d3"]
    assert latest.qrels("f_r") == {"q1": {"d1": 1, "d3": 1}}
    assert set(latest.queries) == {"f_r", "f_g"}
    assert prepare(latest, tuning_share=0.01).examples[0].positives.tolist() == [0, 1]
