"""Facts, queries and rules in the words of the paper, and the corpus of a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, UnknownNameError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.verbalization import Template, Verbalizer, corpus, fact_text, query_text
from rulerag.rules import Atom, Rule
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
    assert fact_text(fact, dated) == "Time 2014-06-23 China Make statement Citizen (Nigeria)."
    assert query_text("China", "Make_statement", 8016, dated) == (
        "Time 2014-12-01 what does China Make statement ?"
    )
    assert fact_text(static.train.fact(0), static) == "Ann Lee was born in Bath."
    assert query_text("<Ann_Lee>", "<wasBornIn>", None, static) == (
        "what does Ann Lee was born in ?"
    )


def test_names_that_the_graph_lacks_are_written_as_they_are(static: KnowledgeGraph) -> None:
    assert fact_text(Fact("Eve", "likes", "tea", 3), static) == "Time 3 Eve likes tea."


def test_rules_have_readable_relations(static: KnowledgeGraph, dated: KnowledgeGraph) -> None:
    rule = Rule(
        Atom("Make_statement", "?x", "?y"), (Atom("Praise_or_endorse", "?y", "?x"),), temporal=True
    )
    assert Verbalizer(dated).rule(rule) == (
        "[Entity 2, Praise or endorse, Entity 1] leads to [Entity 1, Make statement, Entity 2]"
    )


def test_the_corpus_states_its_facts(dated: KnowledgeGraph) -> None:
    documents = corpus(dated.train, dated)
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
    assert corpus(dated.train) == documents
    more = Verbalizer(dated).corpus(dated.train, first=3)
    assert [document.id for document in more] == ["d000003", "d000004"]


def test_templates_give_a_relation_words_of_its_own(dated: KnowledgeGraph) -> None:
    templates: dict[str, Template | str] = {
        "Make_statement": "{subject} spoke to {object}.",
        "Praise_or_endorse": Template(
            "On {time}, {subject} praised {object}.", "whom did {subject} praise on {time}?"
        ),
    }
    verbalizer = Verbalizer(dated, templates)
    texts = [document.text for document in verbalizer.corpus(dated.train)]
    assert texts == [
        "Time 2014-06-23 China spoke to Citizen (Nigeria).",
        "On 2014-01-02, Citizen (Nigeria) praised China.",
    ]
    assert texts == [verbalizer.fact(fact) for fact in dated.train]
    assert verbalizer.query("China", "Make_statement", 24) == (
        "Time 2014-01-02 what does China Make statement ?"
    )
    assert verbalizer.query("China", "Praise_or_endorse", 24) == (
        "whom did China praise on 2014-01-02?"
    )


def test_braces_in_names_are_left_alone() -> None:
    graph = KnowledgeGraph.from_facts([("{subject}", "is {0}", "}{")])
    words = "{subject} {relation}: {object}."
    assert Verbalizer(graph, {"is {0}": words}).fact(graph.train.fact(0)) == "{subject} is {0}: }{."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("{subject} met {who}.", "not known here: 'who'"),
        ("{subject} met {object!r}.", "not known here"),
        ("{subject} met someone.", r"lacks the field \{object\}"),
        ("{subject met {object}.", "is no template"),
        ("{} met {}.", "not known here: ''"),
    ],
)
def test_wrong_templates(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Template(words)


def test_a_query_template_knows_no_object(dated: KnowledgeGraph) -> None:
    with pytest.raises(ConfigError, match="key 'query'"):
        Template(query="did {subject} meet {object}?")
    with pytest.raises(UnknownNameError, match="did you mean 'Make_statement'"):
        Verbalizer(dated, {"Make_statment": "{subject} {object}"})


@pytest.mark.parametrize("name", ["icews14", "countries_s1", "wiki"])
def test_corpora_of_public_graphs(name: str, graph_folder: Callable[[str], Path]) -> None:
    graph = KnowledgeGraph.load(graph_folder(name))
    start = time.perf_counter()
    documents = corpus(graph.train, graph)
    seconds = time.perf_counter() - start
    assert len(documents) == len({document.id for document in documents}) == len(graph.train)
    # Labels are unique, so no two facts are written alike.
    assert len({document.text for document in documents}) == len(documents)
    for row in range(0, len(documents), 5_000):
        (fact,) = documents[row].facts
        assert fact == graph.train.fact(row)
        assert documents[row].text == fact_text(fact, graph)
    assert seconds < 20  # seen: 2.1 s for the 533,905 facts of WIKI
