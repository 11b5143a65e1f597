from __future__ import annotations

import pytest

from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.probing.sources import (
    PartitionedDocuments,
    Piece,
    Source,
    group,
    partition,
)
from rulerag.types import Document, Fact

FACT = Fact("a", "r", "b", 3)
DOCUMENTS = (
    Document("x", "Ann was born in Bath. She moved to York! Did she return?", (FACT,), "Ann"),
    Document("y", "Bob stayed.", (FACT,)),
    Document("z", ""),
)


def test_documents_are_named_in_order() -> None:
    assert [s.name for s in partition(DOCUMENTS)] == ["D1", "D2", "D3"]
    assert [s.text for s in partition(DOCUMENTS)] == [d.text for d in DOCUMENTS]


def test_sentences_and_words() -> None:
    sentences = partition(DOCUMENTS, "sentence")
    assert [(s.name, s.text) for s in sentences] == [
        ("D1.1", "Ann was born in Bath."),
        ("D1.2", "She moved to York!"),
        ("D1.3", "Did she return?"),
        ("D2.1", "Bob stayed."),
    ]
    assert [s.text for s in partition(DOCUMENTS[1:2], "word")] == ["Bob", "stayed."]


def test_kept_documents_stay_whole_and_in_their_order() -> None:
    evidence = PartitionedDocuments(DOCUMENTS, partition(DOCUMENTS)[::-1])
    assert evidence.keep([0, 2]) == (DOCUMENTS[0], DOCUMENTS[2])
    assert evidence.keep([]) == ()
    assert evidence.keep([0, 1, 2]) == DOCUMENTS


def test_a_part_of_a_document_keeps_order_and_drops_facts() -> None:
    evidence = PartitionedDocuments(DOCUMENTS, partition(DOCUMENTS, "sentence"))
    assert evidence.keep([0, 1, 2, 3]) == DOCUMENTS
    kept = evidence.keep([2, 0])  # the caller's order does not matter
    assert kept[0] == Document("x", "Ann was born in Bath. Did she return?", (), "Ann")
    assert [d.id for d in kept] == ["x", "z"]
    assert evidence.keep([1])[0].text == "She moved to York!"
    words = PartitionedDocuments(DOCUMENTS[1:2], partition(DOCUMENTS[1:2], "word"))
    assert words.keep([1])[0].text == "stayed." and words.keep([]) == ()


def test_text_without_a_source_is_kept_in_every_probe() -> None:
    evidence = PartitionedDocuments(DOCUMENTS, partition(DOCUMENTS)[:1])
    assert evidence.keep([]) == DOCUMENTS[1:]
    first_sentence = PartitionedDocuments(DOCUMENTS, partition(DOCUMENTS, "sentence")[:1])
    assert first_sentence.keep([])[0].text == "She moved to York! Did she return?"


def test_a_group_is_kept_or_removed_as_one() -> None:
    one, two, three = partition(DOCUMENTS)
    evidence = PartitionedDocuments(DOCUMENTS, [group([one, three], "ends"), two])
    assert evidence.keep([0]) == (DOCUMENTS[0], DOCUMENTS[2])
    assert evidence.keep([1]) == (DOCUMENTS[1],)


def test_bad_sources_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sentence'"):
        partition(DOCUMENTS, "sentences")
    with pytest.raises(ExplanationError, match="document 'x' is given twice"):
        partition([DOCUMENTS[0], DOCUMENTS[0]])
    units = partition(DOCUMENTS)
    with pytest.raises(ExplanationError, match="source 'D1' is given twice"):
        PartitionedDocuments(DOCUMENTS, [units[0], units[0]])
    with pytest.raises(ExplanationError, match="again and D1 cover the same text"):
        PartitionedDocuments(DOCUMENTS, [units[0], Source("again", "Ann", (Piece(0, 0, 3),))])
    with pytest.raises(ExplanationError, match="names document 7 of 3"):
        PartitionedDocuments(DOCUMENTS, [Source("far", "", (Piece(7, 0, 0),))])
    with pytest.raises(ExplanationError, match="outside its document"):
        PartitionedDocuments(DOCUMENTS, [Source("long", "", (Piece(1, 0, 99),))])
