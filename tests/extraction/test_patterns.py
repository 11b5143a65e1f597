"""Names, pairs of them and patterns of single sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.extraction import ExtractionSettings, PatternBook, TripleExtractor
from rulerag.extraction.names import NameReader
from rulerag.extraction.patterns import INVERSE, shared_out
from rulerag.kg import Calendar
from rulerag.types import Document, Fact

CALENDAR = Calendar("day", "2020-01-01")
SEEDS = [
    Fact("Ann Bo", "joins", "Acme Works", 0),
    Fact("Acme Works", "sues", "Bolt Works", 1),
    Fact("Cid Fo", "visits", "Ulm", 2),
    Fact("Dan Go", "joins", "Acme Works", 3),
]
TAUGHT = (
    "Ann Bo joined Acme Works on 1 January 2020. On 2020-01-02 Acme Works took legal action "
    "against Bolt Works. Cid Fo was seen. Cid Fo visited Ulm on January 3, 2020. "
    "Acme Works was joined by Dan Go on 2020-01-04."
)


def read(text: str, **options: object) -> list[tuple[str, str, str, str]]:
    """What is read of a text, once its words were learned from four sentences."""
    extractor = TripleExtractor(SEEDS, calendar=CALENDAR, **options)  # type: ignore[arg-type]
    extractor.learn([Document("taught", TAUGHT)])
    found = extractor.extract([Document("t", text)], learn=False)
    assert all(t.sentence[0] <= t.span[0] < t.span[1] <= t.sentence[1] for t in found.triples)
    return [
        (t.fact.subject, t.fact.relation, t.fact.object, CALENDAR.format(t.fact.timestamp or 0))
        for t in found.triples
    ]


ANN = ("Ann Bo", "joins", "Acme Works", "2021-05-09")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Ann Bo joined Acme Works on 9 May 2021.", [ANN]),
        ("On May 9th, 2021, Ann Bo has joined Acme Works.", [ANN]),
        ("On 09.05.2021 Acme Works was joined by Ann Bo.", [ANN]),
        ("Ann Bo, after long talks, soon went on to join the Acme Works on 2021-05-09.", [ANN]),
        (
            "Ann Bo joined Acme Works on 2021-05-09 and Cid Fo visited Ulm on 2021-06-01.",
            [ANN, ("Cid Fo", "visits", "Ulm", "2021-06-01")],
        ),
        ("Ann Bo did not join Acme Works on 2021-05-09.", []),
        ("Ann Bo would join Acme Works on 2021-05-09, people said.", []),
        ("Rumours that Ann Bo joined Acme Works on 2021-05-09 proved false.", []),
        ("On 2021-05-09 a photograph shows Ann Bo beside Acme Works.", []),
        ("On 2021-05-09 Ann Bo spoke; Acme Works was joined.", []),
        ("Ann Bo joined Acme Works.", []),
    ],
)
def test_the_longest_pattern_before_the_second_name_says_the_relation(
    text: str, facts: list[tuple[str, str, str, str]]
) -> None:
    assert read(text) == facts


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
    # A blank between a date and a name, once read as a name of no words.
    assert reader.read("On 2020-01-02 \u00a0 Acme", [(3, 13)])[0].entity == "acme_ltd"


def test_open_relations_are_called_by_their_words() -> None:
    settings = ExtractionSettings(open_relations=True)
    said = "Ann Bo tickled Cid Fo on 2021-05-09."
    assert read(said, settings=settings) == [("Ann Bo", "tickled", "Cid Fo", "2021-05-09")]
    assert read(said) == []
    assert read(said, settings=ExtractionSettings(0.9, True)) == []
    with pytest.raises(ConfigError, match="not from 0 to 1"):
        ExtractionSettings(min_confidence=2)
    with pytest.raises(EmptyDataError, match="there is no document"):
        TripleExtractor().extract([])


def test_patterns_are_written_edited_and_read(tmp_path: Path) -> None:
    book = TripleExtractor(SEEDS, calendar=CALENDAR).learn([Document("taught", TAUGHT)])
    file = tmp_path / "patterns.yaml"
    book.save(file)
    text = file.read_text(encoding="utf-8")
    assert '  "took legal action against": 1' in text
    assert '"^joins":\n  "was joined by": 1' in text
    assert PatternBook.load(file).counts == book.counts
    file.write_text(text + 'married: {"wed": 1}\n', encoding="utf-8")
    (meaning,) = PatternBook.load(file).meanings(("quiet", "wed"))
    assert (meaning.relation, meaning.pattern) == ("married", "wed")
    file.write_text("married: 3\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="expected words and how often"):
        PatternBook.load(file)


def test_a_fact_without_a_date_is_shared_out_among_what_joins_its_ends() -> None:
    stated = {
        Fact("a", "wrote", "b"): {(("pen",), "penned", "wrote"), (("own",), "owned", "wrote")},
        Fact("c", "owns", "d"): {(("own",), "owned", "owns")},
        Fact("e", "wrote", "f"): {(("pen",), "penned", "wrote")},
        Fact("g", "made", "h"): {(("mak",), "made", "made"), (("odd",), "odd", "made")},
        Fact("i", "held by", "j"): {(("hold",), "held", INVERSE + "held by")},
    }
    counts: dict[tuple[str, str], float] = {}
    for (word,), _, relation, count in shared_out(stated, {("mak",): {"made": 1.0}}):
        counts[word, relation] = counts.get((word, relation), 0.0) + count
    assert counts["pen", "wrote"] > 1.9
    assert counts["own", "owns"] == pytest.approx(1)
    assert ("own", "wrote") not in counts  # said once, beside others that say it
    assert ("odd", "made") not in counts
    assert counts["hold", INVERSE + "held by"] == 0.25  # most words name the subject first


def test_labels_are_patterns_of_undated_facts() -> None:
    book = PatternBook()
    book.add_labels({"r": "works for", "s": "capital"})
    extractor = TripleExtractor(patterns=book, labels={"r": "works for"})
    (triple,) = extractor.extract([Document("d", "Ann Bo works for Acme.")], learn=False).triples
    assert triple.fact == Fact("Ann Bo", "r", "Acme")
    assert book.wording("r") == "works for"
    assert book.wording("none") is None
