"""Self-made pairs, and a few steps of the small encoder."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.verbalization import Verbalizer
from training.nano_encoder import sources, train_pairs
from training.pairs import PairSource
from training.tiny import make_encoder, train_tokenizer


def test_pairs_fit_and_other_answers_are_left_out(toy_graph: KnowledgeGraph) -> None:
    source = PairSource(toy_graph.train, Verbalizer(toy_graph))
    batch = source.batch(64, np.random.default_rng(0), guided=0.0)
    answers = {text: i for i, text in enumerate(source.texts)}
    assert len(answers) == 10
    facts = list(toy_graph.train)
    for n, (query, document) in enumerate(zip(batch.queries, batch.documents, strict=True)):
        fact = facts[answers[document]]
        words = Verbalizer(toy_graph)
        assert query == words.query(fact.subject, fact.relation)
        for m, other in enumerate(batch.documents):
            told = facts[answers[other]]
            same = (told.subject, told.relation) == (fact.subject, fact.relation)
            assert batch.excluded[n, m] == (same and m != n)


def test_ruled_questions_name_the_documents_relation(toy_graph: KnowledgeGraph) -> None:
    source = PairSource(toy_graph.train, Verbalizer(toy_graph))
    batch = source.batch(64, np.random.default_rng(1), guided=1.0)
    label = toy_graph.relations.label
    relations = [label(name) for name in toy_graph.relations.names]
    for query, document in zip(batch.queries, batch.documents, strict=True):
        body = query.split(" leads to ")[0].split("[")[1]
        named = next(r for r in relations if f", {r}, " in body)
        assert f" {named} " in document
        subject, _, object_ = document.rstrip(".").partition(f" {named} ")
        asked = object_ if body.startswith("Entity 2") else subject
        assert query.startswith(f"what does {asked} ")


def test_a_few_steps_learn_and_repeat() -> None:
    made = sources([], worlds=2, world_facts=500)
    tokenizer = train_tokenizer((t for s in made for t in s.texts), vocabulary=500)
    runs = []
    for _ in range(2):
        encoder = make_encoder(tokenizer, width=32, layers=1, seed=2)
        losses = train_pairs(encoder, made, steps=25, batch_size=32, learning_rate=5e-3)
        runs.append((losses, [p.detach().clone() for p in encoder.parameters()]))
    assert runs[0][0] == pytest.approx(runs[1][0], abs=0)
    assert all(torch.equal(a, b) for a, b in zip(runs[0][1], runs[1][1], strict=True))
    losses = runs[0][0]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_large_tables_are_thinned_by_seed(toy_graph: KnowledgeGraph) -> None:
    words = Verbalizer(toy_graph)
    one, again = (PairSource(toy_graph.train, words, limit=4, seed=1) for _ in range(2))
    assert len(one) == 4
    assert one.texts == again.texts
    assert len(one.batch(8, np.random.default_rng(0)).queries) == 8
