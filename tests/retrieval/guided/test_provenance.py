"""Which body atom a document grounds."""

from __future__ import annotations

import pytest

from rulerag.retrieval.guided.provenance import grounded_atom, with_grounded_atoms
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

QUERY = Query("q", "what does ann visit ?", "ann", "visit")
DIRECT = Rule(Atom("visit", "?x", "?y"), (Atom("call", "?x", "?y"),))
INVERSE = Rule(Atom("visit", "?x", "?y"), (Atom("call", "?y", "?x"),))
CHAIN = Rule(Atom("visit", "?x", "?y"), (Atom("know", "?x", "?z"), Atom("call", "?z", "?y")))
CALL = Document("call", "ann call bob", (Fact("ann", "call", "bob"),))
CALLED = Document("called", "bob call ann", (Fact("bob", "call", "ann"),))
KNOW = Document("both", "both", (Fact("cid", "call", "dan"), Fact("ann", "know", "cid")))
TEXT = Document("text", "ann call bob")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [(DIRECT, [0, None, None, None]), (INVERSE, [None, 0, None, None]), (CHAIN, [1, 1, 0, None])],
)
def test_relation_and_direction_decide(rule: Rule, expected: list[int | None]) -> None:
    documents = (CALL, CALLED, KNOW, TEXT)
    assert [grounded_atom(rule, QUERY, document) for document in documents] == expected


def test_every_hit_of_a_rule_is_told_and_nothing_else_changes() -> None:
    hits = (RuleHit(None, 1, 3.0), RuleHit(DIRECT.id, 2, 2.0), RuleHit(INVERSE.id, 1, 4.0))
    [told] = with_grounded_atoms(QUERY, [DIRECT, INVERSE], [ScoredDocument(CALL, 0.5, 1, hits)])
    assert told.found_by == (hits[0], RuleHit(DIRECT.id, 2, 2.0, 0), hits[2])
    assert (told.document, told.score, told.rank) == (CALL, 0.5, 1)
