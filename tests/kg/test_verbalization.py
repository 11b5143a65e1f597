"""Facts, queries and rules in the words of the paper, and the corpus of a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.verbalization import Verbalizer
from rulerag.types import Document, Fact

CALENDAR = Calendar("hour", "2014-01-01", 24)


@pytest.fixture
def dated() -> KnowledgeGraph:
    facts = [
        ("China", "Make_statement", "Citizen_(Nigeria)", 4152),
        ("Citizen_(Nigeria)", "Praise_or_endorse", "China", 24),
    ]
    return KnowledgeGraph.from_facts(facts, calendar=CALENDAR)


@pytest.fixture
def static() -> KnowledgeGraph:
    return KnowledgeGraph.from_facts([("<Ann_Lee>", "<wasBornIn>", "<Bath>")])


def test_the_forms_of_the_paper(dated: KnowledgeGraph, static: KnowledgeGraph) -> None:
    fact = dated.train.fact(0)
    assert Verbalizer(dated).fact(fact) == "Time 2014-06-23 China Make statement Citizen (Nigeria)."
    assert Verbalizer(dated).query("China", "Make_statement", 8016) == (
        "Time 2014-12-01 what does China Make statement ?"
    )
    assert Verbalizer(static).fact(static.train.fact(0)) == "Ann Lee was born in Bath."
    assert Verbalizer(static).query("<Ann_Lee>", "<wasBornIn>") == (
        "what does Ann Lee was born in ?"
    )


def test_names_that_the_graph_lacks_are_written_as_they_are(static: KnowledgeGraph) -> None:
    assert Verbalizer(static).fact(Fact("Eve", "likes", "tea", 3)) == "Time 3 Eve likes tea."


def test_the_corpus_states_its_facts(dated: KnowledgeGraph) -> None:
    documents = Verbalizer(dated).corpus(dated.train)
    assert documents == [
        Document(
            "d000001",
            "Time 2014-06-23 China Make statement Citizen (Nigeria).",
            (Fact("China", "Make_statement", "Citizen_(Nigeria)", 4152),),
        ),
        Document(
            "d000002",
            "Time 2014-01-02 Citizen (Nigeria) Praise or endorse China.",
            (Fact("Citizen_(Nigeria)", "Praise_or_endorse", "China", 24),),
        ),
    ]
    assert Verbalizer(dated.train).corpus(dated.train) == documents


@pytest.mark.parametrize(
    "name",
    ["countries_s1", *(pytest.param(n, marks=pytest.mark.slow) for n in ("icews14", "wiki"))],
)
def test_corpora_of_public_graphs(name: str, graph_folder: Callable[[str], Path]) -> None:
    graph = KnowledgeGraph.load(graph_folder(name))
    start = time.perf_counter()
    words = Verbalizer(graph)
    documents = words.corpus(graph.train)
    seconds = time.perf_counter() - start
    assert len(documents) == len({document.id for document in documents}) == len(graph.train)
    # Labels are unique, so no two facts are written alike.
    assert len({document.text for document in documents}) == len(documents)
    for row in range(0, len(documents), 5_000):
        (fact,) = documents[row].facts
        assert fact == graph.train.fact(row)
        assert documents[row].text == words.fact(fact)
    assert seconds < 20  # seen: 2.1 s for the 533,905 facts of WIKI
