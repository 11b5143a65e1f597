"""Static rules applied: candidates and their order against plain definitions, and bad input."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from rulerag.errors import ConfigError, MiningError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.inference.engine import StaticInference
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Fact

BODIES = [
    [("?x", "?y")],
    [("?x", "?z"), ("?z", "?y")],
    [("?z", "?y"), ("?x", "?z")],
    [("?x", "?y"), ("?x", "?y")],
]


def random_rule(rng: random.Random) -> Rule:
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


@pytest.mark.parametrize("seed", range(12))
def test_candidates_and_their_order_equal_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    triples = {(rng.randrange(6), rng.randrange(3), rng.randrange(6)) for _ in range(14)}
    given = [(f"e{s}", f"r{r}", f"e{o}") for s, r, o in sorted(triples)]
    graph = KnowledgeGraph.from_facts([*given, *((f"e{i}", f"r{i % 3}", "e0") for i in range(6))])
    rules = list({rule.id: rule for rule in (random_rule(rng) for _ in range(12))}.values())
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
        order = zip(best.score[place], best.tie[place], strict=True)
        by_rank = dict(zip(found, order, strict=True))
        for one, other in itertools.combinations(found, 2):
            assert (by_rank[one] > by_rank[other]) == (wanted[one] > wanted[other])
            assert (by_rank[one] == by_rank[other]) == (wanted[one] == wanted[other])
        entity, score = joined.of(number)
        noisy_or = {e: 1 - math.prod(1 - value for value in wanted[e]) for e in wanted}
        assert dict(zip((entities[e] for e in entity), score, strict=True)) == pytest.approx(
            noisy_or, abs=1e-6
        )


def test_confidence_and_threshold(toy_graph: KnowledgeGraph) -> None:
    quality = RuleQuality(pca_confidence=0.8, standard_confidence=0.4)
    rule = Rule(Atom("lives_in", "?x", "?y"), (Atom("born_in", "?x", "?y"),), quality=quality)
    query = np.array([toy_graph.entities.id("cid")]), np.array([toy_graph.relations.id("lives_in")])

    def scores(**settings: object) -> list[float]:
        return (
            StaticInference([rule], [toy_graph.train], **settings).candidates(*query).of(0)[1]
        ).tolist()

    assert scores() == pytest.approx([0.8])
    assert scores(confidence="standard") == pytest.approx([0.4])
    assert scores(min_confidence=0.9) == []
    assert scores(threads=2) == pytest.approx([0.8])


def test_bad_input(toy_graph: KnowledgeGraph, toy_temporal_graph: KnowledgeGraph) -> None:
    atom = Atom("born_in", "?x", "?y")
    rule = Rule(Atom("lives_in", "?x", "?y"), (atom,))
    with pytest.raises(ConfigError, match="aggregate"):
        StaticInference([rule], [toy_graph.train], aggregate="mean")
    with pytest.raises(ConfigError, match="confidence"):
        StaticInference([rule], [toy_graph.train], confidence="laplace")
    with pytest.raises(ConfigError, match="facts"):
        StaticInference([rule], [])
    with pytest.raises(MiningError, match="dated"):
        StaticInference([rule], [toy_temporal_graph.train])
    for wrong in (
        Rule(rule.head, (atom,), temporal=True),
        Rule(rule.head, (Atom("born_in", "?x", "?z"), Atom("born_in", "?x", "?y"))),
        Rule(rule.head, (atom, atom, atom)),
    ):
        with pytest.raises(MiningError, match="cannot be applied"):
            StaticInference([wrong], [toy_graph.train])
