"""Rules applied: scores against plain definitions on random graphs, and bad input."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from rulerag.errors import ConfigError, MiningError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.inference.engine import TemporalInference
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Fact

NAMES = ("?x", "?z", "?w", "?y")


def random_graph(rng: random.Random) -> KnowledgeGraph:
    facts = [
        Fact(
            f"e{rng.randrange(5)}",
            f"r{rng.randrange(3)}",
            f"e{rng.randrange(5)}",
            rng.randrange(8) * 24,
        )
        for _ in range(rng.randrange(5, 40))
    ]
    everything = [Fact(f"e{i}", f"r{i % 3}", f"e{i}", 0) for i in range(5)]
    calendar = Calendar(unit="hour", origin="2014-01-01", step=24)
    return KnowledgeGraph.from_facts(facts + everything, calendar=calendar)


def random_rule(rng: random.Random, number: int) -> Rule:
    """A body that walks from ``?x``; variables in between may return."""
    length = rng.randrange(1, 4)
    places = ["?x", *NAMES[1:length], "?y"]
    for place in range(1, length):
        if rng.random() < 0.4:
            places[place] = places[rng.randrange(length + 1)]
    body = []
    for place in range(length):
        ends = places[place : place + 2]
        body.append(Atom(f"r{rng.randrange(3)}", *rng.choice([ends, ends[::-1]])))
    head = Atom(f"r{rng.randrange(3)}", *rng.choice([("?x", "?y"), ("?y", "?x")]))
    size = rng.randrange(2, 9)
    support = rng.randrange(1, size + 1)
    quality = RuleQuality(support=support, body_size=size, confidence=support / size)
    return Rule(head, tuple(body), True, quality, text=f"rule {number}")


def walks(rule: Rule, start: str, end: str) -> bool:
    for atom in rule.body:
        if start not in (atom.subject, atom.object):
            return False
        start = atom.object if start == atom.subject else atom.subject
    return start == end


def applies(rule: Rule, inverse: bool, rules: list[Rule]) -> bool:
    """Whether a rule predicts subjects (``inverse``) or objects."""
    ends = (rule.head.subject, rule.head.object)
    if not walks(rule, *(ends[::-1] if inverse else ends)):
        return False
    named = {len(other.body) for other in rules if other.head.subject == "?y"}
    both = walks(rule, *ends) and walks(rule, *ends[::-1])
    return not both or len(rule.body) not in named or inverse == (ends == ("?y", "?x"))


def first_times(
    rule: Rule, start: str, end: str, known: str, time: int, facts: set[Fact]
) -> dict[str, int]:
    """The latest first time of each entity that the body reaches, by listing all groundings."""
    found: dict[str, int] = {}
    before = [fact for fact in facts if fact.timestamp < time]
    options = [[f for f in before if f.relation == atom.relation] for atom in rule.body]
    for chosen in itertools.product(*options):
        bound = {start: known}
        times = [fact.timestamp for fact in chosen]
        if times != sorted(times):
            continue
        if all(
            bound.setdefault(variable, entity) == entity
            for atom, fact in zip(rule.body, chosen, strict=True)
            for variable, entity in ((atom.subject, fact.subject), (atom.object, fact.object))
        ):
            found[bound[end]] = max(found.get(bound[end], -1), times[0])
    return found


def plain_scores(
    rules: list[Rule], facts: set[Fact], query: tuple[str, str, bool, int], top_k: int
) -> dict[str, float]:
    """TLogic's application, straight from its description."""
    known, relation, inverse, time = query
    scores: dict[str, list[float]] = {}
    for rule in sorted(rules, key=lambda rule: -rule.ranking_confidence):
        start, end = rule.head.subject, rule.head.object
        if inverse:
            start, end = end, start
        if rule.head.relation != relation or not applies(rule, inverse, rules):
            continue
        reached = first_times(rule, start, end, known, time, facts)
        for entity, first in reached.items():
            recency = math.exp(0.1 * (first - time) / 24)
            score = 0.5 * rule.quality.support / rule.quality.body_size + 0.5 * recency
            scores.setdefault(entity, []).append(float(np.float32(score)))
        best = sorted((sorted(values, reverse=True) for values in scores.values()), reverse=True)
        if reached and top_k and len(best) >= top_k:
            top = best[:top_k]
            if all(one != other for one, other in itertools.pairwise(top)):
                break
    return {e: 1 - math.prod(1 - score for score in values) for e, values in scores.items()}


@pytest.mark.parametrize("top_k", [0, 2])
@pytest.mark.parametrize("seed", range(30))
def test_scores_equal_the_definition(seed: int, top_k: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng)
    rules = [random_rule(rng, number) for number in range(14)]
    if seed % 2:  # no rule names an inverse head: bodies of one atom speak for both directions
        rules = [rule for rule in rules if rule.head.subject == "?x"]
    check(graph, list({rule.id: rule for rule in rules}.values()), top_k)


