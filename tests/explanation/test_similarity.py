from __future__ import annotations

import numpy as np
import pytest

from rulerag.explanation.similarity import embedding_similarity, lexical_similarity
from rulerag.explanation.sources import partition
from rulerag.types import Document

SOURCES = partition(
    [
        Document("a", "Rome is the capital of Italy."),
        Document("b", "Paris is the capital of France."),
        Document("c", "Bread is made of flour."),
    ]
)


def test_the_source_with_the_rare_words_of_the_statement_comes_first() -> None:
    found = lexical_similarity("capital of Italy? Rome", SOURCES)
    assert found.ranking == (0, 1, 2) and found.num_probes == 0
    assert found.names == ("D1", "D2", "D3")
    assert 0 < found.values[2] < found.values[1] < found.values[0] < 1
    assert lexical_similarity(SOURCES[1].text, SOURCES).values[1] == pytest.approx(1)
    assert lexical_similarity("", SOURCES).values == (0, 0, 0)
    assert lexical_similarity("anything", []).values == ()


def test_vectors_of_any_encoder() -> None:
    class Letters:
        def encode(self, texts):  # type: ignore[no-untyped-def]
            rows = [[text.count("R"), text.count("P"), 0] for text in texts]
            return np.array(rows, dtype=np.float32)

    found = embedding_similarity("R", SOURCES, Letters())
    assert found.values == (1, 0, 0)
