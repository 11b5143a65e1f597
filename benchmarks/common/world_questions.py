"""Questions of a generated world whose supporting documents are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rulerag.kg import Verbalizer
from rulerag.ruleqa import queries_from_facts
from rulerag.rules import Rule
from rulerag.synthetic import World
from rulerag.types import Document, Query


@dataclass(frozen=True)
class WorldQuestion:
    """A test question of a world.

    Args:
        query: the question.
        rules: the world's own rules of the asked relation.
        support: the documents that state a supporting fact of the answer, by id.
        near: every document whose first fact is about the question's subject.
    """

    query: Query
    rules: tuple[Rule, ...]
    support: dict[str, Document]
    near: list[Document]


def world_questions(world: World) -> tuple[list[Document], Iterator[WorldQuestion]]:
    """The corpus of a world's training facts, and the test questions that rules answer from it."""
    words = Verbalizer(world.graph)
    corpus = words.corpus(world.graph.train)
    return corpus, _questions(world, words, corpus)


def _questions(world: World, words: Verbalizer, corpus: list[Document]) -> Iterator[WorldQuestion]:
    document_of = {fact: document for document in corpus for fact in document.facts}
    by_subject: dict[str, list[Document]] = {}
    for document in corpus:
        by_subject.setdefault(document.facts[0].subject, []).append(document)
    for query in queries_from_facts(world.graph.test, words, "q"):
        truth = world.find(query.subject, query.relation, query.timestamp)
        if truth is not None and truth.supports:
            found = [document_of[fact] for support in truth.supports for fact in support]
            yield WorldQuestion(
                query,
                tuple(world.rules.for_head(query.relation)),
                {document.id: document for document in found},
                by_subject.get(query.subject, []),
            )
