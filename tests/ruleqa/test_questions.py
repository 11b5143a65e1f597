"""Questions: queries from facts, and the query behind a typed question."""

from __future__ import annotations

import pytest

from rulerag.errors import DataFormatError, UnknownNameError
from rulerag.kg.graph import KnowledgeGraph, Vocabulary
from rulerag.kg.verbalization import Verbalizer
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.questions import graph_labels, parse_question, queries_from_facts
from rulerag.types import Document, Fact, Query

# --- queries from facts ------------------------------------------------------------------------


def test_facts_that_ask_the_same_are_one_query_with_all_answers() -> None:
    facts = [
        Fact("ann", "visits", "bath", 3),
        Fact("bob", "visits", "bath", 3),
        Fact("ann", "visits", "york", 3),
        Fact("ann", "visits", "bath", 3),
        Fact("ann", "visits", "ely", 4),
    ]
    table = KnowledgeGraph.from_facts(facts).train
    queries = queries_from_facts(table, Verbalizer(table), "test")
    assert [(q.id, q.subject, q.timestamp, q.answers) for q in queries] == [
        ("test-000001", "ann", 3, ("bath", "york")),
        ("test-000002", "bob", 3, ("bath",)),
        ("test-000003", "ann", 4, ("ely",)),
    ]
    assert queries[0].text == "Time 3 what does ann visits ?"


def test_names_are_raw_and_words_are_labels(toy_temporal_graph: KnowledgeGraph) -> None:
    table = KnowledgeGraph.from_facts([("ann_b", "lives_in", "great_bath")]).train
    graph = KnowledgeGraph(
        Vocabulary(["ann_b", "great_bath"], ["Ann B", "Great Bath"]),
        Vocabulary(["lives_in"], ["lives in"]),
        {"train": table},
    )
    words = Verbalizer(graph)
    (query,) = queries_from_facts(_over(graph), words, "q")
    assert (query.subject, query.relation) == ("ann_b", "lives_in")
    assert (query.text, query.answers) == ("what does Ann B lives in ?", ("Great Bath",))
    assert graph_labels(graph) == {
        "entities": {"ann_b": "Ann B", "great_bath": "Great Bath"},
        "relations": {"lives_in": "lives in"},
    }
    assert graph_labels(toy_temporal_graph)["entities"] == {}  # labels that are names are left out


def _over(graph: KnowledgeGraph):  # type: ignore[no-untyped-def]
    """The training facts with the graph's own vocabularies."""
    from dataclasses import replace

    return replace(graph.train, entities=graph.entities, relations=graph.relations)


# --- typed questions ---------------------------------------------------------------------------

LABELS = {
    "entities": {"New_York": "New York", "New_York_City": "New York City", "Bath": "Bath"},
    "relations": {"City_of": "City of", "of": "of", "make_a_visit": "make a visit"},
}


def data(calendar: dict[str, object] | None = None, time: int | None = None) -> RuleQADataset:
    facts = [
        Fact("New_York", "City_of", "Bath", time),
        Fact("New_York_City", "of", "Bath", time),
        Fact("Bath", "make_a_visit", "New_York", time),
    ]
    corpus = [Document(f"d{n}", " ".join(fact[:3]), (fact,)) for n, fact in enumerate(facts)]
    query = Query("q", "what does York like ?", "York", "like")
    return RuleQADataset(
        corpus=corpus, queries={"test": [query]}, labels=LABELS, info=DatasetInfo("data", calendar)
    )


DAYS = {"unit": "day", "origin": "2014-01-01", "step": 1}


@pytest.mark.parametrize(
    "text",
    [
        "what does Bath make a visit ?",
        "  What  did   BATH make a VISIT?  ",
        "Bath make_a_visit",
        "who does bath make a visit.",
        "where is Bath make a visit",
    ],
)
def test_a_question_is_understood_in_any_dress(text: str) -> None:
    query = parse_question(text, data())
    assert (query.subject, query.relation, query.timestamp) == ("Bath", "make_a_visit", None)
    # The words are those of the dataset's own queries: retrieval was chosen on them.
    assert query.text == "what does Bath make a visit ?"
    assert query.answers == ()


def test_names_are_the_longest_and_labels_come_first() -> None:
    dataset = data()
    for text, found in {
        "what does New York City of ?": ("New_York_City", "of"),
        "what does York like ?": ("York", "like"),  # only a query names it
    }.items():
        query = parse_question(text, dataset)
        assert (query.subject, query.relation) == found
    dataset.labels["entities"]["Bath"] = "New_York"
    assert parse_question("New_York make a visit", dataset).subject == "Bath"


HOURS = {"unit": "hour", "origin": "2014-01-01"}


@pytest.mark.parametrize(
    ("asked", "calendar", "latest", "time", "words"),
    [
        ("Time 2014-01-11 what does", DAYS, 30, 10, "Time 2014-01-11 what"),
        ("time 2014-01-11", DAYS, 30, 10, "Time 2014-01-11 what"),
        ("Time 2014-01-02 05:00 what does", HOURS, 9, 29, "Time 2014-01-02 05:00"),
        # Without a date it is asked after the last document.
        ("what does", DAYS, 30, 31, "Time 2014-02-01"),
        ("", {**HOURS, "step": 24}, 48, 72, ""),
        ("", DAYS, None, 1, ""),
    ],
)
def test_the_stated_date_counts(
    asked: str, calendar: dict[str, object], latest: int | None, time: int, words: str
) -> None:
    query = parse_question(f"{asked} Bath make a visit", data(calendar, latest))
    assert query.timestamp == time and query.text.startswith(words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("what does Batz make a visit ?", "no entity is called 'batz', did you mean 'Bath'?"),
        ("what does Bath made a visit ?", "no relation is called 'made a visit', did you mean"),
        ("what does Bath ?", "it ends in no relation, known: 'City of', 'like', 'make a visit'"),
        ("", "no entity and relation of 'data' make up ''"),
        ("?", "ask 'what does SUBJECT RELATION ?'"),
        ("Time 2014-01-11 Bath make a visit", "the question has a date, the dataset has none"),
        ("Time yesterday Bath make a visit", "'yesterday' is no date of this graph"),
        ("Time 2014-01-11", "make up ''"),
    ],
)
def test_what_is_not_understood_is_named_by_half(text: str, message: str) -> None:
    undated = not text.startswith("Time") or "none" in message
    with pytest.raises((UnknownNameError, DataFormatError)) as caught:
        parse_question(text, data() if undated else data(DAYS, 30))
    assert message in str(caught.value)


def test_questions_are_predictions_as_far_as_what_they_are_asked_of(
    toy_temporal_graph: KnowledgeGraph,
) -> None:
    words = Verbalizer(toy_temporal_graph)
    assert all(query.prediction for query in queries_from_facts(words.graph.test, words, "q"))
    dataset = data()
    assert not parse_question("Bath make_a_visit", dataset).prediction
    dataset.prediction = True
    assert parse_question("Bath make_a_visit", dataset).prediction
