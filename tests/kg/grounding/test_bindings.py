"""Groundings of rule bodies against enumeration of every binding."""

from __future__ import annotations

import itertools
import random

import pytest

from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding.bindings import FactIndex, body_order, ground
from rulerag.kg.grounding.index import TableIndex
from rulerag.rules import Atom, Rule
from rulerag.types import Fact

SHAPES = [
    (Atom("p", "?x", "?y"),),
    (Atom("p", "?y", "?x"),),
    (Atom("p", "?x", "?z"), Atom("q", "?z", "?y")),
    (Atom("q", "?z", "?y"), Atom("p", "?z", "?x")),
    (Atom("p", "?x", "?y"), Atom("q", "?x", "?y")),
    (Atom("p", "?x", "?z"), Atom("q", "?z", "?w"), Atom("p", "?w", "?y")),
    (Atom("p", "?x", "?x"), Atom("q", "?x", "?y")),
    (Atom("p", "?x", "?y"), Atom("q", "?x", "?z"), Atom("p", "?x", "?z")),
    (Atom("p", "?z", "?y"), Atom("p", "?w", "?z"), Atom("q", "?w", "?x")),
    (Atom("p", "?x", "c"), Atom("q", "?x", "?y")),
    (Atom("p", "?x", "?z"), Atom("q", "?z", "c"), Atom("q", "b", "?y")),
]
WITH_CONSTANTS = [
    Rule(Atom("h", "?x", "b"), (Atom("p", "?x", "c"),)),
    Rule(Atom("h", "?x", "b"), (Atom("p", "?x", "?z"), Atom("q", "?z", "c"))),
    Rule(Atom("h", "a", "?y"), (Atom("p", "?y", "c"),)),
    Rule(Atom("h", "b", "?y"), (Atom("p", "?y", "c"),)),
]


def enumerate_groundings(
    rule: Rule, subject: str, facts: list[Fact], before: int | None
) -> set[tuple[str, tuple[int, ...]]]:
    """Try every tuple of facts for the body; keep those that bind consistently and in time."""
    found = set()
    for rows in itertools.product(range(len(facts)), repeat=len(rule.body)):
        bound = {name: name for name in "abc"}
        if bound.setdefault(rule.head.subject, subject) != subject:
            continue
        chosen = [facts[row] for row in rows]
        consistent = all(
            fact.relation == atom.relation
            and bound.setdefault(atom.subject, fact.subject) == fact.subject
            and bound.setdefault(atom.object, fact.object) == fact.object
            for atom, fact in zip(rule.body, chosen, strict=True)
        )
        times = [fact.timestamp for fact in chosen if fact.timestamp is not None]
        if before is not None and any(t >= before for t in times):
            continue
        if rule.temporal and times != sorted(times):
            continue
        if consistent and rule.head.object in bound:
            found.add((bound[rule.head.object], rows))
    return found


def random_facts(seed: int, *, temporal: bool) -> list[Fact]:
    rng = random.Random(seed)
    return [
        Fact(
            rng.choice("abc"),
            rng.choice("pq"),
            rng.choice("abc"),
            rng.randrange(4) if temporal else None,
        )
        for _ in range(8)
    ]


@pytest.mark.parametrize("temporal", [False, True])
@pytest.mark.parametrize("body", SHAPES, ids=lambda b: f"{len(b)}-{b[0].subject}{b[0].object}")
def test_ground_equals_enumeration(body: tuple[Atom, ...], temporal: bool) -> None:
    rule = Rule(Atom("h", "?x", "?y"), body, temporal=temporal)
    for seed in range(10):
        facts = random_facts(seed, temporal=temporal)
        before = 3 if temporal else None
        expected = enumerate_groundings(rule, "a", facts, before)
        found = ground(rule, "a", FactIndex(enumerate(facts)), before)
        assert {(g.answer, g.rows) for g in found} == expected
        assert len(found) == len(expected)


@pytest.mark.parametrize("rule", WITH_CONSTANTS, ids=lambda rule: rule.text)
def test_constants_in_heads(rule: Rule) -> None:
    for seed in range(20):
        facts = random_facts(seed, temporal=False)
        expected = enumerate_groundings(rule, "a", facts, None)
        assert {
            (g.answer, g.rows) for g in ground(rule, "a", FactIndex(enumerate(facts)))
        } == expected


def test_latest_is_the_latest_body_fact() -> None:
    facts = [Fact("a", "p", "b", 1), Fact("b", "q", "c", 5)]
    rule = Rule(Atom("h", "?x", "?y"), SHAPES[2], temporal=True)
    (grounding,) = ground(rule, "a", FactIndex(enumerate(facts)))
    assert (grounding.answer, grounding.latest) == ("c", 5)


def test_bodies_are_ordered_so_that_joins_stay_small() -> None:
    closing = (Atom("p", "?x", "?z"), Atom("q", "?z", "?y"), Atom("p", "?x", "?x"))
    assert body_order(Rule(Atom("h", "?x", "?y"), closing)) == [2, 0, 1]
    constant = (Atom("q", "c", "?y"), Atom("p", "?x", "?z"), Atom("p", "?z", "?y"))
    assert body_order(Rule(Atom("h", "?x", "?y"), constant)) == [1, 2, 0]
    apart = (Atom("q", "?z", "?w"), Atom("p", "?x", "?y"))
    assert body_order(Rule(Atom("h", "?x", "?y"), apart)) == [1, 0]


def test_a_body_that_is_not_connected_grounds_nothing() -> None:
    facts = [Fact("a", "p", "b"), Fact("b", "q", "c")]
    apart = Rule(Atom("h", "?x", "?y"), (Atom("p", "?x", "?y"), Atom("q", "?z", "?w")))
    assert ground(apart, "a", FactIndex(enumerate(facts))) == []


def test_unknown_names_ground_nothing() -> None:
    table = FactIndex([(0, Fact("a", "p", "b"))])
    assert ground(Rule(Atom("h", "?x", "?y"), (Atom("p", "?x", "?y"),)), "nobody", table) == []
    assert ground(Rule(Atom("h", "?x", "?y"), (Atom("new", "?x", "?y"),)), "a", table) == []


def test_neighbours_show_a_loop_from_both_ends() -> None:
    train = KnowledgeGraph.from_facts([("a", "p", "a"), ("b", "p", "a")]).train
    around = TableIndex(train).neighbours(0)
    assert sorted(zip(around.relation.tolist(), around.other.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (1, 1),
    ]
