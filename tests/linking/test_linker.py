"""What questions in one's own words are taken to mean."""

from __future__ import annotations

import time

import numpy as np
import pytest

from rulerag.errors import DataFormatError
from rulerag.linking import INVERSE, QuestionLinker
from rulerag.ruleqa import DatasetInfo, RuleQADataset, parse_question
from rulerag.types import Document, Fact


@pytest.mark.parametrize(
    ("text", "entity", "relation"),
    [
        ("Who does Anna Meyer work for?", "Anna_Meyer", "works_for"),
        ("tell me the firm that anna meyer was working for", "Anna_Meyer", "works_for"),
        ("Who works for Borsig?", "Borsig", "^works_for"),
        ("By whom was Dora Lenz hired?", "Dora_Lenz", "hired_by"),
        ("Who hired Dora Lenz?", "Dora_Lenz", "hired_by"),
        ("Who was hired by Siemens?", "Siemens", "^hired_by"),
        ("Where does Carl Otto live?", "Carl_Otto", "lives_in"),
        ("Who does Ana Meyer work for?", "Anna_Meyer", "works_for"),
        ("Who does Anna Meyre work for?", "Anna_Meyer", "works_for"),
        ("What is Borsig located in?", "Borsig", "is_located_in"),
        ("Who protests against Borsigg?", "Borsig", "^protests_against"),
    ],
)
def test_questions_in_ones_own_words(
    linker: QuestionLinker, text: str, entity: str, relation: str
) -> None:
    (found,) = linker.link([text])
    best = found.readings[0].query
    assert not found.exact and (best.subject, best.relation) == (entity, relation)
    assert found.readings[0].asks_for_subject is relation.startswith(INVERSE)
    assert found.query().relation == relation
    (atom,) = found.meaning.atoms if found.meaning else ()
    known = atom.object if relation.startswith(INVERSE) else atom.subject
    assert (known, atom.relation) == (entity, relation.removeprefix(INVERSE))
    assert sum(one.probability for one in found.readings) <= 1 + 1e-9
    shares = [one.probability for one in found.readings]
    assert shares == sorted(shares, reverse=True)


def test_the_exact_form_is_what_it_was(linker: QuestionLinker, people: RuleQADataset) -> None:
    texts = ["Time 2020-01-03 what does Anna Meyer works for ?", "what does Anna Meyer works for ?"]
    for text, found in zip(texts, linker.link(texts), strict=True):
        assert found.exact and found.query() == parse_question(text, people)
        assert [one.query.relation for one in found.readings] == ["works_for"]


@pytest.mark.parametrize(
    ("when", "since", "until"),
    [
        ("on 2020-01-04", 3, 3),
        ("on 4 January 2020", 3, 3),
        ("on January 4th, 2020", 3, 3),
        ("on 04.01.2020", 3, 3),
        ("in January 2020", 0, 30),
        ("during 2020", 0, 365),
        ("in the year 2020", 0, 365),
        ("before 3 January 2020", None, 1),
        ("after 3 January 2020", 3, None),
        ("since 3 January 2020", 2, None),
        ("between 2 January 2020 and 3 January 2020", 1, 2),
        ("", None, None),
    ],
)
def test_the_time_of_a_question(
    linker: QuestionLinker, when: str, since: int | None, until: int | None
) -> None:
    (found,) = linker.link([f"Who did Anna Meyer work for {when}?"])
    assert found.ahead or (found.meaning is not None)
    bounds = (found.meaning.since, found.meaning.until) if found.meaning else (None, None)
    assert bounds == ((None, None) if found.ahead else (since, until))
    assert found.readings[0].relation == "works_for"


@pytest.mark.parametrize("when", ["in 20202", "in Smarch 2020"])
def test_what_is_no_time_is_refused(linker: QuestionLinker, when: str) -> None:
    (found,) = linker.link([f"Who did Anna Meyer work for {when}?"])
    assert when.split()[1].casefold() in found.refusal


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("Who does Anna Meyer work for?", False),
        ("Who did Anna Meyer work for on 2 January 2020?", False),
        ("Who did Anna Meyer work for on 5 January 2020?", True),
        ("Who does Anna Meyer work for in February 2020?", True),
        ("Who will Anna Meyer work for?", True),
        ("Who will Anna Meyer work for in 2019?", False),
    ],
)
def test_what_is_stated_is_asked_for_unless_the_question_looks_ahead(
    linker: QuestionLinker, text: str, ahead: bool
) -> None:
    (found,) = linker.link([text])
    assert found.ahead is ahead and found.query().prediction is ahead
    assert (found.query().meaning is None) is ahead


def test_a_name_does_not_look_ahead() -> None:
    facts = [Fact("Will_Next", "works_for", "Borsig", 1), Fact("Ann", "works_for", "Borsig", 2)]
    dataset = RuleQADataset(
        corpus=[Document(f"d{n}", "t", (fact,)) for n, fact in enumerate(facts)],
        queries={},
        labels={"entities": {"Will_Next": "Will Next"}, "relations": {"works_for": "works for"}},
        info=DatasetInfo(calendar={"unit": "day", "origin": "2020-01-01", "step": 1}),
        prediction=True,
    )
    found = QuestionLinker(dataset).link(
        ["Who does Will Next work for?", "Who will Will Next work for?"]
    )
    assert [one.ahead for one in found] == [False, True]


