"""The candidate reader: its choice in a document, its votes, and a pipeline that holds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerag.errors import ConfigError
from rulerag.generation.candidate_reader import CandidateReader, answers_by_relation
from rulerag.types import Document, Fact, GenerationRequest, GroundedAtom, Query

CORPUS = [
    Document("0", "", (Fact("ann", "met", "bob"),)),
    Document("1", "", (Fact("eve", "visit", "cid"),)),
    Document("2", "", (Fact("dan", "visit", "cid"),)),
    Document("3", "", (Fact("bob", "met", "ann"),)),
    Document("4", "no facts", ()),
    Document("5", "", (Fact("ann", "met", "ann"),)),
]
QUERY = Query("q", "whom does ann visit ?", "ann", "visit")


def read(*places: int, **options: float) -> list[tuple[str, float, tuple[str, ...]]]:
    reader = CandidateReader(
        known=answers_by_relation(CORPUS),
        labels={"bob": "Bob"},
        **options,  # type: ignore[arg-type]
    )
    request = GenerationRequest(QUERY, tuple(CORPUS[n] for n in places), ())
    (completion,) = reader.generate([request])
    assert completion.text == (completion.candidates[0].text if completion.candidates else "")
    return [(c.text, round(c.score, 6), c.document_ids) for c in completion.candidates]


def test_counts_are_of_objects_by_relation() -> None:
    assert answers_by_relation(CORPUS)["visit"] == {"cid": 2}
    assert answers_by_relation(CORPUS)["met"] == {"bob": 1, "ann": 2}


def test_the_known_answer_of_a_document_wins_inside_it_and_the_first_document_among_them() -> None:
    assert read(1) == [("cid", 1.0, ("1",))]  # eve was never visited
    assert read(0, 1) == [("Bob", round(1 / 1.5, 6), ("0",)), ("cid", round(0.5 / 1.5, 6), ("1",))]
    # Places 2 and 3 give cid 1/2 + 1/3, place 1 gives Bob 1.
    assert [text for text, *_ in read(0, 1, 2)] == ["Bob", "cid"]
    assert [text for text, *_ in read(0, 1, 2, rank_discount=0.5)] == ["cid", "Bob"]
    assert read(1, 0, rank_discount=0)[0][0] == "cid"  # of equal ones the first
    assert len(read(0, 1, max_candidates=1)) == 1


def test_it_abstains_where_no_other_entity_is_named() -> None:
    assert read(4, 5) == []


def test_options_are_checked_and_named() -> None:
    for wrong in ({"rank_discount": -1.0}, {"max_candidates": 0}):
        with pytest.raises(ConfigError):
            CandidateReader(known={}, **wrong)  # type: ignore[arg-type]
    known = answers_by_relation(CORPUS)
    names = {
        CandidateReader(known=known).fingerprint,
        CandidateReader(known=known, rank_discount=0.5).fingerprint,
        CandidateReader(known={}).fingerprint,
    }
    assert len(names) == 3


def test_a_stated_answer_comes_first_wherever_its_document_stands() -> None:
    # Both documents name two entities; cid is the likelier object of the second.
    stated = Document("s", "", (Fact("ann", "visit", "zoe"), Fact("eve", "visit", "cid")))
    documents = (CORPUS[0], CORPUS[2], stated)
    reader = CandidateReader(known=answers_by_relation([*CORPUS, stated]), labels={"zoe": "Zoe"})
    told, foretold = (
        reader.generate([GenerationRequest(query, documents)])[0]
        for query in (QUERY, replace(QUERY, prediction=True))
    )
    assert (told.text, foretold.text) == ("Zoe", "bob")
    assert told.candidates[0].grounded == (GroundedAtom("s", None, 0),)
    assert told.candidates[0].document_ids == ("s",)
    assert [c.text for c in told.candidates[1:]] == [c.text for c in foretold.candidates]
