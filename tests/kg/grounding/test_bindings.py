"""Groundings of rule bodies against enumeration of every binding."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from rulerag.kg.grounding.bindings import FactIndex, body_order, ground, groundings_of
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, GenerationRequest, Query

BODIES = [
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
HEAD = Atom("h", "?x", "?y")
RULES = [Rule(HEAD, body, temporal=temporal) for body in BODIES for temporal in (False, True)]
RULES += [  # constants in heads
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
        late = before is not None and any(time >= before for time in times)
        unordered = rule.temporal and times != sorted(times)
        if consistent and rule.head.object in bound and not (late or unordered):
            found.add((bound[rule.head.object], rows))
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.temporal}-{rule.text}")
def test_ground_equals_enumeration(rule: Rule) -> None:
    rng, before = random.Random(0), 3 if rule.temporal else None
    for _ in range(10):
        facts = [
            Fact(
                *map(rng.choice, ("abc", "pq", "abc")), rng.randrange(4) if rule.temporal else None
            )
            for _ in range(8)
        ]
        found = ground(rule, "a", FactIndex(enumerate(facts)), before)
        expected = enumerate_groundings(rule, "a", facts, before)
        assert {(one.answer, one.rows) for one in found} == expected and len(found) == len(expected)
        for one in found:
            latest = max((facts[row].timestamp or 0 for row in one.rows), default=0)
            assert one.rule is rule and one.latest == (latest if rule.temporal else None)


def test_bodies_are_ordered_so_that_joins_stay_small() -> None:
    closing = (Atom("p", "?x", "?z"), Atom("q", "?z", "?y"), Atom("p", "?x", "?x"))
    assert body_order(Rule(HEAD, closing)) == [2, 0, 1]
    constant = (Atom("q", "c", "?y"), Atom("p", "?x", "?z"), Atom("p", "?z", "?y"))
    assert body_order(Rule(HEAD, constant)) == [1, 2, 0]
    apart = Rule(HEAD, (Atom("q", "?z", "?w"), Atom("p", "?x", "?y")))
    assert body_order(apart) == [1, 0]


def test_what_grounds_nothing() -> None:
    index = FactIndex(enumerate([Fact("a", "p", "b"), Fact("b", "q", "c")]))
    assert ground(Rule(HEAD, (Atom("p", "?x", "?y"), Atom("q", "?z", "?w"))), "a", index) == []
    assert ground(Rule(HEAD, BODIES[0]), "nobody", index) == []
    assert ground(Rule(HEAD, (Atom("new", "?x", "?y"),)), "a", index) == []


def test_a_request_carries_its_groundings_until_it_is_changed() -> None:
    facts = (
        (Fact("b", "q", "c"), Fact("a", "p", "b")),
        (Fact("a", "p", "c"),),
        (Fact("c", "q", "d"),),
    )
    documents = tuple(Document(f"d{n}", "t", stated) for n, stated in enumerate(facts))
    chain, plain = RULES[4], RULES[0]
    asked = GenerationRequest(Query("q", "?", "a", "h"), documents, (chain, plain))
    known = groundings_of(asked)
    assert [(one.rule, one.answer, one.rows) for one in known.found] == [
        (chain, "c", (0, 0)),  # places of documents
        (chain, "d", (1, 2)),
        (plain, "b", (0,)),
        (plain, "c", (1,)),
    ]
    carrying = replace(asked, groundings=known)
    assert groundings_of(carrying) is known and carrying == asked
    for change in (
        {"documents": documents[1:]},
        {"rules": (plain,)},
        {"query": Query("q", "?", "b", "h")},
    ):
        found = groundings_of(replace(carrying, **change))
        assert found == groundings_of(replace(asked, **change)) and found.found != known.found
