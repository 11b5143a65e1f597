from __future__ import annotations

import numpy as np

from rulerag.explanation.attribution.values import embedding_similarity
from rulerag.explanation.probing.sources import partition
from rulerag.types import Document

SOURCES = partition(
    [
        Document("a", "Rome is the capital of Italy."),
        Document("b", "Paris is the capital of France."),
        Document("c", "Bread is made of flour."),
    ]
)


def test_vectors_of_any_encoder() -> None:
    class Letters:
        def encode(self, texts):  # type: ignore[no-untyped-def]
            rows = [[text.count("R"), text.count("P"), 0] for text in texts]
            return np.array(rows, dtype=np.float32)

    found = embedding_similarity("R", SOURCES, Letters())
    assert found.values == (1, 0, 0) and found.names == ("D1", "D2", "D3")
    assert found.ranking == (0, 1, 2) and found.num_probes == 0
