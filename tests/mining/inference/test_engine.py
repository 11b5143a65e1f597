"""Rules applied: candidates and scores against plain definitions on random graphs, bad input."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from rulerag.errors import ConfigError, MiningError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.inference.engine import StaticInference, TemporalInference
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
@pytest.mark.parametrize("seed", range(12))
def test_scores_equal_the_definition(seed: int, top_k: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng)
    rules = [random_rule(rng, number) for number in range(14)]
    if seed % 2:  # no rule names an inverse head: bodies of one atom speak for both directions
        rules = [rule for rule in rules if rule.head.subject == "?x"]
    rules = list({rule.id: rule for rule in rules}.values())
    facts = set(graph.train)
    application = TemporalInference(rules, [graph.train], top_k=top_k, min_confidence=0.0)
    entities, relations = graph.entities.names, graph.relations.names
    places = range(len(entities)), range(len(relations)), (False, True), (0, 72, 200)
    queries = list(itertools.product(*places))
    columns = np.array([(s, r + inverse * len(relations), t) for s, r, inverse, t in queries])
    candidates = application.candidates(*columns.T)
    for number, (s, r, inverse, time) in enumerate(queries):
        entity, score = candidates.of(number)
        found = dict(zip((entities[e] for e in entity), score, strict=True))
        wanted = plain_scores(rules, facts, (entities[s], relations[r], inverse, time), top_k)
        assert found == pytest.approx(wanted, abs=1e-6)


# --- static rules ---

BODIES = [
    [("?x", "?y")],
    [("?x", "?z"), ("?z", "?y")],
    [("?z", "?y"), ("?x", "?z")],
    [("?x", "?y"), ("?x", "?y")],
]


def random_static_rule(rng: random.Random) -> Rule:
    body = [
        Atom(f"r{rng.randrange(3)}", *rng.choice([ends, ends[::-1]])) for ends in rng.choice(BODIES)
    ]
    confidence = rng.randrange(1, 5) / 5
    quality = RuleQuality(pca_confidence=confidence, standard_confidence=confidence / 2)
    return Rule(Atom(f"r{rng.randrange(3)}", "?x", "?y"), tuple(body), quality=quality)


def confidences(
    rules: list[Rule], facts: list[Fact], known: str, relation: str, inverse: bool
) -> dict[str, list[float]]:
    """The confidences of the rules that reach each entity, largest first."""
    found: dict[str, list[float]] = {}
    start, end = ("?y", "?x") if inverse else ("?x", "?y")
    for rule in rules:
        ends = set()
        for chosen in itertools.product(facts, repeat=len(rule.body)):
            bound = {start: known}
            if rule.head.relation == relation and all(
                fact.relation == atom.relation
                and bound.setdefault(atom.subject, fact.subject) == fact.subject
                and bound.setdefault(atom.object, fact.object) == fact.object
                for atom, fact in zip(rule.body, chosen, strict=True)
            ):
                ends.add(bound[end])
        for entity in ends:
            found.setdefault(entity, []).append(rule.quality.pca_confidence)
    return {entity: sorted(values, reverse=True) for entity, values in found.items()}


@pytest.mark.parametrize("seed", range(6))
def test_static_candidates_and_their_order_equal_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    triples = {(rng.randrange(6), rng.randrange(3), rng.randrange(6)) for _ in range(14)}
    given = [(f"e{s}", f"r{r}", f"e{o}") for s, r, o in sorted(triples)]
    graph = KnowledgeGraph.from_facts([*given, *((f"e{i}", f"r{i % 3}", "e0") for i in range(6))])
    rules = list({rule.id: rule for rule in (random_static_rule(rng) for _ in range(12))}.values())
    facts, entities, relations = list(graph.train), graph.entities.names, graph.relations.names
    rows = np.array(list(itertools.product(range(len(entities)), range(2 * len(relations)))))
    best = StaticInference(rules, [graph.train]).candidates(*rows.T)
    joined = StaticInference(rules, [graph.train], aggregate="noisy-or").candidates(*rows.T)
    for number, (s, directed) in enumerate(rows.tolist()):
        inverse, relation = divmod(directed, len(relations))
        wanted = confidences(rules, facts, entities[s], relations[relation], bool(inverse))
        place = slice(*best.bounds[best.row[number] :][:2])
        found = [entities[e] for e in best.entity[place]]
        assert set(found) == set(wanted)
        rank = dict(zip(found, zip(best.score[place], best.tie[place], strict=True), strict=True))
        for one, other in itertools.combinations(found, 2):
            assert (rank[one] > rank[other]) == (wanted[one] > wanted[other])
            assert (rank[one] == rank[other]) == (wanted[one] == wanted[other])
        entity, score = joined.of(number)
        noisy_or = {e: 1 - math.prod(1 - value for value in wanted[e]) for e in wanted}
        assert dict(zip((entities[e] for e in entity), score, strict=True)) == pytest.approx(
            noisy_or, abs=1e-6
        )


# --- settings ---


def dated_rule(*body: Atom, **quality: float) -> Rule:
    counts = {"support": 3, "body_size": 4, "confidence": 0.75, **quality}
    return Rule(
        Atom("visit", "?x", "?y"),
        body or (Atom("criticise", "?x", "?y"),),
        temporal=True,
        quality=RuleQuality(**counts),
    )


def test_a_score_by_hand_and_the_settings(
    toy_temporal_graph: KnowledgeGraph, toy_graph: KnowledgeGraph
) -> None:
    graph = toy_temporal_graph
    query = [graph.entities.id("italy"), graph.relations.id("visit")]

    def scores(time: int = 8, **settings: float) -> dict[str, float]:
        application = TemporalInference([dated_rule()], [graph.train], **settings)
        entity, score = application.candidates(*np.array([[*query, time]]).T).of(0)
        return {graph.entities.names[e]: float(s) for e, s in zip(entity, score, strict=True)}

    france, spain = 0.375 + 0.5 * math.exp(-0.8), 0.375 + 0.5 * math.exp(-0.5)
    assert scores() == pytest.approx({"france": france, "spain": spain})
    assert scores(weight=1.0) == pytest.approx({"france": 0.75, "spain": 0.75})
    smoothed = scores(weight=1.0, smoothing=2.0)
    assert smoothed == pytest.approx({"france": 0.5, "spain": 0.5})
    assert scores(min_confidence=0.8) == scores(min_body_size=5) == {}
    # Facts at the queried time are unknown.
    assert [len(scores(time)) for time in (0, 1, 4)] == [0, 1, 2]

    quality = RuleQuality(pca_confidence=0.8, standard_confidence=0.4)
    rule = Rule(Atom("lives_in", "?x", "?y"), (Atom("born_in", "?x", "?y"),), quality=quality)
    asked = np.array([toy_graph.entities.id("cid")]), np.array([toy_graph.relations.id("lives_in")])
    for settings, wanted in (
        ({}, [0.8]),
        ({"confidence": "standard"}, [0.4]),
        ({"min_confidence": 0.9}, []),
        ({"threads": 2}, [0.8]),
    ):
        application = StaticInference([rule], [toy_graph.train], **settings)
        assert application.candidates(*asked).of(0)[1].tolist() == pytest.approx(wanted)


def test_alike_queries_share_and_threads_agree(toy_temporal_graph: KnowledgeGraph) -> None:
    table = toy_temporal_graph.train
    columns = [np.tile(c, 3) for c in (table.subject, table.relation, table.timestamp)]
    one, two = (
        TemporalInference([dated_rule()], [table], threads=number).candidates(*columns)
        for number in (1, 2)
    )
    assert len(one) == 30 and len(one.bounds) == 11
    for left, right in zip(vars(one).values(), vars(two).values(), strict=True):
        assert np.array_equal(left, right)
    none = TemporalInference([dated_rule()], [table]).candidates(*np.zeros((3, 0), np.int32))
    bare = TemporalInference([], [table]).candidates(*np.zeros((3, 1), np.int32))
    assert len(none) == 0 and len(bare.of(0)[0]) == 0


BORN, PRAISE = Atom("born_in", "?x", "?y"), Atom("praise", "?x", "?y")
LIVES, VISIT = Atom("lives_in", "?x", "?y"), Atom("visit", "?x", "?y")
APART = Atom("born_in", "?x", "?z")


@pytest.mark.parametrize(
    ("rule", "settings", "error", "words"),
    [
        (Rule(VISIT, (PRAISE,)), {}, MiningError, "static"),
        (dated_rule(Atom("praise", "?x", "?z")), {}, MiningError, "no walk"),
        (dated_rule(*4 * [PRAISE]), {}, MiningError, "4 body atoms"),
        *(
            (dated_rule(), {key: value}, ConfigError, key)
            for key, value in (("decay", -1.0), ("weight", 2.0), ("smoothing", -1.0), ("top_k", -1))
        ),
        (Rule(LIVES, (BORN,)), {"aggregate": "mean"}, ConfigError, "aggregate"),
        (Rule(LIVES, (BORN,)), {"confidence": "laplace"}, ConfigError, "confidence"),
        (Rule(LIVES, (BORN,), temporal=True), {}, MiningError, "cannot be applied"),
        (Rule(LIVES, (APART, BORN)), {}, MiningError, "cannot be applied"),
        (Rule(LIVES, (BORN, BORN, BORN)), {}, MiningError, "cannot be applied"),
    ],
)
def test_bad_rules_and_settings(
    rule: Rule,
    settings: dict[str, object],
    error: type[Exception],
    words: str,
    toy_graph: KnowledgeGraph,
    toy_temporal_graph: KnowledgeGraph,
) -> None:
    dated = rule.head is not LIVES
    inference = TemporalInference if dated else StaticInference
    facts = toy_temporal_graph if dated else toy_graph
    with pytest.raises(error, match=words):
        inference([rule], [facts.train], **{"min_confidence": 0.0, **settings})


def test_bad_facts_and_queries(
    toy_graph: KnowledgeGraph, toy_temporal_graph: KnowledgeGraph
) -> None:
    with pytest.raises(MiningError, match="no timestamps"):
        TemporalInference([dated_rule()], [toy_graph.train])
    with pytest.raises(MiningError, match="dated"):
        StaticInference([], [toy_temporal_graph.train])
    with pytest.raises(ConfigError, match="facts"):
        StaticInference([], [])
    with pytest.raises(MiningError, match="entity ids"):
        TemporalInference([], [toy_temporal_graph.train]).candidates(*np.full((3, 1), 99))
