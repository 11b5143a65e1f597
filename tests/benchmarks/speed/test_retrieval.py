"""The retrieval benchmark measures what it says, on sizes that take no time."""

from __future__ import annotations

import pytest

from benchmarks.common.random_encoder import small_encoder
from benchmarks.speed.retrieval import (
    compared,
    made_up_texts,
    measure_encoding,
    measure_search,
)
from benchmarks.speed.retrieval_training import measure_training_step, training_dataset

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("depth", [1, 20])
def test_search_is_compared(depth: int) -> None:
    row = measure_search(300, 16, 40, depth, repeats=1)
    assert row["ratio"] > 0 and row["cpu_ratio"] > 0
    assert row["queries_per_second"] / row["faiss_queries_per_second"] == pytest.approx(
        row["ratio"]
    )


def test_encoding_is_compared_on_the_same_tokens() -> None:
    texts = made_up_texts(100)
    assert len(set(texts)) == 100
    row = measure_encoding(texts, small_encoder(texts, layers=1, width=32), repeats=1)
    assert (row["texts"], row["layers"], row["width"]) == (100, 1, 32)
    assert row["tokens"] > 1000
    assert row["ratio"] > 0 and row["cpu_ratio"] > 0


def test_a_training_step_is_compared_on_the_same_tokens() -> None:
    dataset = training_dataset(1500)
    encoder = small_encoder([d.text for d in dataset.corpus], layers=1, width=32)
    before = encoder.fingerprint
    row = measure_training_step(dataset, encoder, compared, batch_size=4, steps=2, repeats=1)
    assert encoder.fingerprint != before  # it did learn
    assert (row["batch_size"], row["layers"], row["width"]) == (4, 1, 32)
    assert row["tokens_per_text"] > 20
    assert row["ratio"] > 0 and row["cpu_ratio"] > 0
