"""Temporal rules of length one: counts against a brute-force counter, thresholds, errors."""

from __future__ import annotations

import random
import time

import pytest

from rulerag.errors import ConfigError, MiningError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.temporal.miner import TLogicMiner
from rulerag.types import Fact


def brute_force(facts: list[Fact]) -> dict[tuple[str, bool, str], tuple[int, int]]:
    """(body, inverse, head) → (support, body size), straight from the definition."""
    distinct = set(facts)
    relations = sorted({fact.relation for fact in distinct})
    counts = {}
    for body in relations:
        for inverse in (False, True):
            groundings = [
                (*((f.object, f.subject) if inverse else (f.subject, f.object)), f.timestamp)
                for f in distinct
                if f.relation == body
            ]
            for head in relations:
                support = sum(
                    any(
                        (f.subject, f.relation, f.object) == (x, head, y) and f.timestamp > t
                        for f in distinct
                    )
                    for x, y, t in groundings
                )
                if support:
                    counts[body, inverse, head] = (support, len(groundings))
    return counts


def random_facts(seed: int) -> list[Fact]:
    rng = random.Random(seed)
    return [
        Fact(
            f"e{rng.randrange(4)}",
            f"r{rng.randrange(3)}",
            f"e{rng.randrange(4)}",
            rng.randrange(5),
        )
        for _ in range(rng.randrange(1, 30))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_counts_equal_brute_force(seed: int) -> None:
    facts = random_facts(seed)
    train = KnowledgeGraph.from_facts(facts).train
    bank = TLogicMiner(min_confidence=0.0, min_support=1).mine(train)
    found = {
        (rule.body[0].relation, rule.is_inverse, rule.head.relation): (
            rule.quality.support,
            rule.quality.body_size,
        )
        for rule in bank
    }
    assert found == brute_force(facts)
    for rule in bank:
        assert rule.temporal
        assert rule.quality.confidence == rule.quality.support / rule.quality.body_size


def test_a_head_at_the_same_time_does_not_count() -> None:
    train = KnowledgeGraph.from_facts([Fact("a", "r", "b", 1), Fact("a", "s", "b", 1)]).train
    assert len(TLogicMiner(min_confidence=0.0, min_support=1).mine(train)) == 0


def test_text_and_thresholds() -> None:
    facts = [Fact("a", "visits_often", "b", t) for t in range(4)] + [Fact("b", "hosts", "a", 9)]
    train = KnowledgeGraph.from_facts(facts).train
    bank = TLogicMiner(min_confidence=0.0, min_support=1).mine(train)
    texts = {rule.text: rule.quality for rule in bank}
    inverse = texts["[Entity 2, visits often, Entity 1] leads to [Entity 1, hosts, Entity 2]"]
    assert (inverse.support, inverse.body_size, inverse.confidence) == (4, 4, 1.0)
    repeat = texts["[Entity 1, visits often, Entity 2] leads to [Entity 1, visits often, Entity 2]"]
    assert (repeat.support, repeat.body_size, repeat.confidence) == (3, 4, 0.75)
    assert len(TLogicMiner(min_support=4).mine(train)) == 1
    assert len(TLogicMiner(min_support=1, min_confidence=0.8).mine(train)) == 1


def test_bad_input() -> None:
    static = KnowledgeGraph.from_facts([("a", "r", "b")]).train
    with pytest.raises(MiningError, match="AmieMiner"):
        TLogicMiner().mine(static)
    with pytest.raises(ConfigError, match="min_confidence"):
        TLogicMiner(min_confidence=1.5)
    with pytest.raises(ConfigError, match="min_support"):
        TLogicMiner(min_support=0)
    for lengths in ((), (0,), (1, 4)):
        with pytest.raises(ConfigError, match="lengths"):
            TLogicMiner(lengths=lengths)
    for key, value in (
        ("transition", "linear"),
        ("num_walks", 0),
        ("num_bodies", 0),
        ("seed", -1),
        ("threads", 0),
        ("max_memory_gb", 0.0),
    ):
        with pytest.raises(ConfigError, match=key):
            TLogicMiner(**{key: value})


def test_one_fact_gives_no_rule() -> None:
    train = KnowledgeGraph.from_facts([Fact("a", "r", "b", 1)]).train
    assert len(TLogicMiner(min_support=1).mine(train)) == 0


def test_icews14_in_under_five_seconds(graph_folder) -> None:
    train = KnowledgeGraph.load(graph_folder("icews14")).train
    started = time.perf_counter()
    bank = TLogicMiner().mine(train)
    assert time.perf_counter() - started < 5
    assert len(bank) == 11_221
