"""Measures of answers, by hand."""

from __future__ import annotations

import pytest

from benchmarks.stages.answers import CHARACTERS, EM, F1, LENIENT, entity_names, reading_columns
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Fact, GenerationRequest, Query


def test_measures_of_what_was_read_and_answered() -> None:
    corpus = [
        Document("1", "Citizen (China) Praise Iran.", (Fact("Citizen_(China)", "Praise", "Iran"),)),
        Document("2", "China Praise Iran.", (Fact("China", "Praise", "Iran"),)),
    ]
    queries = [
        Query("a", "?", "Iran", "Meet", answers=("China", "Oman")),
        Query("b", "?", "Iran", "Meet", answers=("Oman", "China")),
    ]
    dataset = RuleQADataset(
        corpus=corpus,
        queries={"test": queries},
        labels={"entities": {"Citizen_(China)": "Citizen (China)"}},
    )
    assert entity_names(dataset).first("of citizen china") == "citizen china"
    requests = [GenerationRequest(q, (d,)) for q, d in zip(queries, corpus, strict=True)]
    found = reading_columns(requests, ["I say China.", "China"], dataset)
    assert found["in_documents"].tolist() == [1, 1]
    assert found["entity_in_documents"].tolist() == [0, 1]
    assert found[EM].tolist() == [0, 1] and found[LENIENT].tolist() == [1, 1]
    assert found[F1].tolist() == pytest.approx([1 / 2, 1])
    # against the first answer alone: "china" and "oman" share a and n
    assert found[CHARACTERS][1] == pytest.approx(2 * 2 / (5 + 4))
