"""Vocabularies, tables of facts and graphs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from rulerag.errors import DataFormatError, EmptyDataError, UnknownNameError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import FactTable, KnowledgeGraph, Vocabulary
from rulerag.types import Fact

DATED = [
    ("ann", "knows", "bob", 3),
    ("bob", "knows", "ann", 5),
    ("ann", "likes", "tea", 5),
    ("cid", "knows", "bob", 9),
]


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_facts(DATED, valid=[("cid", "likes", "tea", 10)], name="small")


def test_ids_names_and_labels() -> None:
    vocabulary = Vocabulary(["Q1", "Q2"], ["Kiss", "Bath"])
    assert len(vocabulary) == 2
    assert "Q1" in vocabulary
    assert "Kiss" not in vocabulary
    assert vocabulary.id("Q2") == vocabulary.id("Bath") == 1
    assert vocabulary.label("Q1") == "Kiss"
    assert vocabulary.label("Q9") == "Q9"
    assert vocabulary.name_of_label("Bath") == vocabulary.name_of_label("Q2") == "Q2"


@pytest.mark.parametrize("method", ["id", "name_of_label"])
def test_unknown_names_are_told_with_a_hint(method: str) -> None:
    vocabulary = Vocabulary([f"Q{i}" for i in range(3_000)], [f"Label {i}" for i in range(3_000)])
    with pytest.raises(UnknownNameError, match=r"'Label 29o' is not in the graph.*'Label 29'"):
        getattr(vocabulary, method)("Label 29o")


@pytest.mark.parametrize(
    ("names", "labels", "message"),
    [
        (["a", "b", "a"], None, "the name 'a' has two ids"),
        (["a", "b", "c"], ["x", "y", "x"], "two names share the label 'x'"),
        (["a", "b"], ["x"], "1 labels for 2 names"),
    ],
)
def test_wrong_vocabularies(names: list[str], labels: list[str] | None, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        Vocabulary(names, labels)


def test_facts_go_in_and_come_out(graph: KnowledgeGraph) -> None:
    assert list(graph.train) == [Fact(*fact) for fact in DATED]
    assert graph.train.fact(2) == Fact("ann", "likes", "tea", 5)
    assert graph.entities.names == ["ann", "bob", "tea", "cid"]
    assert graph.train.subject.dtype == np.int32
    assert graph.is_temporal
    static = KnowledgeGraph.from_facts([("a", "r", "b")])
    assert not static.is_temporal
    assert list(static.train) == [Fact("a", "r", "b")]


def test_select_keeps_rows_in_order(graph: KnowledgeGraph) -> None:
    train = graph.train
    assert list(train.select(np.array([3, 0]))) == [Fact(*DATED[3]), Fact(*DATED[0])]
    assert list(train.select(np.arange(len(train)) == 1, "one")) == [Fact(*DATED[1])]
    assert train.select(np.array([0]), "one").name == "one"


def test_missing_splits_are_told(graph: KnowledgeGraph) -> None:
    assert len(graph.valid) == 1
    with pytest.raises(EmptyDataError, match=r"'small' has no facts in its split 'test'.*valid"):
        _ = graph.test
    with pytest.raises(EmptyDataError, match="none"):
        _ = KnowledgeGraph.from_facts([]).train


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([("a", "r", "b"), ("a", "r", "b", 1)], "some facts are dated"),
        ([("a", "r", "b"), ("a", "r")], "fact 1 of train is no"),
        ([("a", "r", "b", "1990")], "fact 0 of train"),
        ([("a", "r", "b", 2**31)], "fact 0 of train"),
        ([("a", "", "b")], "not empty"),
        ([(1, "r", "b")], "fact 0 of train"),
    ],
)
def test_wrong_facts(facts: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        KnowledgeGraph.from_facts(facts)


def test_fingerprints_follow_the_content(graph: KnowledgeGraph) -> None:
    valid = [("cid", "likes", "tea", 10)]
    same = KnowledgeGraph.from_facts(DATED, valid=valid, name="other")
    assert same.fingerprint == graph.fingerprint
    assert same.train.fingerprint == graph.train.fingerprint
    moved = KnowledgeGraph.from_facts([*DATED[:3], ("cid", "knows", "bob", 8)], valid=valid)
    assert moved.train.fingerprint != graph.train.fingerprint
    assert moved.fingerprint != graph.fingerprint
    # Another calendar writes other texts from the same facts.
    years = KnowledgeGraph.from_facts(DATED, valid=valid, calendar=Calendar("year", "1990"))
    assert years.train.fingerprint == graph.train.fingerprint
    assert years.fingerprint != graph.fingerprint


def test_tables_travel_to_other_processes(graph: KnowledgeGraph) -> None:
    train = graph.train
    assert train.fingerprint  # with what is computed once
    copy: FactTable = pickle.loads(pickle.dumps(train))
    assert list(copy) == list(train)
    assert copy.fingerprint == train.fingerprint


def test_a_graph_says_what_it_holds(graph: KnowledgeGraph) -> None:
    assert repr(graph) == (
        "KnowledgeGraph('small', temporal, 4 entities, 2 relations, train 4, valid 1 facts)"
    )
