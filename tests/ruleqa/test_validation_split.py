"""The validation variant: the same graph one step earlier, the same gap, unseen test facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import EmptyDataError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.ruleqa.validation_split import validation_graph
from rulerag.types import Fact


def gap(graph: KnowledgeGraph) -> int:
    assert graph.test.timestamp is not None and graph.train.timestamp is not None
    return int(graph.test.timestamp.min() - graph.train.timestamp.max())


def test_a_validation_variant_by_hand() -> None:
    facts = [Fact("ann", "visits", f"town {t}", t) for t in range(10)]
    graph = KnowledgeGraph.from_facts(facts[:6], valid=facts[6:8], test=facts[8:], name="days")
    variant = validation_graph(graph)  # 8 - 5 = 3 days lie between training and test
    assert [f.timestamp for f in variant.train] == [0, 1, 2, 3]
    assert [f.timestamp for f in variant.valid] == [4, 5]
    assert list(variant.test) == list(graph.valid)
    assert (variant.name, gap(variant)) == ("days-validation", 3)
    assert variant.calendar == graph.calendar


def test_icews14_keeps_its_gap_and_never_sees_a_test_fact(
    graph_folder: Callable[[str], Path],
) -> None:
    graph = KnowledgeGraph.load(graph_folder("icews14"))
    variant = validation_graph(graph)
    assert gap(variant) == gap(graph) == 31 * 24
    assert list(variant.test) == list(graph.valid)
    assert len(variant.train) + len(variant.valid) == len(graph.train)
    asked = set(graph.test)
    assert not asked & {*variant.train, *variant.valid, *variant.test}
    assert variant.entities is graph.entities  # ids mean the same on both


def test_a_static_variant_holds_a_tenth_back_by_seed(toy_graph: KnowledgeGraph) -> None:
    facts = [(f"e{n}", "r", f"e{n + 1}") for n in range(1000)]
    graph = KnowledgeGraph.from_facts(facts, valid=[("a", "r", "b")], test=[("b", "r", "c")])
    variant, again, other = (validation_graph(graph, seed=seed) for seed in (0, 0, 1))
    assert 50 < len(variant.valid) < 150
    assert sorted([*variant.train, *variant.valid]) == sorted(graph.train)
    assert list(variant.valid) == list(again.valid) != list(other.valid)
    assert list(variant.test) == [Fact("a", "r", "b")]


def test_too_little_to_shorten() -> None:
    facts = [Fact("ann", "visits", "bath", t) for t in (0, 1, 2)]
    graph = KnowledgeGraph.from_facts(facts[:1], valid=facts[1:2], test=facts[2:], name="short")
    with pytest.raises(EmptyDataError, match="short: too few training facts"):
        validation_graph(graph)
    without = KnowledgeGraph.from_facts(facts, name="without")
    with pytest.raises(EmptyDataError, match="no facts in its split"):
        validation_graph(without)
