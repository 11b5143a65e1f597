"""Groundings of many rules at once against those of one rule after the other, and their bounds."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from rulerag.errors import ConfigError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding.bindings import FactIndex, ground
from rulerag.kg.grounding.index import TableIndex
from rulerag.kg.grounding.joins import GroundingTable, RulePlans
from rulerag.rules import Atom, Rule
from rulerag.types import Fact

Found = Counter[tuple[int, str, tuple[int, ...]]]


def random_index(rng: random.Random, size: int, *, temporal: bool) -> TableIndex:
    facts = [
        Fact(*map(rng.choice, ("abcde", "pq", "abcde")), rng.randrange(5) if temporal else None)
        for _ in range(size)
    ]
    return TableIndex(KnowledgeGraph.from_facts(facts).train)


def random_rules(rng: random.Random, count: int, *, temporal: bool) -> list[Rule]:
    """Rules of every form: chains, cycles, loops, constants, inverse atoms, bodies apart."""
    rules = []
    for _ in range(count):
        body = []
        for ends in itertools.pairwise([*["?x", "?z", "?w"][: rng.randint(1, 3)], "?y"]):
            other = [
                rng.choice(["a", "b", "?x", "?z", "?y"]) if rng.random() < 0.2 else end
                for end in ends
            ]
            rng.shuffle(other)
            body.append(Atom(rng.choice("pq"), *other))
        rng.shuffle(body)
        head = Atom("h", rng.choice(["?x", "?x", "?x", "a"]), rng.choice(["?y", "?y", "?y", "b"]))
        rules.append(Rule(head, tuple(body), temporal=temporal))
    return rules


def listed(found: GroundingTable, rules: list[Rule], index: TableIndex) -> Found:
    names = index.facts.entities.names
    groundings: Found = Counter()
    for i, number in enumerate(found.rule.tolist()):
        atoms = len(rules[number].body)
        assert (found.rows[i, atoms:] == -1).all()
        key = number, names[found.answer[i]], tuple(found.rows[i, :atoms].tolist())
        groundings[key] += int(found.count[i])
    return groundings


def one_by_one(rules: list[Rule], index: TableIndex, before: int | None = None) -> Found:
    facts = FactIndex(enumerate(index.facts))
    return Counter(
        (number, found.answer, found.rows)
        for number, rule in enumerate(rules)
        for found in ground(rule, "a", facts, before)
        # An answer that no fact names has no place among the entities of the table.
        if found.answer in index.facts.entities
    )


def totals(groundings: Found) -> Counter[tuple[int, str]]:
    total: Counter[tuple[int, str]] = Counter()
    for (number, answer, _), count in groundings.items():
        total[number, answer] += count
    return total


@pytest.mark.parametrize("temporal", [False, True])
def test_all_rules_at_once_ground_as_one_by_one(temporal: bool) -> None:
    rng, some = random.Random(1), 0
    for seed in range(20):
        rules = random_rules(rng, 40, temporal=temporal)
        index = random_index(rng, 20, temporal=temporal)
        before = 4 if temporal and seed % 2 else None
        found = RulePlans(rules, index).ground("a", before)
        if "a" in index.facts.entities:
            assert listed(found, rules, index) == one_by_one(rules, index, before)
        assert (np.diff(found.rule) >= 0).all() and found.is_complete
        assert (found.count == 1).all()
        if found.latest is not None and index.facts.timestamp is not None:
            times = np.where(found.rows >= 0, index.facts.timestamp[found.rows], -1)
            assert (found.latest == times.max(axis=1, initial=-1)).all()
        some += len(found)
    assert some > 500


@pytest.mark.parametrize("temporal", [False, True])
def test_a_small_bound_keeps_answers_and_counts(temporal: bool) -> None:
    rng, joined, cut = random.Random(2), 0, 0
    for _ in range(20):
        rules = random_rules(rng, 12, temporal=temporal)
        index = random_index(rng, 30, temporal=temporal)
        expected = one_by_one(rules, index)
        for bound in (5, 40, 200):
            found = RulePlans(rules, index, max_rows=bound).ground("a")
            assert len(found) <= 2 * max(bound, len(rules))
            groundings = listed(found, rules, index)
            # Witnesses are groundings, and no group is told to be larger than it is.
            assert groundings.keys() <= expected.keys()
            assert totals(groundings) <= totals(expected)
            assert not found.is_complete or totals(groundings) == totals(expected)
            joined += found.is_complete and bool((found.count > 1).any())
            cut += not found.is_complete
    # Joined rows without a cut are rarer where times keep rows apart.
    assert cut > 5 and joined > (0 if temporal else 2)


def test_a_hub_is_bounded_and_counted() -> None:
    # From a over 30 middle entities to 30 others, and from each of these back to all of them.
    facts = [("a", "p", f"m{i}") for i in range(30)]
    facts += [(f"m{i}", "q", f"n{j}") for i in range(30) for j in range(30)]
    index = TableIndex(KnowledgeGraph.from_facts(facts).train)
    body = (Atom("p", "?x", "?z"), Atom("q", "?z", "?w"), Atom("q", "?y", "?w"))
    rules = [Rule(Atom("h", "?x", "?y"), body), Rule(Atom("g", "?x", "?z"), body[:2])]
    whole = RulePlans(rules, index).ground("a")
    assert len(whole) == 30**3 + 30**2 and whole.is_complete
    few = RulePlans(rules, index, max_rows=2000).ground("a")
    assert few.is_complete and len(few) == 30**2 + 30**2
    assert totals(listed(few, rules, index)) == totals(listed(whole, rules, index))
    cut = RulePlans(rules, index, max_rows=500).ground("a")
    assert not cut.is_complete and 500 <= len(cut) <= 1000
    assert set(cut.rule.tolist()) == {0, 1}


def test_what_cannot_be_grounded_is_named() -> None:
    index = TableIndex(KnowledgeGraph.from_facts([("a", "p", "b")]).train)
    plain = Rule(Atom("h", "?x", "?y"), (Atom("p", "?x", "?y"),))
    new = Rule(Atom("h", "?x", "?y"), (Atom("new", "?x", "?y"),))
    apart = Rule(Atom("h", "?x", "?y"), (Atom("p", "?z", "?y"), Atom("p", "?z", "?w")))
    free = Rule(Atom("h", "?x", "?y"), (Atom("p", "?x", "?z"),))
    stranger = Rule(Atom("h", "?x", "nobody"), (Atom("p", "?x", "b"),))
    for rules, subject in (([], "a"), ([plain], "nobody"), ([new, apart, free, stranger], "a")):
        assert len(RulePlans(rules, index).ground(subject)) == 0
    plans = RulePlans([new, plain, apart, free, stranger], index)
    found = plans.ground("a")
    assert (found.rule.tolist(), found.rows.tolist()) == ([1], [[0, -1]])
    assert plans.unusable == {
        0: "no fact has the relation 'new'",
        2: "nothing leads from ?x to the body atom 1",
        3: "the body does not have the head's object ?y",
        4: "no fact has the constant 'nobody'",
    }
    with pytest.raises(ConfigError, match="max_rows"):
        RulePlans([], index, max_rows=0)


def test_rows_around_an_entity_name_a_loop_once() -> None:
    train = KnowledgeGraph.from_facts([("a", "p", "a"), ("c", "p", "b"), ("b", "p", "a")]).train
    assert [TableIndex(train).rows_around(n).tolist() for n in range(3)] == [[0, 2], [1], [1, 2]]
