"""The baseline of similarity computes the same, and the texts are as large as they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.speed import similarity
from rulerag.errors import DataError
from rulerag.explanation.claims import split_sentences
from rulerag.explanation.similarity import cosines


def test_the_published_listing_gives_the_same_cosines() -> None:
    rows, columns = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])
    expected = [[0.6, 0.8], [1.0, 0.0]]
    np.testing.assert_allclose(similarity.listing(rows, columns), expected)
    np.testing.assert_allclose(cosines(rows, columns), expected)


def test_answer_and_documents_have_no_paragraph_in_common(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="HotpotQA is not here"):
        similarity.texts(tmp_path)
    (tmp_path / "hotpotqa").mkdir()
    context = [[f"T{n}", [f"Ann {n} came home.", f" Bob {n} was not there."]] for n in range(600)]
    (tmp_path / "hotpotqa" / "test.jsonl").write_text(json.dumps({"context": context}) + "\n")
    answer, documents = similarity.texts(tmp_path)
    assert len(split_sentences(answer)) == 20
    assert sum(len(split_sentences(document)) for document in documents) == 1000
    assert not any(document in answer for document in documents)
