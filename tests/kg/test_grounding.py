"""Groundings of rule bodies against enumeration of every binding."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from rulerag.kg.evidence import EvidenceModel, noisy_or
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding import FactIndex, TableIndex, ground
from rulerag.kg.grounding_table import ground_table
from rulerag.rules import Atom, Rule, RuleQuality
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
HEADS = [Atom("h", "?x", "?y"), Atom("h", "?y", "?x")]
WITH_CONSTANTS = [
    Rule(Atom("h", "?x", "b"), (Atom("p", "?x", "c"),)),
    Rule(Atom("h", "?x", "b"), (Atom("p", "?x", "?z"), Atom("q", "?z", "c"))),
    Rule(Atom("h", "a", "?y"), (Atom("p", "?y", "c"),)),
    Rule(Atom("h", "b", "?y"), (Atom("p", "?y", "c"),)),
]
NEW_ANSWER = Rule(Atom("h", "?x", "nobody"), (Atom("p", "?x", "c"),))


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
    chance = random.Random(seed)
    return [
        Fact(
            chance.choice("abc"),
            chance.choice("pq"),
            chance.choice("abc"),
            chance.randrange(4) if temporal else None,
        )
        for _ in range(8)
    ]


@pytest.mark.parametrize("temporal", [False, True])
@pytest.mark.parametrize("body", SHAPES, ids=lambda b: f"{len(b)}-{b[0].subject}{b[0].object}")
def test_ground_equals_enumeration(body: tuple[Atom, ...], temporal: bool) -> None:
    rule = Rule(Atom("h", "?x", "?y"), body, temporal=temporal)
    for seed in range(10):
        facts = random_facts(seed, temporal=temporal)
        table = TableIndex(KnowledgeGraph.from_facts(facts).train)
        before = 3 if temporal else None
        expected = enumerate_groundings(rule, "a", facts, before)
        for index in (FactIndex(facts), table):
            found = ground(rule, "a", index, before)
            assert {(g.answer, g.rows) for g in found} == expected
            assert len(found) == len(expected)


@pytest.mark.parametrize("temporal", [False, True])
def test_all_rules_at_once_ground_as_one_by_one(temporal: bool) -> None:
    rules = [Rule(head, body, temporal=temporal) for head in HEADS for body in SHAPES]
    rules += [Rule(r.head, r.body, temporal=temporal) for r in WITH_CONSTANTS]
    for seed in range(40):
        facts = random_facts(seed, temporal=temporal)
        table = TableIndex(KnowledgeGraph.from_facts(facts).train)
        before = 3 if temporal and seed % 2 else None
        found = ground_table(rules, "a", table, before)
        names = table.facts.entities.names
        for number, rule in enumerate(rules):
            mine = np.flatnonzero(found.rule == number)
            got = {
                (names[found.answer[i]], tuple(found.rows[i, : len(rule.body)].tolist()))
                for i in mine
            }
            expected = {(g.answer, g.rows) for g in ground(rule, "a", table, before)}
            assert got == expected and len(mine) == len(expected), (seed, rule.text)
            assert (found.rows[mine, len(rule.body) :] == -1).all()
            if temporal and found.latest is not None:
                times = np.array([f.timestamp for f in facts])
                rows = found.rows[mine, : len(rule.body)]
                assert (found.latest[mine] == times[rows].max(axis=1, initial=-1)).all()
        assert (np.diff(found.rule) >= 0).all()


@pytest.mark.parametrize("rule", WITH_CONSTANTS, ids=lambda rule: rule.text)
def test_constants_in_heads(rule: Rule) -> None:
    for seed in range(20):
        facts = random_facts(seed, temporal=False)
        table = TableIndex(KnowledgeGraph.from_facts(facts).train)
        expected = enumerate_groundings(rule, "a", facts, None)
        assert {(g.answer, g.rows) for g in ground(rule, "a", table)} == expected


def test_a_table_of_no_rules_and_of_unknown_names_is_empty() -> None:
    table = TableIndex(KnowledgeGraph.from_facts([("a", "p", "b")]).train)
    plain = Rule(Atom("h", "?x", "?y"), (Atom("p", "?x", "?y"),))
    new = Rule(Atom("h", "?x", "?y"), (Atom("new", "?x", "?y"),))
    apart = Rule(Atom("h", "?x", "?y"), (Atom("p", "?z", "?y"), Atom("p", "?z", "?w")))
    for rules, subject in (([], "a"), ([plain], "nobody"), ([new, apart, NEW_ANSWER], "a")):
        assert len(ground_table(rules, subject, table)) == 0
    found = ground_table([new, plain], "a", table)
    assert (found.rule.tolist(), found.rows.tolist()) == ([1], [[0]])


def test_latest_is_the_latest_body_fact() -> None:
    facts = [Fact("a", "p", "b", 1), Fact("b", "q", "c", 5)]
    rule = Rule(Atom("h", "?x", "?y"), SHAPES[2], temporal=True)
    (grounding,) = ground(rule, "a", FactIndex(facts))
    assert (grounding.answer, grounding.latest) == ("c", 5)


def test_unknown_names_ground_nothing() -> None:
    table = TableIndex(KnowledgeGraph.from_facts([("a", "p", "b")]).train)
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


def test_evidence_smooths_and_fades() -> None:
    rule = Rule(
        Atom("h", "?x", "?y"),
        (Atom("p", "?x", "?y"),),
        temporal=True,
        quality=RuleQuality(support=8, body_size=10, confidence=0.8),
    )
    assert EvidenceModel(prior=0).confidence(rule) == 0.8
    assert EvidenceModel(prior=0, sharpness=2).confidence(rule) == pytest.approx(0.64)
    model = EvidenceModel(prior=6, decay=0.5, time_step=24)
    assert model.confidence(rule) == 0.5
    assert model.weight(rule, 72, 24) == pytest.approx(0.5 * 0.36787944117)
    assert model.weight(rule, None, 24) == 0.5


def test_noisy_or() -> None:
    assert noisy_or([]) == 0.0
    assert noisy_or([0.5, 0.5]) == 0.75
    assert noisy_or([1.0, 0.2]) < 1.0
