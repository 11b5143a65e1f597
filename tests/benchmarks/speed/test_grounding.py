"""The grounding benchmark's rules and figures, on a graph small enough to check."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.speed.grounding import _compared, _hubs, _longer, _most_linked, _unselective
from rulerag.errors import DataError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding.bindings import FactIndex
from rulerag.kg.grounding.index import TableIndex
from rulerag.rules import Atom, Rule, RuleBank

FACTS = [("a", "p", "b"), ("b", "q", "c"), ("c", "p", "d"), ("a", "q", "d"), ("a", "h", "c")]
BANK = RuleBank(
    [
        Rule(Atom("h", "?x", "?y"), (Atom("p", "?x", "?z"), Atom("q", "?z", "?y"))),
        Rule(Atom("q", "?x", "?y"), (Atom("h", "?x", "?z"), Atom("p", "?z", "?y"))),
        Rule(Atom("p", "?x", "?y"), (Atom("q", "?x", "?y"),)),
    ]
)


def test_longer_rules_are_connected_chains_of_three() -> None:
    longer = _longer(BANK, 5)
    assert {rule.head.relation for rule in longer} == {"h"}
    for rule in longer:
        ends = [{atom.subject, atom.object} for atom in rule.body]
        assert len(rule.body) == 3 and all(one & two for one, two in pairwise(ends))
    (rule,) = longer
    assert [(a.relation, a.subject, a.object) for a in rule.body] == [
        ("p", "?x", "?z"),
        ("h", "?z", "?w"),
        ("p", "?w", "?y"),
    ]


def test_hubs_and_the_rules_that_are_worst_for_them() -> None:
    train = KnowledgeGraph.from_facts(FACTS).train
    assert _most_linked(train)[:2] == ["a", "c"]
    assert _hubs(train, BANK) == sorted({(s, r) for s, r, _ in FACTS})
    worst = _unselective(train, 2)
    assert len(worst) == 4 and worst.head_relations == ["p"]
    assert {len(rule.body) for rule in worst} == {3}


def test_figures_come_from_the_same_groundings() -> None:
    train = KnowledgeGraph.from_facts(FACTS).train
    questions = [("a", "h"), ("a", "q"), ("c", "p")]
    figures = _compared(BANK, TableIndex(train), FactIndex(enumerate(train)), questions, 3)
    # a is a p of b, whose q is c; a is an h of c, whose p is d; c has no q.
    assert figures["queries"] * figures["groundings_per_query"] == pytest.approx(2, abs=0.2)
    assert figures["sample"] == 3 and figures["queries_with_groundings_left_out"] == 0
    other = KnowledgeGraph.from_facts(FACTS[:1]).train
    with pytest.raises(DataError, match="the plain loop finds"):
        _compared(BANK, TableIndex(train), FactIndex(enumerate(other)), questions, 3)
