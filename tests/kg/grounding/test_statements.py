"""What documents state of a question, which of it counts, and how rules stand to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerag.kg.grounding.bindings import groundings_of
from rulerag.kg.grounding.statements import Statement, Statements, compare, statement_lines
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Document, Fact, GenerationRequest, Groundings, Query

ASKED = Query("q", "what does ann lives in ?", "ann", "lives in")
HEAD = Atom("lives in", "?x", "?y")
STUDIED = Rule(HEAD, (Atom("studied in", "?x", "?y"),), quality=RuleQuality(confidence=0.8))
WORKS = Rule(
    HEAD,
    (Atom("works for", "?x", "?z"), Atom("based in", "?z", "?y")),
    quality=RuleQuality(confidence=0.9),
)
OTHERS = [Fact(f"p{n}", "lives in", "Bath") for n in range(30)]


def corpus(*facts: Fact) -> list[Document]:
    return [Document(f"d{n}", " ".join(fact[:3]), (fact,)) for n, fact in enumerate(facts)]


def objects(stated: list[Statement]) -> list[str]:
    return [statement.object for statement in stated]


def test_of_dated_facts_those_of_the_asked_time_or_the_latest_before_it_count() -> None:
    facts = [Fact("ann", "lives in", place, time) for place, time in (("A", 1), ("B", 3), ("C", 5))]
    both = Fact("ann", "lives in", "D", 3)
    stated = Statements(corpus(*facts, both))
    found = {t: objects(stated.of(replace(ASKED, timestamp=t))) for t in (0, 1, 2, 3, 4, 5, 99)}
    assert found == {
        0: [],
        1: ["A"],
        2: ["A"],
        3: ["B", "D"],
        4: ["B", "D"],
        5: ["C"],
        99: ["C"],
    }
    assert objects(stated.of(ASKED)) == ["C"], "asked without a time: the latest"
    undated = Statements(corpus(*facts, Fact("ann", "lives in", "E")))
    assert objects(undated.of(replace(ASKED, timestamp=2))) == ["A", "E"]


def test_nothing_is_stated_of_a_prediction_nor_of_a_question_without_parts() -> None:
    stated = Statements(corpus(Fact("ann", "lives in", "A")))
    assert objects(stated.of(ASKED)) == ["A"]
    assert stated.of(replace(ASKED, prediction=True)) == []
    assert stated.of(Query("q", "where does ann live ?")) == []
    assert stated.before(replace(ASKED, prediction=True)) == {"A"}, "filters know it all the same"


@pytest.mark.parametrize(
    ("facts", "functional"),
    [
        ([*OTHERS, Fact("ann", "lives in", "A")], True),
        # The asked subject has two: it is the others that tell.
        ([*OTHERS, Fact("ann", "lives in", "A"), Fact("ann", "lives in", "B")], True),
        ([*OTHERS, *[Fact(f"p{n}", "lives in", "Ely") for n in range(3)]], False),
        ([*OTHERS, Fact("p0", "lives in", "Ely")], True),  # one slip in thirty
        ([Fact("ann", "lives in", "A")], True),
        ([Fact("ann", "lives in", "A"), Fact("ann", "lives in", "B")], False),
        ([Fact(f"p{n}", "lives in", x, t) for n in range(9) for t, x in enumerate("AB")], True),
        ([Fact("ann", "born in", "A")], False),
    ],
)
def test_a_relation_is_functional_where_others_have_one_object_at_a_time(
    facts: list[Fact], functional: bool
) -> None:
    assert Statements(corpus(*facts)).is_functional(ASKED) is functional


def grounded(query: Query, documents: list[Document], *rules: Rule) -> Groundings:
    return groundings_of(GenerationRequest(query, tuple(documents), rules))


def told(*facts: Fact, answer: str = "Lisbon", others: list[Fact] | None = None) -> dict:
    documents = corpus(*facts)
    everything = Statements([*documents, *corpus(*(OTHERS if others is None else others))])
    found = grounded(ASKED, documents, STUDIED, WORKS)
    return compare(answer, found, everything, {"Lis": "Lisbon"})


STATED, STUDIES = Fact("ann", "lives in", "Lis"), Fact("ann", "studied in", "Ulm")
JOB = [Fact("ann", "works for", "Firm"), Fact("Firm", "based in", "Ulm")]


def test_a_rule_supports_contradicts_or_adds() -> None:
    against = told(STATED, STUDIES, *JOB)
    assert against["answers"] == [{"answer": "Lisbon", "documents": ["d0"], "time": None}]
    assert against["rules"] == [
        {
            "answer": "Ulm",
            "verdict": "contradicts",
            "rules": [STUDIED.id, WORKS.id],
            "confidence": 0.9,
            "documents": ["d1", "d2", "d3"],
        }
    ]
    assert (against["functional"], against["conflict"], against["answered"]) == (True, True, True)
    for_it = told(STATED, Fact("ann", "studied in", "Lis"))
    assert (for_it["rules"][0]["verdict"], for_it["conflict"]) == ("supports", False)
    several = [Fact(f"p{n}", "lives in", place) for n in range(9) for place in ("Bath", "Ely")]
    beside = told(STATED, STUDIES, others=several)
    assert (beside["rules"][0]["verdict"], beside["conflict"]) == ("adds", False)
    nothing_stated = told(STUDIES, answer="Ulm")
    assert nothing_stated["answers"] == [] and nothing_stated["answered"] is None
    assert (nothing_stated["rules"][0]["verdict"], nothing_stated["conflict"]) == ("adds", False)
    assert told() == {}


@pytest.mark.parametrize(
    ("when", "verdict"), [(4, "contradicts"), (9, "adds"), (None, "contradicts")]
)
def test_what_was_last_stated_before_the_asked_time_is_not_contradicted(
    when: int | None, verdict: str
) -> None:
    dated = replace(STUDIED, temporal=True)
    facts = Fact("ann", "studied in", "Ulm", 2), Fact("ann", "lives in", "Lis", 4)
    others = [Fact(f"p{n}", "lives in", "Bath", 4) for n in range(9)]
    documents, asked = corpus(*facts), replace(ASKED, timestamp=when)
    everything = Statements([*documents, *corpus(*others)])
    record = compare("Lis", grounded(asked, documents, dated), everything)
    assert record["rules"][0]["verdict"] == verdict and record["functional"]
    assert record["conflict"] is (verdict == "contradicts")


def test_many_stated_answers_are_counted_beyond_the_first() -> None:
    several = [Fact("ann", "lives in", f"Town {n}") for n in range(9)]
    record = told(*several, answer="Town 0")
    lines = statement_lines(record, ASKED, "Town 0", {}, {})
    assert lines[5] == "Town 5 is stated in d5" and lines[6] == "3 more are stated"


def test_two_statements_contradict_where_the_relation_is_functional() -> None:
    porto = Fact("ann", "lives in", "Porto")
    assert told(STATED, porto)["conflict"]
    several = [Fact(f"p{n}", "lives in", place) for n in range(9) for place in ("Bath", "Ely")]
    assert not told(STATED, porto, others=several)["conflict"]


def test_what_is_stated_is_told_even_where_it_was_not_retrieved() -> None:
    everything = Statements([*corpus(STATED), Document("far", "t", (STUDIES,))])
    record = compare("Ulm", grounded(ASKED, [everything.documents[1]], STUDIED), everything)
    assert record["answers"][0]["documents"] == ["d0"]
    assert (record["conflict"], record["answered"]) == (True, False)
    lines = statement_lines(record, ASKED, "Ulm", {"far": "D1"}, {STUDIED.id: "R1"})
    assert lines == [
        "Lis is stated in d0",
        "the answer Ulm is not what is stated",
        "the rule R1 contradicts what is stated: Ulm (by D1)",
    ]
    assert compare("Ulm", grounded(replace(ASKED, prediction=True), []), everything) == {}


def test_words() -> None:
    later = replace(ASKED, timestamp=9)
    old = Statements(corpus(Fact("ann", "lives in", "A", 3), Fact("ann", "lives in", "B", 3)))
    record = compare("A", grounded(later, list(old.documents)), old)
    names = {"d0": "D1", "d1": "D2"}
    assert statement_lines(record, later, "A", names, {}) == [
        "A is last stated in D1",
        "B is last stated in D2",
    ]
    rules = {STUDIED.id: "R1", WORKS.id: "R2"}
    none_stated = told(STUDIES, *JOB, answer="Ulm")
    names = {"d0": "D1", "d1": "D2", "d2": "D3"}
    assert statement_lines(none_stated, ASKED, "Ulm", names, rules) == [
        "no document states an answer",
        "the rules R1, R2 lead to Ulm (by D1, D2, D3)",
    ]
    many = [Fact("ann", "studied in", f"S{n}") for n in range(5)]
    lines = statement_lines(told(STATED, *many), ASKED, "Lisbon", {}, rules)
    assert lines[-1] == "rules lead to 2 more answers"
    assert statement_lines({}, ASKED, "x", {}, {}) == []
