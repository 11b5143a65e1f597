"""The records: their JSON forms, and what they derive from what they hold."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, strategies as st

from rulerag.errors import DataFormatError
from rulerag.rules import Atom, Rule
from rulerag.types import (
    Answer,
    Candidate,
    Completion,
    Document,
    Fact,
    GenerationRequest,
    Query,
    RuleHit,
    ScoredDocument,
)

TEXTS = st.text(min_size=1, max_size=12)
FACTS = st.builds(Fact, TEXTS, TEXTS, TEXTS, st.none() | st.integers(-(10**6), 10**6))
DOCUMENTS = st.builds(
    Document, TEXTS, TEXTS, st.lists(FACTS, max_size=3).map(tuple), st.text(max_size=5)
)
QUERIES = st.builds(
    Query,
    TEXTS,
    TEXTS,
    st.text(max_size=5),
    st.text(max_size=5),
    st.none() | st.integers(-(10**6), 10**6),
    st.lists(st.text(max_size=8), max_size=3).map(tuple),
)
RULE = Rule(Atom("h", "?x", "?y"), (Atom("b", "?x", "?y"),))


def through_json(value: object) -> object:
    return json.loads(json.dumps(value))


@given(document=DOCUMENTS, query=QUERIES)
def test_records_survive_their_beir_rows(document: Document, query: Query) -> None:
    assert Document.from_json(through_json(document.to_json())) == document
    assert Query.from_json(through_json(query.to_json())) == query


def test_rows_have_the_keys_of_beir() -> None:
    document = Document("d1", "Italy visits France.", (Fact("Italy", "visit", "France", 24),))
    assert document.to_json() == {
        "_id": "d1",
        "title": "",
        "text": "Italy visits France.",
        "metadata": {"facts": [["Italy", "visit", "France", 24]]},
    }
    query = Query("q1", "whom does Italy visit?", "Italy", "visit", 48, ("France",))
    assert set(query.to_json()) == {"_id", "text", "metadata"}
    assert set(query.to_json()["metadata"]) == {"subject", "relation", "timestamp", "answers"}


def test_rows_of_plain_beir_without_metadata_are_read() -> None:
    assert Document.from_json({"_id": "d", "text": "t"}) == Document("d", "t")
    assert (
        Document.from_json({"_id": "d", "text": "t", "title": None, "metadata": None}).facts == ()
    )
    assert Query.from_json({"_id": "q", "text": "t"}) == Query("q", "t")


EMPTY: list[dict[str, object]] = [{"_id": 7}, {"_id": ""}, {"text": None}, {"text": ""}]
MISSHAPEN: list[object] = [["s", "r"], "srot", ["s", "r", "o", "24"], ["s", "r", "o", 1, 2], None]


@pytest.mark.parametrize(
    ("record", "change", "key"),
    [
        *((record, one, next(iter(one))) for record in (Document, Query) for one in EMPTY),
        *((Document, {"metadata": {"facts": [one]}}, "metadata.facts") for one in MISSHAPEN),
        (Query, {"metadata": {"timestamp": "2014"}}, "timestamp"),
    ],
)
def test_a_row_that_is_no_record_names_the_key(
    record: type[Document] | type[Query], change: dict[str, object], key: str
) -> None:
    with pytest.raises(DataFormatError) as caught:
        record.from_json({"_id": "x", "text": "t", **change})
    assert caught.value.key == key


def test_a_document_speaks_of_its_latest_time() -> None:
    facts = (Fact("a", "r", "b", 3), Fact("a", "r", "b", 7), Fact("a", "r", "b"))
    assert Document("d", "t", facts).timestamp == 7
    assert Document("d", "t", facts[2:]).timestamp is None
    assert Document("d", "t").timestamp is None


def test_a_scored_document_names_each_rule_once_in_the_order_found() -> None:
    hits = (
        RuleHit("r2", 1, 9.0),
        RuleHit(None, 1, 8.0),
        RuleHit("r1", 3, 2.0, atom=0),
        RuleHit("r2", 5, 1.0),
    )
    assert ScoredDocument(Document("d", "t"), 9.0, 1, hits).rule_ids == ("r2", "r1")
    assert ScoredDocument(Document("d", "t"), 9.0, 1).rule_ids == ()


def test_an_answer_can_be_asked_again_and_written() -> None:
    query = Query("q1", "whom?", answers=("France", "Spain"))
    documents = tuple(
        ScoredDocument(Document(f"d{rank}", f"text {rank}"), 1.0 / rank, rank, hits)
        for rank, hits in ((1, (RuleHit(RULE.id, 1, 4.5, atom=0),)), (2, ()))
    )
    completion = Completion("France", 0.9, (Candidate("France", 0.9, ("d1",), (RULE.id,)),))
    answer = Answer(query, completion, documents, (RULE,), {"dataset": "abc"})
    assert answer.text == "France"
    assert answer.request() == GenerationRequest(
        query, (documents[0].document, documents[1].document), (RULE,)
    )
    row = answer.to_json()
    assert through_json(row) == row
    assert (row["query_id"], row["answer"], row["answers"]) == ("q1", "France", ["France", "Spain"])
    assert [(d["id"], d["rank"], d["found_by"]) for d in row["documents"]] == [
        ("d1", 1, [{"rule": RULE.id, "rank": 1, "score": 4.5, "atom": 0}]),
        ("d2", 2, []),
    ]
    assert row["rules"] == [{"id": RULE.id, "text": RULE.text}]
    assert row["fingerprints"] == {"dataset": "abc"}


def test_records_are_frozen() -> None:
    for record, name in ((Document("d", "t"), "text"), (Query("q", "t"), "text"), (RULE, "text")):
        with pytest.raises(FrozenInstanceError):
            setattr(record, name, "other")