def test_an_ambiguous_name_may_not_matter(linker: QuestionLinker) -> None:
    (found,) = linker.link(["What does the citizen protest against?"])
    assert {one.query.subject for one in found.readings} == {"Citizen_(India)", "Citizen_(Peru)"}
    assert not found.refusal  # both protest against the same firm
    (found,) = linker.link(["What does the citizen (Peru) protest against?"])
    assert found.readings[0].query.subject == "Citizen_(Peru)" and not found.refusal


@pytest.mark.parametrize("text", ["Who hired Zxqwv?", "", "?!", "何ですか", "\x00\x00", "who"])
def test_nobody_known(linker: QuestionLinker, text: str) -> None:
    (found,) = linker.link([text])
    assert found.readings == () and not found.exact
    assert found.query().refusal.startswith("nobody known is mentioned")
    with pytest.raises(DataFormatError, match="no date of this graph"):
        linker.link(["Time yesterday what does Anna Meyer works for ?"])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Anna Meyer?", "no word says what is asked"),
        ("Wer kennt Anna Meyer?", "'kennt'"),
        ("Is Anna Meyer married?", "'married'"),
        ("Who works for Borsig and speaks Welsh?", "'welsh'"),
        ("Who does Anna Meyer not work for?", "'not'"),
        ("من يعمل لصالح Borsig؟", "nothing known is meant by"),
    ],
)
def test_a_word_that_nothing_accounts_for_is_named(
    linker: QuestionLinker, text: str, word: str
) -> None:
    (found,) = linker.link([text])
    assert word in found.refusal and "nearest relations: " in found.refusal
    assert found.meaning is None and found.query().refusal == found.refusal


@pytest.mark.parametrize(
    "text",
    [
        " " * 10_000 + "Who works for Borsig?",
        "who works for " * 200 + "Borsig",
        "Who \x1b[31mworks\x07 for Borsig?\n\r",
        "\u202eWho works for Borsig?",
        "Borsig " * 400,
        "?!(" * 3_000 + "Borsig",
    ],
)
def test_no_question_takes_long(linker: QuestionLinker, text: str) -> None:
    linker.link(["Who works for Borsig?"])
    start = time.perf_counter()
    (found,) = linker.link([text])
    assert found.refusal or found.readings[0].query.subject == "Borsig"
    assert time.perf_counter() - start < 10  # a busy machine takes one second; blanks took thirteen


def test_a_batch_is_its_questions_one_by_one(linker: QuestionLinker) -> None:
    texts = ["Who works for Borsig?", "Who hired Zxqwv?", "what does Anna Meyer works for ?"]
    texts += ["Who works for Borsig and lives in Berlin?", "Who works at Boorsigggg?"]
    found = linker.link(texts)
    assert [one.words for one in found] == [linker.link([text])[0].words for text in texts]
    assert found[3].words == "? works for Borsig and ? lives in Berlin"
    assert "'Borsig'" in found[4].refusal
    assert linker.link([]) == []


class _Synonyms:
    """Vectors by which wages are near to working for somebody."""

    def encode(self, texts: list[str]) -> np.ndarray:
        near = ("wages", "works for")
        return np.array([[1.0, float(any(w in t for w in near)) * 9] for t in texts], np.float32)


def test_an_encoder_compares_meanings(linker: QuestionLinker) -> None:
    text = ["Who gives wages to Anna Meyer, her employer?"]
    assert "'wages'" in linker.link(text)[0].refusal and linker.encoder is None
    (found,) = linker.with_encoder(_Synonyms()).link(["From whom does Anna Meyer get wages?"])
    assert found.readings[0].relation == "works_for"


def test_a_first_name_alone_names_those_who_have_it() -> None:
    names = ("Anna Meyer", "Anna Koch", "Ben Koch", "Borealis")
    facts = [Fact(name, "works for", "Acme") for name in names]
    corpus = [Document(f"d{n}", " ".join(one[:3]), (one,)) for n, one in enumerate(facts)]
    linker = QuestionLinker(RuleQADataset(corpus=corpus, queries={}))
    two, one = linker.link(["Who does Anna work for?", "Who does Ben work for?"])
    assert one.readings[0].query.subject == "Ben Koch"
    # Both work for the same firm, so that it does not matter which is meant.
    assert two.meaning is not None and not two.refusal


def test_the_order_of_other_words_chooses_no_relation() -> None:
    ends = {"directed_by": "Ann", "has_tags": "heist", "has_genre": "Drama", "written_by": "Bob"}
    films = ("Naked", "Safe", *map("Swordfish {}".format, range(50)))
    facts = [Fact(film, relation, end) for film in films for relation, end in ends.items()]
    corpus = [Document(f"d{n}", " ".join(one[:3]), (one,)) for n, one in enumerate(facts)]
    linker = QuestionLinker(RuleQADataset(corpus=corpus, queries={}))
    # "topics" and "type" are no verbs whose object is the film, as "directed" is in "directed by".
    topics, kind = linker.link(["which topics is Naked about", "what type of film is Safe"])
    assert topics.readings[0].relation == "has_tags"
    assert kind.readings[0].relation == "has_genre"
