"""Chains, merging and candidates over texts that state no facts and mention entities."""

from __future__ import annotations

import logging

import pytest

from rulerag import entities_of
from rulerag.generation.candidate_reader import CandidateReader
from rulerag.linking import link_mentions
from rulerag.retrieval.guided.merging.evidence import EvidenceMerger
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, GenerationRequest, Query

TEXTS = [
    "In May the poet Ann, who was born in Velm, came home.",
    "Velm is a lively city of Orland on the coast.",
    "Brund is an old city of Norrland.",
    "Ann citizen of honour? Nobody knows, said Bob.",
    "The city of light is another one.",
]
NAMES = {name: (name,) for name in ("Ann", "Bob", "Velm", "Brund", "Orland", "Norrland", "May")}
QUERY = Query("q", "what does Ann citizen of ?", "Ann", "citizen of", None, ("Orland",))
CHAIN = Rule(
    Atom("citizen of", "?x", "?y"),
    (Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y")),
    quality=RuleQuality(pca_confidence=0.8),
)


def plain() -> list[Document]:
    return [Document(f"d{n}", text) for n, text in enumerate(TEXTS)]


def search(documents: list[Document], merge: str, top_k: int = 4) -> list[str]:
    selector = HeadRelationSelector(RuleBank([CHAIN]))
    retriever = RuleGuidedRetriever(
        BM25Retriever(documents), selector, merge=merge, compose="substitute"
    )
    (found,) = retriever.retrieve([QUERY], top_k)
    return [scored.document.id for scored in found]


def test_whom_texts_mention() -> None:
    linked = link_mentions(plain(), {**NAMES, "Ann_2": ("Ann",)})
    assert [entities_of(one) for one in linked] == [
        ("May", "Ann", "Ann_2", "Velm"),
        ("Velm", "Orland"),
        ("Brund", "Norrland"),
        ("Ann", "Ann_2", "Bob"),
        (),
    ]
    stated = Document("f", "Ann met Bob.", (Fact("Ann", "met", "Bob"),))
    assert link_mentions([stated], NAMES) == [stated]
    assert Document.from_json(linked[1].to_json()) == linked[1]
    assert "entities" not in stated.to_json()["metadata"]


@pytest.mark.parametrize("merge", ["rank", "evidence"])
def test_a_second_hop_keeps_the_texts_that_mention_the_bridge(
    merge: str, caplog: pytest.LogCaptureFixture
) -> None:
    documents = link_mentions(plain(), NAMES)
    with caplog.at_level(logging.INFO):
        found = search(documents, merge)
    assert "d1" in found
    assert "d4" not in found  # a city of another kind: it mentions no bridge
    assert "texts of hop 2 are left out, for they do not mention Velm" in caplog.text


def test_without_entities_the_first_hop_alone_is_followed() -> None:
    assert "d0" in search(plain(), "rank")


def test_texts_about_the_same_entities_are_one_group() -> None:
    assert EvidenceMerger(plain())._group.tolist() == [0, 1, 2, 3, 4]
    doubled = [*link_mentions(plain(), NAMES), Document("x", "", entities=("Orland", "Velm"))]
    assert EvidenceMerger(doubled)._group[[1, 5]].tolist() == [1, 1]


def test_what_a_text_mentions_is_a_candidate_where_the_relation_knows_it() -> None:
    documents = link_mentions(plain(), NAMES)
    reader = CandidateReader(known={"citizen of": {"Orland": 1}})
    request = GenerationRequest(QUERY, tuple(documents))
    assert [one.text for one in reader.generate([request])[0].candidates] == ["Orland"]
    assert CandidateReader(known={}).generate([request])[0].text == ""
