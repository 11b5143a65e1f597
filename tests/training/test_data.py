"""Examples of F_R: whose positives they are, what is kept for tuning, what is a hard negative."""

from __future__ import annotations

import numpy as np
import pytest

from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.text import contains_answer
from rulerag.types import Document, Fact, Query
from training.data import mine_hard_negatives, prepare

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


def facts(*triples: tuple[str, str, str]) -> list[Document]:
    return [
        Document(f"d{n}", f"{s} {r} {o}.", (Fact(s, r, o),)) for n, (s, r, o) in enumerate(triples)
    ]


@pytest.fixture
def small() -> RuleQADataset:
    """Two judged queries: a is answered by b, who lives under the label B; c by d."""
    corpus = facts(
        ("a", "invite", "b"),
        ("a", "invite", "c"),
        ("b", "call", "a"),
        ("a", "call", "b"),
        ("a", "know", "m"),
        ("m", "know", "b"),
        ("c", "invite", "d"),
    )
    queries = [
        Query("q1", "what does a visit ?", "a", "visit", answers=("B",)),
        Query("q2", "what does c visit ?", "c", "visit", answers=("d",)),
        Query("q3", "what does d visit ?", "d", "visit", answers=("a",)),
    ]
    judged = {"q1": {f"d{n}": 1 for n in (0, 2, 3, 4, 5)}, "q2": {"d6": 1}}
    return RuleQADataset(
        corpus=corpus,
        queries={"f_r": queries},
        qrels={"f_r": judged},
        rules=RuleBank([FORWARD, INVERSE, CHAIN]),
        labels={"entities": {"b": "B"}},
    )


def test_positives_of_a_rule_are_the_oracle_documents_that_ground_it(small: RuleQADataset) -> None:
    data = prepare(small, tuning_share=0.0)
    found = {e.text: e.positives.tolist() for e in data.examples}
    assert found == {
        f"what does a visit ? {FORWARD.text}": [0],
        f"what does a visit ? {INVERSE.text}": [2],
        f"what does a visit ? {CHAIN.text}": [4, 5],
        f"what does c visit ? {FORWARD.text}": [6],
    }
    assert [rows.tolist() for rows in data.oracle] == [[0, 2, 3, 4, 5], [6]]
    assert [data.queries[e.query].id for e in data.examples] == ["q1", "q1", "q1", "q2"]


def test_without_rules_and_mixed(small: RuleQADataset) -> None:
    plain = prepare(small, method="ssft", tuning_share=0.0)
    assert [e.text for e in plain.examples] == ["what does a visit ?", "what does c visit ?"]
    assert plain.examples[0].positives.tolist() == [0, 2, 3, 4, 5]
    assert plain.selector is None
    mixed = prepare(small, method="mixed", tuning_share=0.0)
    assert len(mixed.examples) == 6
    with pytest.raises(ConfigError, match="one of rgft, ssft, mixed"):
        prepare(small, method="sft")


def test_fewer_rules_make_fewer_examples(small: RuleQADataset) -> None:
    assert len(prepare(small, max_rules=1, tuning_share=0.0).examples) == 2


def test_a_tenth_is_kept_by_seed(world_dataset: RuleQADataset) -> None:
    one, again, other = (prepare(world_dataset, seed=seed) for seed in (0, 0, 1))
    judged = len(world_dataset.qrels("f_r"))
    assert len(one.tuning) == round(judged / 10)
    assert len(one.tuning) + len(one.queries) == judged
    assert not {q.id for q in one.tuning} & {q.id for q in one.queries}
    assert one.tuning == again.tuning != other.tuning


def test_hard_negatives_are_neither_oracle_nor_answer(world_dataset: RuleQADataset) -> None:
    data = mine_hard_negatives(prepare(world_dataset), world_dataset, per_example=3)
    assert sum(len(e.hard) for e in data.examples) > len(data.examples)
    for example in data.examples:
        assert not np.isin(example.hard, data.oracle[example.query]).any()
        answers = data.queries[example.query].answers
        texts = [world_dataset.corpus[row].text for row in example.hard]
        assert not any(contains_answer(text, answers) for text in texts)
