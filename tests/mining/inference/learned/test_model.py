"""Learned application: planted worlds with known behaviour, explanations, files, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rulerag.errors import ConfigError, EmptyDataError, MiningError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.inference.engine import TemporalInference
from rulerag.mining.inference.learned.model import LearnedTemporalInference
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Fact

CYCLE = 7
# Small worlds teach little at a time.
FAST = {"rate": 0.5, "fine_rate": 0.5, "passes": 4}


def world(lag: int, steps: int = 60, first: int = 45) -> KnowledgeGraph:
    """Everybody asks everyone in turn and visits whom they asked ``lag`` steps before."""
    facts = []
    for time in range(steps):
        for person in range(6):
            facts.append(Fact(f"p{person}", "ask", f"q{(time + person) % CYCLE}", time))
            if time >= lag:
                asked = (time - lag + person) % CYCLE
                facts.append(Fact(f"p{person}", "visit", f"q{asked}", time))
    early = [fact for fact in facts if fact.timestamp < first]
    return KnowledgeGraph.from_facts(early, test=[f for f in facts if f.timestamp >= first])


def one_rule(body: str = "ask", confidence: float = 0.5, head: str = "visit") -> Rule:
    quality = RuleQuality(support=50, body_size=100, confidence=confidence)
    return Rule(Atom(head, "?x", "?y"), (Atom(body, "?x", "?y"),), temporal=True, quality=quality)


def chain() -> Rule:
    body = (Atom("ask", "?x", "?z"), Atom("ask", "?w", "?z"), Atom("visit", "?w", "?y"))
    quality = RuleQuality(support=20, body_size=90, confidence=0.2)
    return Rule(Atom("visit", "?x", "?y"), body, temporal=True, quality=quality)


def asked(graph: KnowledgeGraph, relation: str = "visit") -> tuple[np.ndarray, ...]:
    rows = np.flatnonzero(graph.test.relation == graph.relations.id(relation))
    table = graph.test
    return tuple(c[rows] for c in (table.subject, table.relation, table.timestamp, table.object))


def hits(application: object, graph: KnowledgeGraph) -> float:
    subject, relation, time, answer = asked(graph)
    found = application.candidates(subject, relation, time)
    best = [entity[np.argmax(score)] for entity, score in map(found.of, range(len(found)))]
    return float(np.mean(np.array(best) == answer))


def fitted(graph: KnowledgeGraph, rules: list[Rule], **settings: object):
    known = list(graph.splits.values())
    return LearnedTemporalInference(rules, known, **settings).fit([graph.train])


def test_recency_gets_the_weight_that_it_deserves() -> None:
    recent = world(lag=1)
    known = list(recent.splits.values())
    assert hits(TemporalInference([one_rule()], known), recent) == 1.0
    assert hits(fitted(recent, [one_rule()], **FAST), recent) == 1.0
    # Who was asked four steps ago is visited: noisy-or prefers who was asked last.
    late = world(lag=4)
    known = list(late.splits.values())
    assert hits(TemporalInference([one_rule()], known), late) == 0.0
    assert hits(fitted(late, [one_rule()], **FAST), late) == 1.0


def test_redundant_rules_do_not_add_up() -> None:
    """Three relations that always hold together say one thing; noisy-or counts it three times."""
    rows = []
    for time in range(40):
        for person in range(6):
            liked, met = (time + person) % 5, (time + 2 * person + 1) % 7 + 10
            rows += [(f"p{person}", f"like{i}", f"q{liked}", time) for i in range(3)]
            rows += [(f"p{person}", "meet", f"q{met}", time)]
            if time:
                rows += [(f"p{person}", "visit", f"q{(time + 2 * person) % 7 + 10}", time)]
    facts = [Fact(s, r, o, t) for s, r, o, t in rows]
    graph = KnowledgeGraph.from_facts(
        [f for f in facts if f.timestamp < 30], test=[f for f in facts if f.timestamp >= 30]
    )
    rules = [*(one_rule(f"like{i}", 0.4) for i in range(3)), one_rule("meet", 0.6)]
    noisy_or = hits(TemporalInference(rules, list(graph.splits.values())), graph)
    assert noisy_or < 0.5 < 0.95 < hits(fitted(graph, rules, **FAST), graph)


def test_the_loss_falls_and_nothing_is_left_to_chance() -> None:
    graph = world(lag=2)
    rules = [one_rule(), chain()]
    one, two = fitted(graph, rules, passes=3), fitted(graph, rules, passes=3, threads=2)
    assert one.loss == two.loss
    assert one.loss[0] > one.loss[1] > one.loss[2]
    columns = asked(graph)[:3]
    first, second = one.candidates(*columns), two.candidates(*columns)
    assert np.array_equal(first.entity, second.entity)
    assert np.array_equal(first.score, second.score)
    total = np.add.reduceat(first.score, first.bounds[:-1])
    assert total == pytest.approx(np.ones(len(total)))


def test_later_facts_change_nothing() -> None:
    graph = world(lag=2)
    subject, relation, time, _ = asked(graph)
    early = time == time.min()
    full = fitted(graph, [one_rule(), chain()])
    short = LearnedTemporalInference([one_rule(), chain()], [graph.train]).fit([graph.train])
    queries = subject[early], relation[early], time[early]
    for one, other in zip(
        vars(full.candidates(*queries)).values(),
        vars(short.candidates(*queries)).values(),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_only_the_latest_queries() -> None:
    graph = world(lag=2)
    assert fitted(graph, [one_rule()], max_queries=20).learned == 20


def test_contributions_add_up_to_the_odds() -> None:
    graph = world(lag=2)
    rules = [one_rule(), chain()]
    application = fitted(graph, rules)
    subject, relation, time, answer = (int(column[0]) for column in asked(graph))
    entity, score = application.candidates(*np.array([[subject], [relation], [time]])).of(0)
    sums = {}
    for candidate in entity.tolist():
        found = application.explain(subject, relation, time, candidate)
        sums[candidate] = sum(one.value for one in found if one.value is not None)
    for candidate, probability in zip(entity.tolist(), score, strict=True):
        wanted = math.log(probability / score[entity.tolist().index(answer)])
        assert sums[candidate] - sums[answer] == pytest.approx(wanted, abs=1e-6)
    found = application.explain(subject, relation, time, answer)
    assert {one.rule for one in found if one.rule} == set(rules)
    values = [abs(one.value) for one in found if one.value is not None]
    assert values == sorted(values, reverse=True)
    words = [one.evidence for one in found]
    assert "they met" in words
    assert any("the last time 2 steps ago" in word for word in words)
    assert any("begun" in word for word in words)


def test_bad_input(toy_graph: KnowledgeGraph) -> None:
    graph = world(lag=2)
    facts = [graph.train]
    for key, value in (
        ("rate", 0.0),
        ("fine_rate", math.nan),
        ("shrinkage", 2.0),
        ("passes", 0),
        ("max_queries", 0),
        ("threads", 0),
    ):
        with pytest.raises(ConfigError, match=key):
            LearnedTemporalInference([one_rule()], facts, **{key: value})
    with pytest.raises(ConfigError, match="facts"):
        LearnedTemporalInference([one_rule()], [])
    with pytest.raises(MiningError, match="no timestamps"):
        LearnedTemporalInference([one_rule()], [toy_graph.train])
    static = Rule(Atom("visit", "?x", "?y"), (Atom("ask", "?x", "?y"),))
    with pytest.raises(MiningError, match="static"):
        LearnedTemporalInference([static], facts, min_confidence=0.0)
    bare = LearnedTemporalInference([one_rule()], facts)
    for call in (
        lambda: bare.candidates(*np.zeros((3, 1), np.int32)),
        lambda: bare.explain(0, 0, 50, 0),
    ):
        with pytest.raises(MiningError, match="fit"):
            call()
    with pytest.raises(EmptyDataError, match="learn from"):
        bare.fit([])
    with pytest.raises(MiningError, match="vocabulary"):
        bare.fit([KnowledgeGraph.from_facts([Fact("a", "b", "c", 0)]).train])
    with pytest.raises(EmptyDataError, match="no past answer"):
        bare.fit([graph.train.select(graph.train.timestamp == 0, "train")])
    bare.fit(facts)
    with pytest.raises(MiningError, match="entity ids"):
        bare.candidates(*np.full((3, 1), 99))
    with pytest.raises(MiningError, match="no relation id"):
        bare.explain(0, 9, 50, 0)
    p0, p1 = graph.entities.id("p0"), graph.entities.id("p1")
    with pytest.raises(MiningError, match="no candidate"):
        bare.explain(p0, graph.relations.id("visit"), 50, p1)


def test_without_rules_and_without_queries() -> None:
    graph = world(lag=2)
    application = fitted(graph, [])
    assert hits(application, graph) > 0.5  # recency of contact is learned even so
    none = np.zeros(0, np.int32)
    assert len(application.candidates(none, none, none)) == 0
