"""Questions as people ask them of a table of firms: the query that each means, or why not."""

from __future__ import annotations

import pytest

from rulerag.kg.grounding import execute
from rulerag.linking import QuestionLinker
from rulerag.ruleqa import DatasetInfo, RuleQADataset
from rulerag.types import Document, Fact

DAY = 365
ROWS = (
    ("Łukasz Åberg", "founded", "Müller Werkzeugbau GmbH"),
    ("Chloé Kowalski", "founded", "Harbour Analytics Ltd"),
    ("Maeve Müller", "works for", "Müller Werkzeugbau GmbH"),
    ("Søren Åberg", "works for", "Tanaka Robotics KK"),
    ("Yuki Dupont", "works for", "Tanaka Robotics KK"),
    ("José Kowalski", "works for", "Harbour Analytics Ltd"),
    ("Yuki Dupont", "has role", "CEO"),
    ("Maeve Müller", "has role", "CEO"),
    ("Søren Åberg", "has role", "Engineer"),
    ("José Kowalski", "has role", "Engineer"),
    ("Søren Åberg", "reports to", "Yuki Dupont"),
    ("Søren Åberg", "lives in", "Osaka"),
    ("Yuki Dupont", "lives in", "Kyoto"),
    ("Anaïs Åberg", "lives in", "Lyon"),
    ("José Kowalski", "lives in", "Cardiff"),
    ("Tanaka Robotics KK", "headquartered in", "Osaka"),
    ("Harbour Analytics Ltd", "headquartered in", "Cardiff"),
    ("Delta-Chem N.V.", "headquartered in", "Rotterdam"),
    ("Delta-Chem N.V.", "acquired", "Harbour Analytics Ltd", 2 * DAY),
    ("Tanaka Robotics KK", "hired", "Søren Åberg", 5 * DAY),
    ("Tanaka Robotics KK", "hired", "Yuki Dupont", 3 * DAY),
    ("Harbour Analytics Ltd", "hired", "José Kowalski", 4 * DAY),
)


@pytest.fixture(scope="module")
def firms() -> QuestionLinker:
    facts = [Fact(*row) for row in ROWS]
    names = {name: name for fact in facts for name in (fact.subject, fact.object)}
    dataset = RuleQADataset(
        corpus=[Document(f"d{n}", " ".join(map(str, f[:3])), (f,)) for n, f in enumerate(facts)],
        queries={},
        labels={"entities": names, "relations": {f.relation: f.relation for f in facts}},
        info=DatasetInfo("firms", calendar={"unit": "day", "origin": "2010-01-01", "step": 1}),
        prediction=False,
    )
    return QuestionLinker(dataset)


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("Does Søren Åberg work for Delta-Chem N.V.?", ("no",)),
        ("Does Søren Åberg work for Tanaka Robotics?", ("yes",)),
        ("Is Delta-Chem headquartered in Rotterdam?", ("yes",)),
        ("How many people work for Tanaka Robotics KK?", (2,)),
        ("How many engineers are there?", (2,)),
        ("Who is the CEO of Müller Werkzeugbau?", ("Maeve Müller",)),
        ("Who started Harbour Analytics?", ("Chloé Kowalski",)),
        ("Who bought Harbour Analytics?", ("Delta-Chem N.V.",)),
        ("Where is Delta-Chem based?", ("Rotterdam",)),
        ("who does soren aberg report to", ("Yuki Dupont",)),
        ("In which city is the firm that Søren Åberg works for?", ("Osaka",)),
        ("Where does the boss of Søren Åberg work?", ("Tanaka Robotics KK",)),
        ("In which city does Søren Åberg's boss live?", ("Kyoto",)),
        ("Who works for Tanaka Robotics KK and lives in Osaka?", ("Søren Åberg",)),
        ("Which engineers work for Tanaka Robotics?", ("Søren Åberg",)),
        ("When was José Kowalski hired?", (4 * DAY,)),
        ("Who was the first person hired by Tanaka Robotics?", ("Yuki Dupont",)),
        ("Who was the last one that Tanaka Robotics hired?", ("Søren Åberg",)),
        ("Who did Tanaka Robotics hire before 2014?", ("Yuki Dupont",)),
        ("Please list everyone who works for Tanaka Robotics", ("Søren Åberg", "Yuki Dupont")),
        ("Who works together with Søren Åberg?", ("Yuki Dupont",)),
    ],
)
def test_right(firms: QuestionLinker, question: str, values: tuple[object, ...]) -> None:
    (found,) = firms.link([question])
    assert found.meaning is not None, found.refusal
    assert execute(found.meaning, firms.index).values == values, found.words


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Is Maeve Müller married?", "'married'"),
        ("What is the revenue of Delta-Chem?", "'revenue'"),
        ("Who owns Delta-Chem?", "'owns'"),
        ("Which nurses work for Tanaka Robotics?", "'nurses'"),
        ("Who works for Tanaka Robotics and speaks Welsh?", "'speaks' and 'welsh'"),
        ("Who works for Siemens?", "nobody known"),
        ("Who will be the next CEO of Delta-Chem?", "what will be"),
        ("Where does Åberg live?", "'Åberg' may be"),
    ],
)
def test_refused(firms: QuestionLinker, question: str, reason: str) -> None:
    (found,) = firms.link([question])
    assert found.meaning is None and reason in found.refusal


def test_what_the_facts_do_not_say_is_understood(firms: QuestionLinker) -> None:
    (found,) = firms.link(["Who founded Tanaka Robotics?"])
    assert found.words == "? founded Tanaka Robotics KK"
    assert found.meaning is not None
    assert execute(found.meaning, firms.index).values == ()
    # Not what Tanaka Robotics founded, nor who is known to have founded another firm.
    (found,) = firms.link(["Does José Kowalski report to Yuki Dupont?"])
    assert found.meaning is not None
    assert execute(found.meaning, firms.index).values == ()


def test_a_query_in_words(firms: QuestionLinker) -> None:
    asked = {
        "In which city is the firm that Søren Åberg works for?": (
            "Søren Åberg works for X and X is headquartered in ?"
        ),
        "How many people work for Tanaka Robotics?": "how many: ? works for Tanaka Robotics KK",
        "Does Søren Åberg work for Delta-Chem?": "whether Søren Åberg works for Delta-Chem N.V.",
        "Who did Tanaka Robotics hire in 2013?": (
            "Tanaka Robotics KK hired ? from 2013-01-01 to 2013-12-31"
        ),
    }
    assert [one.words for one in firms.link(list(asked))] == list(asked.values())
