"""The facts of a corpus: as a table, one after the other, and off a file once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import DataFormatError
from rulerag.io import StoredRecords, write_jsonl
from rulerag.kg import corpus_facts, stated_facts
from rulerag.types import Document, Fact

BOTH = (Fact("ann", "lives_in", "bath", 3), Fact("bath", "in", "somerset", 1))
DATED = [Document("d0", "t", BOTH), Document("d1", "t"), Document("d2", "t", BOTH[:1])]
MIXED = [*DATED, Document("d3", "t", (Fact("bob", "lives_in", "ely"),))]


def stored(place: Path, documents: list[Document], digest: str) -> StoredRecords[Document]:
    write_jsonl(place, (document.to_json() for document in documents))
    return StoredRecords(place, Document.from_json, digest)


def test_a_stored_corpus_states_what_its_documents_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    stated = [(0, BOTH[0]), (0, BOTH[1]), (2, BOTH[0])]
    corpus = stored(tmp_path / "corpus.jsonl", DATED, "dated")
    again = stored(tmp_path / "empty.jsonl", [], "dated")  # nothing but what is remembered
    for documents in (DATED, corpus, again):
        assert list(stated_facts(documents)) == stated
        table, owner = corpus_facts(documents)
        assert list(zip(owner.tolist(), table, strict=True)) == stated
        # Texts have the labels of a dataset, not those that are made of names.
        assert table.relations.labels == ["lives_in", "in"]


def test_some_dated_facts_and_some_undated_are_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    for documents in (MIXED, stored(tmp_path / "corpus.jsonl", MIXED, "mixed")):
        with pytest.raises(DataFormatError, match="some facts are dated and others are not"):
            corpus_facts(documents)
        assert [place for place, _ in stated_facts(documents)] == [0, 0, 2, 3]
    assert len(corpus_facts(())[0]) == len(list(stated_facts(()))) == 0
