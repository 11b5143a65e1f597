"""Which rules guide a query, the texts that are searched for them, and what documents ground."""

from __future__ import annotations

from typing import Any

import pytest

from rulerag.retrieval.guided import HeadRelationSelector, append_rule, substitute_body
from rulerag.retrieval.guided.provenance import grounded_atom, with_grounded_atoms
from rulerag.retrieval.guided.query_text import Composition
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument

# --- selection -----------------------------------------------------------------------------------


def chosen(head: str, body: str, confidence: float, support: int) -> Rule:
    quality = RuleQuality(support=support, confidence=confidence)
    return Rule(Atom(head, "?x", "?y"), (Atom(body, "?x", "?y"),), True, quality)


SURE = chosen("visit", "call", 0.9, 3)
OFTEN = chosen("visit", "praise", 0.5, 40)
RARE = chosen("visit", "blame", 0.5, 2)
OTHER = chosen("praise", "visit", 0.7, 5)
BANK = RuleBank([RARE, OFTEN, OTHER, SURE])


@pytest.mark.parametrize(
    ("relation", "options", "expected"),
    [
        ("visit", {}, [SURE, OFTEN, RARE]),
        ("praise", {}, [OTHER]),
        ("unknown", {}, []),
        ("", {}, []),
        ("visit", {"max_rules": 2}, [SURE, OFTEN]),
        ("visit", {"max_rules": 0}, []),
        ("visit", {"min_confidence": 0.6}, [SURE]),
        ("visit", {"min_support": 3}, [SURE, OFTEN]),
        ("visit", {"min_support": 3, "min_confidence": 0.95}, []),
        ("visit", {"rank_by": "support"}, [OFTEN, SURE, RARE]),
        ("visit", {"rank_by": "product", "max_rules": 1}, [OFTEN]),
    ],
)
def test_rules_of_the_querys_relation(
    relation: str, options: dict[str, Any], expected: list[Rule]
) -> None:
    selector = HeadRelationSelector(BANK, **options)
    query = Query("q", "text", relation=relation)
    selector.select([query])[0].clear()  # a caller may change its list
    assert selector.select([query]) == [expected]
    assert selector.select([]) == []


# --- texts ---------------------------------------------------------------------------------------


def rule(*body: Atom, head: str = "Make_statement") -> Rule:
    return Rule(Atom(head, "?x", "?y"), body, True)


DIRECT = rule(Atom("Host_a_visit", "?x", "?y"))
INVERSE = rule(Atom("Host_a_visit", "?y", "?x"))
CHAIN = rule(Atom("Host_a_visit", "?x", "?z"), Atom("Consult", "?z", "?y"))
USE = rule(Atom("buy", "?x", "?y"), head="use")
KOREA = Query("q", "Time 3 what does South Korea Make statement ?", "South_Korea", "Make_statement")


def asked(text: str, subject: str = "", relation: str = "use") -> Query:
    return Query("q", text, subject, relation)


@pytest.mark.parametrize(
    ("query", "guiding", "expected"),
    [
        (KOREA, DIRECT, "Time 3 what does South Korea Host a visit ?"),
        (KOREA, INVERSE, "Time 3 what Host a visit South Korea ?"),
        (KOREA, CHAIN, "Time 3 what does South Korea Host a visit Consult ?"),
        # The relation is found last, whole and in any case; else the body stands behind.
        (asked("what does Use Co USE ?", "Use_Co"), USE, "what does Use Co buy ?"),
        (asked("what does Ann refuse ?", "Ann"), USE, "what does Ann refuse ? buy"),
        # Without structure the rule's head is looked for.
        (Query("q", "what does Ann make statement ?"), INVERSE, "what does Ann Host a visit ?"),
    ],
)
def test_substitute_asks_for_the_body(query: Query, guiding: Rule, expected: str) -> None:
    assert substitute_body(query, guiding) == expected


def test_labels_are_the_callers_and_append_is_the_papers() -> None:
    labels = {"P1": "born in", "P2": "citizen of", "Q1": "Ann"}
    query = Query("q", "which country is Ann citizen of?", "Q1", "P2")
    options = {"rule_label": labels.__getitem__, "entity_label": labels.__getitem__}
    born, turned = (
        Rule(Atom("P2", "?x", "?y"), (Atom("P1", *ends),)) for ends in (("?x", "?y"), ("?y", "?x"))
    )
    assert substitute_body(query, born, **options) == "which country is Ann born in?"
    assert substitute_body(query, turned, **options) == "which country is born in Ann?"
    assert append_rule(KOREA, DIRECT) == (
        "Time 3 what does South Korea Make statement ? "
        "[Entity 1, Host a visit, Entity 2] leads to [Entity 1, Make statement, Entity 2]"
    )
    both = [append_rule(KOREA, DIRECT), substitute_body(KOREA, DIRECT)]
    for compose, expected in (("both", both), ("append", both[:1]), ("substitute", both[1:])):
        assert Composition(compose).texts(KOREA, DIRECT) == expected
    assert Composition(lambda query, rule: query.id).texts(KOREA, DIRECT) == ["q"]
    assert Composition(lambda query, rule: (query.id, rule.id)).texts(KOREA, DIRECT)[1] == DIRECT.id


# --- what documents ground -----------------------------------------------------------------------

QUERY = Query("q", "what does ann visit ?", "ann", "visit")
CALLS = Rule(Atom("visit", "?x", "?y"), (Atom("call", "?x", "?y"),))
CALLED_BY = Rule(Atom("visit", "?x", "?y"), (Atom("call", "?y", "?x"),))
KNOWS = Rule(Atom("visit", "?x", "?y"), (Atom("know", "?x", "?z"), Atom("call", "?z", "?y")))
CALL = Document("call", "ann call bob", (Fact("ann", "call", "bob"),))
CALLED = Document("called", "bob call ann", (Fact("bob", "call", "ann"),))
BOTH = Document("both", "both", (Fact("cid", "call", "dan"), Fact("ann", "know", "cid")))
TEXT = Document("text", "ann call bob")


def test_relation_and_direction_decide_which_atom_a_document_grounds() -> None:
    for guiding, expected in (
        (CALLS, [0, None, None, None]),
        (CALLED_BY, [None, 0, None, None]),
        (KNOWS, [1, 1, 0, None]),
    ):
        documents = (CALL, CALLED, BOTH, TEXT)
        assert [grounded_atom(guiding, QUERY, document) for document in documents] == expected
    hits = (RuleHit(None, 1, 3.0), RuleHit(CALLS.id, 2, 2.0), RuleHit(CALLED_BY.id, 1, 4.0))
    [one] = with_grounded_atoms(QUERY, [CALLS, CALLED_BY], [ScoredDocument(CALL, 0.5, 1, hits)])
    assert one == ScoredDocument(CALL, 0.5, 1, (hits[0], RuleHit(CALLS.id, 2, 2.0, 0), hits[2]))
