"""Names, clauses and patterns of single sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataFormatError
from rulerag.extraction import ExtractionSettings, PatternBook, TripleExtractor
from rulerag.extraction.names import NameReader
from rulerag.kg import Calendar
from rulerag.types import Document, Fact

CALENDAR = Calendar("day", "2020-01-01")
SEEDS = [
    Fact("Ann Bo", "joins", "Acme Works", 0),
    Fact("Acme Works", "sues", "Bolt Works", 1),
    Fact("Cid Fo", "visits", "Ulm", 2),
]
TAUGHT = (
    "Ann Bo joined Acme Works on 1 January 2020. On 2020-01-02 Acme Works took legal action "
    "against Bolt Works. Cid Fo was seen. Cid Fo visited Ulm on January 3, 2020."
)


def read(text: str, **options: object) -> list[tuple[str, str, str, str | None]]:
    """What is read of a text, once its words were learned from three sentences."""
    extractor = TripleExtractor(SEEDS, calendar=CALENDAR, **options)  # type: ignore[arg-type]
    extractor.learn([Document("taught", TAUGHT)])
    found = extractor.extract([Document("t", text)], learn=False)
    return [
        (t.fact.subject, t.fact.relation, t.fact.object, CALENDAR.format(t.fact.timestamp or 0))
        for t in found.triples
    ]


ANN = ("Ann Bo", "joins", "Acme Works", "2021-05-09")


@pytest.mark.parametrize(
    "text",
    [
        "Ann Bo joined Acme Works on 9 May 2021.",
        "On May 9th, 2021, Ann Bo has joined Acme Works.",
        "On 09.05.2021 Acme Works was joined by Ann Bo.",
        "It was Acme Works that Ann Bo joined on 2021-05-09.",
        "Ann Bo, after long talks, soon went on to join the Acme Works on 2021-05-09.",
        "Ann Bo slept. On 2021-05-09 she finally joined Acme Works.",
        "Among those who joined Acme Works on 2021-05-09 was Ann Bo.",
        "Acme Works, which Ann Bo joined on 2021-05-09, grew.",
    ],
)
def test_one_fact_in_many_constructions(text: str) -> None:
    assert read(text) == [ANN]


def test_two_facts_a_sentence_have_one_subject_and_dates_of_their_own() -> None:
    said = "Ann Bo joined Acme Works on 2021-05-09 and visited Ulm on 2021-06-01. "
    said += "Later he also visited Bonn that same day; it rained."
    assert read(said) == [
        ANN,
        ("Ann Bo", "visits", "Ulm", "2021-06-01"),
        ("Ann Bo", "visits", "Bonn", "2021-06-01"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Ann Bo did not join Acme Works on 2021-05-09.",
        "Ann Bo would join Acme Works on 2021-05-09, people said.",
        "Rumours that Ann Bo joined Acme Works on 2021-05-09 proved false.",
        "On 2021-05-09 a photograph shows Ann Bo beside Acme Works.",
        "Ann Bo joined Acme Works.",
    ],
)
def test_what_did_not_happen_or_has_no_date_is_no_fact(text: str) -> None:
    assert read(text) == []


def test_a_pronoun_is_the_last_one_who_fits() -> None:
    said = "On 2021-01-01 Acme Works sued Bolt Works. Ann Bo visited Ulm on 2021-01-02. "
    said += "It sued Bolt Works again on 2021-01-03."
    learned = read(said + " On 2021-02-02 Acme Works sued Bolt Works.")
    assert ("Acme Works", "sues", "Bolt Works", "2021-01-03") in learned


def test_names_are_known_or_have_capitals() -> None:
    texts = [
        "The board met. The Silent Harbour opened, and the Silent Harbour closed in Bad Ems.",
        "Then Anna Meyer of Acme spoke in May. What Meyer said pleased nobody at DHL.",
    ]
    reader = NameReader(texts, {"acme_ltd": ("Acme", "acme_ltd")})
    named = [[one.entity for one in reader.read(text)] for text in texts]
    assert named == [
        ["Silent Harbour", "Silent Harbour", "Bad Ems"],
        ["Anna Meyer", "acme_ltd", "Anna Meyer", "DHL"],
    ]


def test_open_relations_are_called_by_their_words() -> None:
    settings = ExtractionSettings(open_relations=True)
    said = "Ann Bo tickled Cid Fo on 2021-05-09."
    assert read(said, settings=settings) == [("Ann Bo", "tickled", "Cid Fo", "2021-05-09")]
    assert read(said) == []
    with pytest.raises(ConfigError, match="not from 0 to 1"):
        ExtractionSettings(min_confidence=2)


def test_patterns_are_written_edited_and_read(tmp_path: object) -> None:
    extractor = TripleExtractor(SEEDS, calendar=CALENDAR)
    book = extractor.learn([Document("taught", TAUGHT)])
    file = f"{tmp_path}/patterns.yaml"
    book.save(file)
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    assert '  "took legal action against": 1' in text
    again = PatternBook.load(file)
    assert again.counts == book.counts
    with open(file, "a", encoding="utf-8") as opened:
        opened.write('married: {"wed": 1}\n')
    wed = PatternBook.load(file)
    (meaning,) = wed.meanings(("wed",), "wed")
    assert (meaning.relation, meaning.pattern) == ("married", "wed")
    with open(file, "w", encoding="utf-8") as opened:
        opened.write("married: 3\n")
    with pytest.raises(DataFormatError, match="expected words and how often"):
        PatternBook.load(file)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Ann Bo, a clerk at Acme, slept.", {("Ann Bo", "works", "Acme")}),
        ("Acme's founder is Ann Bo.", {("Ann Bo", "founded", "Acme")}),
        ("The founder of Acme is Ann Bo.", {("Ann Bo", "founded", "Acme")}),
        ("Acme, founded by Ann Bo, grew.", {("Ann Bo", "founded", "Acme")}),
        ("Founded by Ann Bo, Acme grew.", {("Ann Bo", "founded", "Acme")}),
        (
            "Ann Bo and Cid Fo founded Acme and Bolt in 1990.",
            {(x, "founded", y) for x in ("Ann Bo", "Cid Fo") for y in ("Acme", "Bolt")},
        ),
    ],
)
def test_constructions_of_reference_works(text: str, facts: set[tuple[str, str, str]]) -> None:
    people, firms = [f"Ann{n} Bo{n}" for n in range(8)], [f"Firm{n} Works" for n in range(8)]
    pairs = list(zip(people, firms, strict=True))
    taught = [f"{x} is a clerk at {y}. {x} founded {y}." for x, y in pairs]
    seeds = [Fact(x, relation, y) for x, y in pairs for relation in ("works", "founded")]
    names = {name: (name,) for name in ("Ann Bo", "Cid Fo", "Acme", "Bolt")}
    book = PatternBook()
    book.learn([(("be", "clerk", "at"), "is a clerk at", "works", 8.0)])
    book.learn([(("found",), "founded", "founded", 8.0)])
    extractor = TripleExtractor(seeds, names=names, patterns=book)
    documents = [Document("t", text), *(Document(f"d{n}", one) for n, one in enumerate(taught))]
    found = extractor.extract(documents, learn=False)
    read = {one.fact[:3] for one in found.triples if one.document_id == "t"}
    assert read == facts


FILMS = [(f"Film{n}", f"Ann Composer{n}") for n in range(4)]


def test_frames_say_what_no_verb_between_two_names_does(tmp_path: Path) -> None:
    lines = [f"The music for {film} is by {name}." for film, name in FILMS]
    lines += ["Film9 has Ann Bo among its guests.", "The music for Film8 is by Cid Fo."]
    seeds = [*(Fact(film, "score", name) for film, name in FILMS[:2])]
    names = {end: (end,) for ends in [*FILMS, ("Film9", "Ann Bo")] for end in ends}
    extractor = TripleExtractor(seeds, names={**names, "Film8": ("Film8",)})
    documents = [Document(f"d{n}", text) for n, text in enumerate(lines)]
    found = {triple.fact for triple in extractor.extract(documents).triples}
    assert found == {Fact(*one) for one in [*_scores(FILMS), ("Film8", "score", "Cid Fo")]}
    file = tmp_path / "patterns.yaml"
    extractor.book.save(file)
    assert "music for \u2026 is by \u2026" in file.read_text(encoding="utf-8")
    again = TripleExtractor(patterns=PatternBook.load(file), names=extractor.names)
    (triple,) = again.extract([documents[-1]], learn=False).triples
    assert triple.fact == Fact("Film8", "score", "Cid Fo")


def _scores(pairs: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(film, "score", name) for film, name in pairs]
