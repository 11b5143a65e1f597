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
        Fact(
            rng.choice("abcde"),
            rng.choice("pq"),
            rng.choice("abcde"),
            rng.randrange(5) if temporal else None,
        )
        for _ in range(size)
    ]
    return TableIndex(KnowledgeGraph.from_facts(facts).train)


def random_rules(rng: random.Random, count: int, *, temporal: bool) -> list[Rule]:
    """Rules of every form: chains, cycles, loops, constants, inverse atoms, bodies apart."""

    def term(variable: str) -> str:
        other = rng.random() < 0.2
        return rng.choice(["a", "b", "?x", "?z", "?y"]) if other else variable

    rules = []
    for _ in range(count):
        way = [*["?x", "?z", "?w"][: rng.randint(1, 3)], "?y"]
        body = []
        for here, there in itertools.pairwise(way):
            ends = [term(here), term(there)]
            rng.shuffle(ends)
            body.append(Atom(rng.choice("pq"), *ends))
        rng.shuffle(body)
        head = Atom("h", rng.choice(["?x", "?x", "?x", "a"]), rng.choice(["?y", "?y", "?y", "b"]))
        rules.append(Rule(head, tuple(body), temporal=temporal))
    return rules


def listed(found: GroundingTable, rules: list[Rule], index: TableIndex) -> Found:
    names = index.facts.entities.names
    groundings: Found = Counter()
    for i in range(len(found)):
        number = int(found.rule[i])
        atoms = len(rules[number].body)
        rows = tuple(found.rows[i, :atoms].tolist())
        assert (found.rows[i, atoms:] == -1).all()
        groundings[number, names[found.answer[i]], rows] += int(found.count[i])
    return groundings


def one_by_one(rules: list[Rule], index: TableIndex, before: int | None) -> Found:
    groundings: Found = Counter()
    facts = FactIndex(enumerate(index.facts))
    for number, rule in enumerate(rules):
        for grounding in ground(rule, "a", facts, before):
            # An answer that no fact names has no place among the entities of the table.
            if grounding.answer in index.facts.entities:
                groundings[number, grounding.answer, grounding.rows] += 1
    return groundings


@pytest.mark.parametrize("temporal", [False, True])
def test_all_rules_at_once_ground_as_one_by_one(temporal: bool) -> None:
    rng = random.Random(1)
    some = 0
    for seed in range(25):
        rules = random_rules(rng, 40, temporal=temporal)
        index = random_index(rng, 20, temporal=temporal)
        before = 4 if temporal and seed % 2 else None
        found = RulePlans(rules, index).ground("a", before)
        expected = one_by_one(rules, index, before)
        if "a" in index.facts.entities:
            assert listed(found, rules, index) == expected
        assert (np.diff(found.rule) >= 0).all() and found.is_complete
        assert (found.count == 1).all()
        if found.latest is not None and index.facts.timestamp is not None:
            times = np.where(found.rows >= 0, index.facts.timestamp[found.rows], -1)
            assert (found.latest == times.max(axis=1, initial=-1)).all()
        some += len(found)
    assert some > 1000


@pytest.mark.parametrize("temporal", [False, True])
def test_a_small_bound_keeps_answers_and_counts(temporal: bool) -> None:
    rng = random.Random(2)
    joined = cut = 0
    for _ in range(40):
        rules = random_rules(rng, 12, temporal=temporal)
        index = random_index(rng, 30, temporal=temporal)
        for bound in (5, 40, 200):
            found = RulePlans(rules, index, max_rows=bound).ground("a")
            assert len(found) <= 2 * max(bound, len(rules))
            groundings = listed(found, rules, index)
            expected = one_by_one(rules, index, None)
            # Witnesses are groundings, and no group is told to be larger than it is.
            assert set(groundings) <= set(expected)
            told, true = totals(groundings), totals(expected)
            assert all(told[key] <= true[key] for key in told)
            if found.is_complete:
                assert told == true
            joined += found.is_complete and bool((found.count > 1).any())
            cut += not found.is_complete
    # Joined rows without a cut are rarer where times keep rows apart.
    assert cut > 10 and joined > (0 if temporal else 5)


def totals(groundings: Found) -> Counter[tuple[int, str]]:
    total: Counter[tuple[int, str]] = Counter()
    for (number, answer, _), count in groundings.items():
        total[number, answer] += count
    return total


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
    assert few.count.sum() == 30**3 + 30**2
    assert totals(listed(few, rules, index)) == totals(listed(whole, rules, index))
    cut = RulePlans(rules, index, max_rows=500).ground("a")
    assert not cut.is_complete and 500 <= len(cut) <= 1000
    assert set(cut.rule.tolist()) == {0, 1}


def test_a_table_of_no_rules_and_of_unknown_names_is_empty() -> None:
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


def test_bad_bound() -> None:
    index = TableIndex(KnowledgeGraph.from_facts([("a", "p", "b")]).train)
    with pytest.raises(ConfigError, match="max_rows"):
        RulePlans([], index, max_rows=0)
