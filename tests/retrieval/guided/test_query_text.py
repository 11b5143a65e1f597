"""Query and rule as one text."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.retrieval.guided.query_text import Composition, append_rule, substitute_body
from rulerag.rules import Atom, Rule
from rulerag.types import Query


def rule(*body: Atom, head: str = "Make_statement") -> Rule:
    return Rule(Atom(head, "?x", "?y"), body, True)


DIRECT = rule(Atom("Host_a_visit", "?x", "?y"))
INVERSE = rule(Atom("Host_a_visit", "?y", "?x"))
CHAIN = rule(Atom("Host_a_visit", "?x", "?z"), Atom("Consult", "?z", "?y"))
QUERY = Query(
    "q",
    "Time 2014-12-01 what does South_Korea Make statement ?",
    "South_Korea",
    "Make_statement",
    3,
)
SPACED = Query(
    "q", "Time 3 what does South Korea Make statement ?", "South_Korea", "Make_statement"
)


def test_append_is_the_papers() -> None:
    assert append_rule(QUERY, DIRECT) == (
        "Time 2014-12-01 what does South_Korea Make statement ? "
        "[Entity 1, Host a visit, Entity 2] leads to [Entity 1, Make statement, Entity 2]"
    )


def test_substitute_asks_for_the_body() -> None:
    assert substitute_body(SPACED, DIRECT) == "Time 3 what does South Korea Host a visit ?"
    assert substitute_body(SPACED, INVERSE) == "Time 3 what Host a visit South Korea ?"
    assert substitute_body(SPACED, CHAIN) == "Time 3 what does South Korea Host a visit Consult ?"


def test_labels_are_the_callers() -> None:
    labels = {"P1": "born in", "P2": "citizen of", "Q1": "Ann"}
    query = Query("q", "which country is Ann citizen of?", "Q1", "P2")
    born = Rule(Atom("P2", "?x", "?y"), (Atom("P1", "?x", "?y"),))
    assert substitute_body(query, born, rule_label=labels.__getitem__) == (
        "which country is Ann born in?"
    )
    turned = Rule(Atom("P2", "?x", "?y"), (Atom("P1", "?y", "?x"),))
    options = {"rule_label": labels.__getitem__, "entity_label": labels.__getitem__}
    assert substitute_body(query, turned, **options) == "which country is born in Ann?"


def test_the_relation_is_found_last_whole_and_in_any_case() -> None:
    use = Rule(Atom("use", "?x", "?y"), (Atom("buy", "?x", "?y"),))
    assert substitute_body(Query("q", "what does Use Co USE ?", "Use_Co", "use"), use) == (
        "what does Use Co buy ?"
    )
    assert substitute_body(Query("q", "what does Ann refuse ?", "Ann", "use"), use) == (
        "what does Ann refuse ? buy"
    )


def test_without_structure_the_rules_head_is_looked_for() -> None:
    assert substitute_body(Query("q", "what does Ann make statement ?"), INVERSE) == (
        "what does Ann Host a visit ?"
    )


def test_names_and_functions() -> None:
    both = Composition("both").texts(SPACED, DIRECT)
    assert both == [append_rule(SPACED, DIRECT), substitute_body(SPACED, DIRECT)]
    assert Composition("append").texts(SPACED, DIRECT) == both[:1]
    assert Composition("substitute").texts(SPACED, DIRECT) == both[1:]
    assert Composition(lambda query, rule: query.id).texts(SPACED, DIRECT) == ["q"]
    assert Composition(lambda query, rule: (query.id, rule.id)).texts(SPACED, DIRECT) == [
        "q",
        DIRECT.id,
    ]
    with pytest.raises(ConfigError, match=r"compose.*did you mean 'append'"):
        Composition("prepend")
