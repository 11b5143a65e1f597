"""A dense index that grows: only new documents are encoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rulerag.errors import ConfigError, FingerprintError
from rulerag.retrieval.dense.retriever import DenseRetriever
from tests.retrieval.dense_points import Points, corpus_of, queries_of

pytest.importorskip("faiss")


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_it_finds_what_a_new_one_finds(tmp_path: Path, similarity: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((60, 4)) * np.arange(1, 61)[:, None]
    corpus, queries = corpus_of(vectors), queries_of(vectors[::7])
    anew = DenseRetriever(corpus, Points(), similarity=similarity, cache=False)
    DenseRetriever(corpus[:40], Points(), similarity=similarity, cache=False).save(tmp_path / "i")
    encoder = Points()
    assert DenseRetriever.extend(tmp_path / "i", corpus, encoder) == 20
    assert sum(map(len, encoder.batches)) == 20
    grown = DenseRetriever.load(tmp_path / "i", corpus, Points())
    assert grown.retrieve(queries, 60) == anew.retrieve(queries, 60)
    assert grown.fingerprint == anew.fingerprint


def test_what_cannot_grow_says_why(tmp_path: Path) -> None:
    corpus = corpus_of(np.random.default_rng(0).standard_normal((60, 4)))
    DenseRetriever(corpus[:50], Points(), index="HNSW8", cache=False).save(tmp_path / "hnsw")
    with pytest.raises(ConfigError, match="HNSW8"):
        DenseRetriever.extend(tmp_path / "hnsw", corpus, Points())
    DenseRetriever(corpus[:50], Points(), cache=False).save(tmp_path / "flat")
    with pytest.raises(FingerprintError, match="another encoder"):
        DenseRetriever.extend(tmp_path / "flat", corpus, Points("other"))
    with pytest.raises(FingerprintError, match="first documents"):
        DenseRetriever.extend(tmp_path / "flat", corpus[1:], Points())
