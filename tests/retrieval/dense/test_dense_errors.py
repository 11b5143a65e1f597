"""Dense retrieval: bad input and damaged index folders, each by name."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.errors import (
    ConfigError,
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    MissingDependencyError,
    OutputError,
    RetrievalError,
)
from rulerag.retrieval.dense.retriever import DenseRetriever, open_dense
from rulerag.types import Document, Query
from tests.retrieval.dense_points import (
    SQUARE,
    Floats,
    Points,
    cloud,
    corpus_of,
    dense,
    queries_of,
)
from tests.retrieval.encoder_checkpoints import LETTERS, bert, write_model

# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("top_k", [0, -1, True, 2.5])
def test_top_k_must_be_a_positive_whole_number(top_k: int) -> None:
    with pytest.raises(ConfigError, match="top_k"):
        dense(SQUARE).retrieve([Query("q", "1 1")], top_k)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"similarity": "euclidean"}, "similarity"),
        ({"index": "HSNW32"}, "index"),
        ({"index": "IVF5,Flat"}, "index"),
        ({"search_parameters": "nprobe=4"}, "search_parameters"),
        ({"index": "HNSW32", "search_parameters": "efSearch"}, "search_parameters"),
        ({"threads": 0}, "threads"),
        ({"chunk_size": 0}, "chunk_size"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"key '{key}'"):
        dense(SQUARE, **options)


@pytest.mark.parametrize("index", ["hnsw", "flat", "x"])
def test_an_index_that_faiss_does_not_know_names_those_that_it_does(index: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot make an index '{index}'.*Flat.*HNSW32"):
        dense(SQUARE, index=index)


def test_an_index_that_does_not_go_with_the_vectors_is_told_before_anything_is_encoded() -> None:
    encoder = Points()
    encoder.dimension = 2  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="an index 'PQ4' of vectors of 2 numbers"):
        DenseRetriever(SQUARE, encoder, index="PQ4", cache=False)
    assert encoder.batches == []


def test_corpora_and_queries_that_cannot_be_encoded() -> None:
    with pytest.raises(EmptyDataError, match="no documents"):
        dense([])
    with pytest.raises(EmptyDataError, match="'blank' has no text"):
        dense([*SQUARE, Document("blank", "  ")])
    with pytest.raises(DataFormatError, match="'d0'"):
        dense([SQUARE[0], SQUARE[0]])
    with pytest.raises(EmptyDataError, match="the query 'q7' has no text"):
        dense(SQUARE).retrieve([Query("q1", "1 1"), Query("q7", " ")], 3)


def test_vectors_of_different_lengths_are_told() -> None:
    with pytest.raises(RetrievalError, match="encoded to 3 numbers, documents to 2"):
        dense(SQUARE).retrieve([Query("q", "1 1 1")], 3)
    known = Points("known")
    known.dimension = 3  # type: ignore[attr-defined]
    with pytest.raises(RetrievalError, match="encoded to 3 numbers, documents to 2"):
        dense(SQUARE, query_encoder=known)


def test_an_encoder_that_gives_something_else_is_told() -> None:
    class Flat:
        def encode(self, texts: Sequence[str]) -> Floats:
            return np.ones(len(texts), dtype=np.float32)

    class Broken:
        def encode(self, texts: Sequence[str]) -> Floats:
            return np.full((len(texts), 2), np.nan, dtype=np.float32)

    with pytest.raises(RetrievalError, match=r"Flat gave an array of shape \(4,\) for 4 texts"):
        DenseRetriever(SQUARE, Flat())
    with pytest.raises(RetrievalError, match="no numbers"):
        DenseRetriever(SQUARE, Broken())


def test_missing_faiss_is_told_before_anything_is_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    encoder = Points()
    with pytest.raises(MissingDependencyError, match=r"pip install 'rulerag\[dense\]'"):
        DenseRetriever(SQUARE, encoder, cache=False)
    assert encoder.batches == []


# --- index folders -----------------------------------------------------------------------------


def test_an_index_and_a_corpus_that_do_not_fit(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    dense(SQUARE).save(folder)
    with pytest.raises(FingerprintError, match="another corpus"):
        DenseRetriever.load(folder, SQUARE[:3], Points())
    with pytest.raises(FingerprintError, match="another encoder"):
        DenseRetriever.load(folder, SQUARE, Points("other"))
    with pytest.raises(ConfigError, match="nothing encodes queries"):
        DenseRetriever.load(folder, SQUARE)
    with pytest.raises(RetrievalError, match="no dense index here"):
        DenseRetriever.load(tmp_path, SQUARE, Points())
    with pytest.raises(OutputError, match="no index"):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "file").write_text("x")
        dense(SQUARE).save(tmp_path / "mine")
    known = Points("known")
    known.dimension = 3  # type: ignore[attr-defined]
    with pytest.raises(RetrievalError, match="encoded to 3 numbers"):
        DenseRetriever.load(folder, SQUARE, query_encoder=known)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"index": "HNSW32"}, "key 'index': is 'HNSW32' here.*was built with 'SQ8' — name an"),
        ({"similarity": "cosine"}, "key 'similarity': is 'cosine' here.*'dot'"),
    ],
)
def test_an_index_is_opened_as_it_was_built(
    stated: dict[str, Any], message: str, tmp_path: Path
) -> None:
    encoder = write_model(tmp_path / "contriever", bert(add_pooling_layer=False))
    documents = [Document(f"d{i}", letter) for i, letter in enumerate(LETTERS)]
    common: dict[str, Any] = {"encoder": encoder, "cache": False}
    made = open_dense(documents, index="SQ8", **common)
    made.save(tmp_path / "index")
    for same in ({}, {"index": "SQ8"}, {"similarity": "dot"}):
        opened = open_dense(documents, folder=tmp_path / "index", **common, **same)
        assert (opened.fingerprint, opened.built_with) == (made.fingerprint, made.built_with)
    with pytest.raises(ConfigError, match=message):
        open_dense(documents, folder=tmp_path / "index", **common, **stated)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("index", ["Flat", "SQ8", "HNSW4"])
@pytest.mark.parametrize("size", [-1, -600, 20, 0, None])
def test_files_that_are_cut(size: int | None, index: str, mmap: bool, tmp_path: Path) -> None:
    documents = corpus_of(cloud(300, 16))
    dense(documents, index=index).save(tmp_path / "index")
    path = tmp_path / "index" / "index.faiss"
    whole = path.read_bytes()
    path.unlink()
    if size is not None:
        path.write_bytes(whole[:size])
    message = "missing" if size is None else "damaged"
    with pytest.raises(RetrievalError, match=rf"index.faiss.*{message}.*build it anew"):
        DenseRetriever.load(tmp_path / "index", documents, Points(), mmap=mmap)


def test_a_damaged_index_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    dense(SQUARE).save(folder)

    def broken(name: str) -> Path:
        target = tmp_path / name
        shutil.copytree(folder, target)
        return target

    def settled(target: Path, **settings: Any) -> None:
        values = json.loads((target / "manifest.json").read_text())
        values["settings"] |= settings
        (target / "manifest.json").write_text(json.dumps(values))

    file = broken("cut") / "index.faiss"
    file.write_bytes(file.read_bytes()[:40])
    (broken("gone") / "index.faiss").unlink()
    other = broken("other") / "index.faiss"
    dense(SQUARE, index="SQ8").save(tmp_path / "sq8")
    shutil.copy(tmp_path / "sq8" / "index.faiss", other)
    settled(other.parent, bytes=other.stat().st_size)
    smaller = broken("smaller") / "index.faiss"
    dense(SQUARE[:2]).save(tmp_path / "two")
    shutil.copy(tmp_path / "two" / "index.faiss", smaller)
    settled(smaller.parent, bytes=smaller.stat().st_size)
    settled(broken("manifest"), bytes=None)
    for name, message in [
        ("cut", "damaged .40 bytes, its manifest says 77"),
        ("gone", "missing"),
        ("other", "in a IndexScalarQuantizer, its manifest says 4 of 2 in a IndexFlat"),
        ("smaller", "2 vectors of 2 numbers in a .*, its manifest says 4"),
        ("manifest", "manifest is damaged"),
    ]:
        with pytest.raises(RetrievalError, match=message):
            DenseRetriever.load(tmp_path / name, SQUARE, Points())


def test_a_search_that_is_not_settled_goes_deeper() -> None:
    # 300 documents within rounding of each other: the first candidates cannot settle the end.
    base = cloud(1, 16)[0]
    vectors = np.repeat(base[None], 300, axis=0)
    vectors[150] *= np.float32(1 + 2e-7)
    retriever = dense(corpus_of(vectors), similarity="dot")
    rows, _ = retriever.search(queries_of([base]), 3)
    products = np.einsum("nd,d->n", vectors, base)
    assert rows[0].tolist() == sorted(range(300), key=lambda i: (-products[i], i))[:3]
