"""Questions as people ask them of a table of firms: the query that each means, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from rulerag.kg.grounding import execute
from rulerag.linking import QuestionLinker
from rulerag.ruleqa import DatasetInfo, RuleQADataset
from rulerag.types import Document, Fact, Query

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


FAMILY = ("Adam Weber", "Bruno Weber", "Carla Weber")
OLDER, YOUNGER = FAMILY[0], FAMILY[2]


def linker_of(rows: Sequence[Sequence[str]]) -> QuestionLinker:
    facts = [Fact(*row) for row in rows]
    names = {name: name for fact in facts for name in fact[:3]}
    corpus = [Document(f"d{n}", " ".join(f[:3]), (f,)) for n, f in enumerate(facts)]
    labels = {"entities": names, "relations": names}
    return QuestionLinker(RuleQADataset(corpus=corpus, queries={}, labels=labels))


@pytest.mark.parametrize(
    ("relation", "turned", "upper", "lower"),
    [
        ("parent of", False, "father", "child"),
        ("has parent", True, "mother", "son"),
        ("child of", True, "father", "daughter"),
        ("has child", False, "father", "child"),
        ("boss of", False, "boss", ""),
        ("reports to", True, "manager", "subordinate"),
        ("manages", False, "boss", ""),
        ("works for", True, "employer", "employee"),
        ("teaches", False, "teacher", "pupil"),
        ("student of", True, "teacher", "pupil"),
        ("trained under", True, "mentor", "student"),
    ],
)
def test_who_stands_to_whom(relation: str, turned: bool, upper: str, lower: str) -> None:
    """A graph of Adam over Bruno over Carla, whichever end the label starts from."""
    pairs = [(one, other) for one, other in pairwise(FAMILY)]
    linker = linker_of(
        [(b, relation, a) if turned else (a, relation, b) for a, b in pairs],
    )
    for noun, who in ((upper, OLDER), (lower, YOUNGER)):
        for text in (f"Who is Bruno Weber's {noun}?", f"Who is the {noun} of Bruno Weber?"):
            (found,) = linker.link([text]) if noun else (None,)
            if found is not None:
                assert found.meaning is not None, (text, found.refusal)
                assert execute(found.meaning, linker.index).values == (who,), found.words
    # What is not stated is not answered from the other end.
    (found,) = linker.link([f"Who is the {upper} of Adam Weber?"])
    assert found.meaning is None or execute(found.meaning, linker.index).values == ()


def test_words_that_people_use() -> None:
    rows = [
        ("Uganda police", "infl_by", "Kenya"),
        ("clinical drug", "treats", "fever"),
        ("clinical drug", "prevents", "fever"),
        ("sweet syrup", "treats", "fever"),
        ("Red Door", "directed by", "Ann Lee"),
        ("Blue Door", "directed by", "Ann Lee"),
        ("Blue Door", "written by", "Ann Lee"),
        ("Red Door", "written by", "Bo Ek"),
        ("China", "consults", "Japan"),
        ("China", "consults", "Peru"),
        ("Chile", "consults", "Peru"),
    ]
    linker = linker_of(rows)
    asked = {
        "Who influenced the Ugandan police?": ("Kenya",),
        "What do clinical drugs treat?": ("fever",),
        "What treats and prevents fever?": ("clinical drug",),
        "Which films did Ann Lee both write and direct?": ("Blue Door",),
        "Which films are by Bo Ek?": ("Red Door",),
        "Whom do China and Chile both consult?": ("Peru",),
        "Who consults Peru and also consults it?": (),
    }
    for question, values in asked.items():
        (found,) = linker.link([question])
        result = () if found.meaning is None else execute(found.meaning, linker.index).values
        assert result == values, (question, found.words, found.refusal)


def test_a_time_may_be_the_first_or_the_last(firms: QuestionLinker) -> None:
    asked = {
        "When was the last time that Tanaka Robotics hired someone?": "last",
        "When did Tanaka Robotics first hire Søren Åberg?": "first",
    }
    for question, form in asked.items():
        (found,) = firms.link([question])
        if found.meaning is not None:
            assert found.meaning.form == form and found.meaning.asks_time
            (time,) = execute(found.meaning, firms.index).values
            assert isinstance(time, int) and found.words.startswith(f"when {form}: ")
    (found,) = firms.link(["When did Tanaka Robotics first hire Søren Åberg?"])
    assert found.meaning is not None


def test_the_questions_of_a_dataset_are_linked(people: RuleQADataset) -> None:
    linker = QuestionLinker(people)
    rows = [
        Query("a", "Who works for Borsig?", answers=("Anna Meyer", "Carl Otto")),
        Query("b", "Is Borsig happy?", answers=("yes",)),
        people.queries["test"][0],
    ]
    one, two, same = linker.link_queries(rows)
    assert one.meaning is not None and one.id == "a" and one.answers == rows[0].answers
    assert "'happy'" in two.refusal and two.id == "b"
    assert same is rows[2]