def check(graph: KnowledgeGraph, rules: list[Rule], top_k: int) -> None:
    facts = set(graph.train)
    application = TemporalInference(rules, [graph.train], top_k=top_k, min_confidence=0.0)
    entities, relations = graph.entities.names, graph.relations.names
    queries = [
        (s, r, inverse, time)
        for s in range(len(entities))
        for r in range(len(relations))
        for inverse in (False, True)
        for time in (0, 72, 200)
    ]
    columns = np.array([(s, r + inverse * len(relations), t) for s, r, inverse, t in queries])
    candidates = application.candidates(*columns.T)
    for number, (s, r, inverse, time) in enumerate(queries):
        entity, score = candidates.of(number)
        found = dict(zip((entities[e] for e in entity), score, strict=True))
        wanted = plain_scores(rules, facts, (entities[s], relations[r], inverse, time), top_k)
        assert found == pytest.approx(wanted, abs=1e-6)


def one_rule(**quality: float) -> Rule:
    counts = {"support": 3, "body_size": 4, "confidence": 0.75, **quality}
    return Rule(
        Atom("visit", "?x", "?y"),
        (Atom("criticise", "?x", "?y"),),
        temporal=True,
        quality=RuleQuality(**counts),
    )


def test_a_score_by_hand_and_the_settings(toy_temporal_graph: KnowledgeGraph) -> None:
    graph = toy_temporal_graph
    ids = graph.entities.id
    query = [np.array([ids("italy")]), np.array([graph.relations.id("visit")]), np.array([8])]

    def scores(rule: Rule, **settings: float) -> dict[str, float]:
        application = TemporalInference([rule], [graph.train], **settings)
        entity, score = application.candidates(*query).of(0)
        return {graph.entities.names[e]: float(s) for e, s in zip(entity, score, strict=True)}

    wanted = {
        "france": 0.375 + 0.5 * math.exp(-0.8),
        "spain": 0.375 + 0.5 * math.exp(-0.5),
    }
    assert scores(one_rule()) == pytest.approx(wanted)
    assert scores(one_rule(), weight=1.0) == pytest.approx({"france": 0.75, "spain": 0.75})
    smoothed = scores(one_rule(), weight=1.0, smoothing=2.0)
    assert smoothed == pytest.approx({"france": 0.5, "spain": 0.5})
    assert scores(one_rule(), min_confidence=0.8) == {}
    assert scores(one_rule(), min_body_size=5) == {}


def test_facts_at_the_queried_time_are_unknown(toy_temporal_graph: KnowledgeGraph) -> None:
    graph = toy_temporal_graph
    application = TemporalInference([one_rule()], [graph.train])
    italy, visit = graph.entities.id("italy"), graph.relations.id("visit")
    found = application.candidates(
        np.array([italy] * 3), np.array([visit] * 3), np.array([0, 1, 4])
    )
    assert [len(found.of(i)[0]) for i in range(3)] == [0, 1, 2]


def test_alike_queries_share_and_threads_agree(toy_temporal_graph: KnowledgeGraph) -> None:
    graph = toy_temporal_graph
    table = graph.train
    columns = [np.tile(c, 3) for c in (table.subject, table.relation, table.timestamp)]
    one = TemporalInference([one_rule()], [table]).candidates(*columns)
    two = TemporalInference([one_rule()], [table], threads=2).candidates(*columns)
    assert len(one) == 30
    assert len(one.bounds) == 11
    for left, right in zip(vars(one).values(), vars(two).values(), strict=True):
        assert np.array_equal(left, right)


def test_no_queries_and_no_rules(toy_temporal_graph: KnowledgeGraph) -> None:
    none = np.zeros(0, np.int32)
    empty = TemporalInference([one_rule()], [toy_temporal_graph.train])
    assert len(empty.candidates(none, none, none)) == 0
    bare = TemporalInference([], [toy_temporal_graph.train])
    assert len(bare.candidates(*np.zeros((3, 1), np.int32)).of(0)[0]) == 0


def test_bad_input(toy_graph: KnowledgeGraph, toy_temporal_graph: KnowledgeGraph) -> None:
    facts = [toy_temporal_graph.train]
    static = Rule(Atom("visit", "?x", "?y"), (Atom("praise", "?x", "?y"),))
    with pytest.raises(MiningError, match="static"):
        TemporalInference([static], facts, min_confidence=0.0)
    with pytest.raises(MiningError, match="no timestamps"):
        TemporalInference([one_rule()], [toy_graph.train])
    open_body = Rule(Atom("visit", "?x", "?y"), (Atom("praise", "?x", "?z"),), temporal=True)
    with pytest.raises(MiningError, match="no walk"):
        TemporalInference([open_body], facts, min_confidence=0.0)
    long = Rule(static.head, (static.body[0],) * 4, temporal=True)
    with pytest.raises(MiningError, match="4 body atoms"):
        TemporalInference([long], facts, min_confidence=0.0)
    for key, value in (("decay", -1.0), ("weight", 2.0), ("smoothing", -1.0), ("top_k", -1)):
        with pytest.raises(ConfigError, match=key):
            TemporalInference([one_rule()], facts, **{key: value})
    with pytest.raises(MiningError, match="entity ids"):
        TemporalInference([one_rule()], facts).candidates(*np.full((3, 1), 99))
