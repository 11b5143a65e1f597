"""What documents state of a question, which of it counts, and how rules stand to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rulerag.kg.grounding.bindings import groundings_of
from rulerag.kg.grounding.statements import Statements, compare, statement_lines
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Document, Fact, GenerationRequest, Query

ASKED = Query("q", "what does ann lives in ?", "ann", "lives in")
HEAD = Atom("lives in", "?x", "?y")
STUDIED = Rule(HEAD, (Atom("studied in", "?x", "?y"),), quality=RuleQuality(confidence=0.8))
WORKS = Rule(
    HEAD,
    (Atom("works for", "?x", "?z"), Atom("based in", "?z", "?y")),
    quality=RuleQuality(confidence=0.9),
)
OTHERS = [Fact(f"p{n}", "lives in", "Bath") for n in range(30)]
SEVERAL = [Fact(f"p{n}", "lives in", place) for n in range(9) for place in ("Bath", "Ely")]
STATED, STUDIES = Fact("ann", "lives in", "Lis"), Fact("ann", "studied in", "Ulm")
A, B = Fact("ann", "lives in", "A"), Fact("ann", "lives in", "B")
JOB = [Fact("ann", "works for", "Firm"), Fact("Firm", "based in", "Ulm")]


def corpus(*facts: Fact) -> list[Document]:
    return [Document(f"d{n}", " ".join(fact[:3]), (fact,)) for n, fact in enumerate(facts)]


def objects(stated: Statements, query: Query) -> list[str]:
    return [statement.object for statement in stated.of(query)]


def test_of_dated_facts_those_of_the_asked_time_or_the_latest_before_it_count() -> None:
    facts = [Fact("ann", "lives in", *one) for one in (("A", 1), ("B", 3), ("C", 5), ("D", 3))]
    stated = Statements(corpus(*facts))
    found = {
        t: "".join(objects(stated, replace(ASKED, timestamp=t))) for t in (0, 1, 2, 3, 4, 5, 99)
    }
    assert found == {0: "", 1: "A", 2: "A", 3: "BD", 4: "BD", 5: "C", 99: "C"}
    assert objects(stated, ASKED) == ["C"], "asked without a time: the latest"
    undated = Statements(corpus(*facts, Fact("ann", "lives in", "E")))
    assert objects(undated, replace(ASKED, timestamp=2)) == ["A", "E"]
    subject = replace(ASKED, subject="B", relation="^lives in", timestamp=4)
    assert objects(stated, subject) == ["ann"] and stated.is_functional(subject)


def test_nothing_is_stated_of_a_prediction_nor_of_a_question_without_parts() -> None:
    stated = Statements(corpus(A))
    assert objects(stated, ASKED) == ["A"]
    assert stated.of(replace(ASKED, prediction=True)) == stated.of(Query("q", "where ?")) == []
    assert stated.before(replace(ASKED, prediction=True)) == {"A"}, "filters know it all the same"


@pytest.mark.parametrize(
    ("facts", "functional"),
    [
        ([*OTHERS, A], True),
        ([*OTHERS, A, B], True),  # the asked subject has two: it is the others that tell
        ([*OTHERS, *[Fact(f"p{n}", "lives in", "Ely") for n in range(3)]], False),
        ([*OTHERS, Fact("p0", "lives in", "Ely")], True),  # one slip in thirty
        ([A], True),
        ([A, B], False),
        ([Fact(f"p{n}", "lives in", x, t) for n in range(9) for t, x in enumerate("AB")], True),
        ([Fact("ann", "born in", "A")], False),
    ],
)
def test_a_relation_is_functional_where_others_have_one_object_at_a_time(
    facts: list[Fact], functional: bool
) -> None:
    assert Statements(corpus(*facts)).is_functional(ASKED) is functional


def record(
    *facts: Fact,
    answer: str = "Lisbon",
    others: list[Fact] = OTHERS,
    query: Query = ASKED,
    rules: tuple[Rule, ...] = (STUDIED, WORKS),
    unseen: tuple[Fact, ...] = (),
) -> dict[str, Any]:
    """The record of an answer that was read from documents of some facts."""
    documents = tuple(corpus(*facts))
    far = [Document(f"far{n}", "t", (fact,)) for n, fact in enumerate(unseen)]
    everything = Statements([*documents, *far, *corpus(*others)])
    found = groundings_of(GenerationRequest(query, documents, rules))
    return compare(answer, found, everything, {"Lis": "Lisbon"})


@pytest.mark.parametrize(
    ("facts", "changes", "verdict", "conflict"),
    [
        ((STATED, STUDIES), {}, "contradicts", True),
        ((STATED, Fact("ann", "studied in", "Lis")), {}, "supports", False),
        ((STATED, STUDIES), {"others": SEVERAL}, "adds", False),
        ((STUDIES,), {"answer": "Ulm"}, "adds", False),  # nothing is stated
    ],
)
def test_a_rule_supports_contradicts_or_adds(
    facts: tuple[Fact, ...], changes: dict[str, Any], verdict: str, conflict: bool
) -> None:
    found = record(*facts, **changes)
    assert (found["rules"][0]["verdict"], found["conflict"]) == (verdict, conflict)


def test_the_record_holds_answers_rules_and_documents() -> None:
    found = record(STATED, STUDIES, *JOB)
    assert found["answers"] == [{"answer": "Lisbon", "documents": ["d0"], "time": None}]
    assert found["rules"] == [
        {
            "answer": "Ulm",
            "verdict": "contradicts",
            "rules": [STUDIED.id, WORKS.id],
            "confidence": 0.9,
            "documents": ["d1", "d2", "d3"],
        }
    ]
    assert (found["functional"], found["answered"]) == (True, True)
    none = record(STUDIES, answer="Ulm")
    assert none["answers"] == [] and none["answered"] is None
    assert record(STATED, A)["conflict"] and not record(STATED, A, others=SEVERAL)["conflict"]
    assert record() == record(STATED, query=replace(ASKED, prediction=True)) == {}


@pytest.mark.parametrize(
    ("when", "verdict"), [(4, "contradicts"), (9, "adds"), (None, "contradicts")]
)
def test_what_was_last_stated_before_the_asked_time_is_not_contradicted(
    when: int | None, verdict: str
) -> None:
    facts = Fact("ann", "studied in", "Ulm", 2), Fact("ann", "lives in", "Lis", 4)
    others = [Fact(f"p{n}", "lives in", "Bath", 4) for n in range(9)]
    dated, asked = replace(STUDIED, temporal=True), replace(ASKED, timestamp=when)
    found = record(*facts, answer="Lis", others=others, query=asked, rules=(dated,))
    assert found["rules"][0]["verdict"] == verdict and found["functional"]
    assert found["conflict"] is (verdict == "contradicts")


def test_words() -> None:
    names, rules = {f"d{n}": f"D{n + 1}" for n in range(3)}, {STUDIED.id: "R1", WORKS.id: "R2"}

    def lines(found: dict[str, Any], answer: str, query: Query = ASKED) -> list[str]:
        return statement_lines(found, query, answer, names, rules)

    later = replace(ASKED, timestamp=9)
    old = record(A._replace(timestamp=3), answer="A", query=later, others=[])
    assert lines(old, "A", later) == ["A is last stated in D1"]
    assert lines(record(STUDIES, *JOB, answer="Ulm"), "Ulm") == [
        "no document states an answer",
        "the rules R1, R2 lead to Ulm (by D1, D2, D3)",
    ]
    # What is stated is told even where it was not retrieved.
    assert lines(record(STUDIES, answer="Ulm", rules=(STUDIED,), unseen=(STATED,)), "Ulm") == [
        "Lisbon is stated in far0",
        "the answer Ulm is not what is stated",
        "the rule R1 contradicts what is stated: Ulm (by D1)",
    ]
    schools = [Fact("ann", "studied in", f"S{n}") for n in range(5)]
    assert lines(record(STATED, *schools), "Lisbon")[-1] == "rules lead to 2 more answers"
    towns = [Fact("ann", "lives in", f"Town {n}") for n in range(9)]
    told = lines(record(*towns, answer="Town 0"), "Town 0")
    assert told[5:7] == ["Town 5 is stated in d5", "3 more are stated"]
    assert lines({}, "x") == []
