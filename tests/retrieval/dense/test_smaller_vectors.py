"""Vectors of fewer numbers, of bytes and of bits: what they find, what is kept, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from rulerag.assembly import make_retriever
from rulerag.composition import Config
from rulerag.errors import ConfigError, RetrievalError
from rulerag.retrieval.dense import DenseRetriever, normalized, open_dense
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Query
from tests.retrieval.dense_points import (
    SQUARE,
    Points,
    cloud,
    corpus_of,
    dense,
    queries_of,
)
from tests.retrieval.encoder_checkpoints import LETTERS, bert, write_model


@pytest.fixture(scope="module")
def clusters() -> tuple[list[Document], list[Query]]:
    """Vectors of 64 numbers around fifty centres, and queries that are some of them, shaken."""
    centres, noise = cloud(50, 64, seed=1), cloud(3000, 64, seed=2)
    vectors = np.repeat(centres, 60, axis=0) + 0.4 * noise
    return corpus_of(vectors), queries_of(vectors[::60] + 0.1 * noise[:50])


def recall(
    clusters: tuple[list[Document], list[Query]], similarity: str = "cosine", **options: Any
) -> float:
    """Of the ten documents that whole float32 vectors find, those found."""
    documents, queries = clusters
    whole = dense(documents, similarity=similarity).search(queries, 10).rows
    found = dense(documents, similarity=similarity, **options).search(queries, 10).rows
    return float(np.mean([len(set(a) & set(b)) for a, b in zip(whole, found, strict=True)])) / 10


# --- bytes and bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_bytes_and_bits_find_nearly_what_floats_find(
    clusters: tuple[list[Document], list[Query]], similarity: str
) -> None:
    assert recall(clusters, similarity, vectors="int8") > 0.95
    assert recall(clusters, similarity, vectors="binary") > 0.95
    alone = recall(clusters, similarity, index="RaBitQ")
    few = recall(clusters, similarity, vectors="binary", search_parameters="k_factor_rf=2")
    assert 0.3 < alone < few < recall(clusters, similarity, vectors="binary")


def test_what_bits_find_is_scored_and_ordered_by_floats(
    clusters: tuple[list[Document], list[Query]],
) -> None:
    documents, queries = clusters
    whole, bits = dense(documents), dense(documents, vectors="binary")
    everything = "k_factor_rf=300"
    deep = dense(documents, vectors="binary", search_parameters=everything)
    exact = whole.search(queries, 3000)
    for found in (bits.search(queries, 10), bits.search(queries[:1], 10)):
        for line, (rows, scores) in enumerate(zip(found.rows, found.scores, strict=True)):
            known = dict(zip(exact.rows[line], exact.scores[line], strict=True))
            assert [known[row] for row in rows] == scores.tolist()
            assert (np.diff(scores) <= 0).all()
    np.testing.assert_array_equal(deep.search(queries, 10).rows, exact.rows[:, :10])


def test_equal_scores_of_bits_come_in_row_order() -> None:
    documents = corpus_of(cloud(5, 16)[np.arange(200) % 5])
    rows = dense(documents, vectors="binary").search(queries_of(cloud(3, 16, seed=1)), 200).rows
    for row in rows:
        assert sorted(row.tolist()) == list(range(200))
        assert all((np.diff(row[start : start + 40]) == 5).all() for start in range(0, 200, 40))


@pytest.mark.parametrize("dimension", [1, 2, 7, 100])
def test_bits_of_any_number_of_dimensions(dimension: int) -> None:
    vectors = cloud(300, dimension)
    found = dense(corpus_of(vectors), vectors="binary").search(queries_of(vectors[:5]), 300)
    whole = dense(corpus_of(vectors)).search(queries_of(vectors[:5]), 300)
    np.testing.assert_array_equal(found.scores, whole.scores)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"vectors": "int8"},
        {"vectors": "binary"},
        {"vectors": "binary", "search_parameters": "k_factor_rf=3"},
        {"dimensions": 24},
        {"vectors": "binary", "dimensions": 24, "similarity": "dot"},
    ],
    ids=str,
)
def test_what_was_saved_finds_the_same(
    options: dict[str, Any],
    mmap: bool,
    clusters: tuple[list[Document], list[Query]],
    tmp_path: Path,
) -> None:
    documents, queries = clusters
    made = dense(documents, **options)
    made.save(tmp_path / "index")
    opened = DenseRetriever.load(tmp_path / "index", documents, Points(), mmap=mmap)
    assert opened.fingerprint == made.fingerprint
    assert opened.built_with == made.built_with
    for depth in (1, 10, 3000):
        found, expected = opened.search(queries, depth), made.search(queries, depth)
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.scores, expected.scores)
    opened.save(tmp_path / "again")
    for file in (tmp_path / "index").iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_sizes_on_disk(clusters: tuple[list[Document], list[Query]], tmp_path: Path) -> None:
    sizes = {}
    for name in ("float32", "int8", "binary"):
        dense(clusters[0], vectors=name).save(tmp_path / name)
        sizes[name] = (tmp_path / name / "index.faiss").stat().st_size
    assert sizes["float32"] / sizes["int8"] == pytest.approx(4, rel=0.01)
    assert sizes["float32"] / sizes["binary"] == pytest.approx(16, rel=0.02)  # 8 + 8 bytes of 256
    assert [f.name for f in tmp_path.glob("*/vectors.npy")] == ["vectors.npy"]


def test_how_often_bits_are_compared_again_can_change_when_an_index_is_opened(
    clusters: tuple[list[Document], list[Query]], tmp_path: Path
) -> None:
    documents, queries = clusters
    dense(documents, vectors="binary").save(tmp_path / "index")
    options = {"search_parameters": "k_factor_rf=300"}
    opened = DenseRetriever.load(tmp_path / "index", documents, Points(), **options)
    exact = dense(documents).search(queries, 10)
    np.testing.assert_array_equal(opened.search(queries, 10).rows, exact.rows)


# --- fewer numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_first_numbers_are_kept_and_brought_to_length_one(similarity: str) -> None:
    vectors, asked = cloud(500, 32), cloud(20, 32, seed=1)
    short = dense(corpus_of(vectors), similarity=similarity, dimensions=12)
    assert short.dimension == 12
    np.testing.assert_allclose(np.linalg.norm(short.encode_queries(["1 " * 32]), axis=1), 1)
    by_hand = dense(corpus_of(normalized(vectors[:, :12])), similarity="dot")
    found = short.search(queries_of(asked), 50)
    expected = by_hand.search(queries_of(normalized(asked[:, :12])), 50)
    np.testing.assert_array_equal(found.rows, expected.rows)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


def test_more_numbers_find_more_of_the_same(
    clusters: tuple[list[Document], list[Query]],
) -> None:
    found = [recall(clusters, dimensions=kept) for kept in (8, 24, 48, 64)]
    assert found == sorted(found)
    assert found[0] < 0.5
    assert found[-1] == 1


def test_all_numbers_are_as_good_as_none_stated() -> None:
    assert dense(SQUARE, dimensions=2).fingerprint == dense(SQUARE).fingerprint
    assert dense(SQUARE, dimensions=1).fingerprint != dense(SQUARE).fingerprint
    by_dot = {"similarity": "dot", "dimensions": 2}
    assert dense(SQUARE, **by_dot).search([Query("q", "2 1")], 1).scores[0] == [9.0]


def test_other_forms_of_the_same_vectors_are_not_encoded_again(tmp_path: Path) -> None:
    documents = corpus_of(cloud(40, 16))
    first, second = Points(), Points()
    DenseRetriever(documents, first, cache_dir=tmp_path)
    fingerprints = {
        DenseRetriever(documents, second, cache_dir=tmp_path, **options).fingerprint
        for options in (
            {"dimensions": 8},
            {"dimensions": 4},
            {"vectors": "int8"},
            {"vectors": "binary"},
            {"vectors": "binary", "dimensions": 8},
        )
    }
    assert (len(first.batches), second.batches, len(fingerprints)) == (1, [], 5)


def test_encoders_of_two_lengths_do_not_fit_even_where_both_are_cut() -> None:
    encoder, other = Points(), Points("other")
    other.dimension = 3  # type: ignore[attr-defined]
    with pytest.raises(RetrievalError, match="encoded to 3 numbers, documents to 2"):
        DenseRetriever(SQUARE, encoder, query_encoder=other, dimensions=1, cache=False)


# --- configurations ----------------------------------------------------------------------------


def test_a_configuration_states_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    encoder = write_model(tmp_path / "contriever", bert(add_pooling_layer=False))
    documents = [Document(f"d{i}", f"{letter} b a") for i, letter in enumerate(LETTERS)]
    dataset = RuleQADataset(corpus=documents, queries={})
    section = {
        "type": "dense",
        "encoder": str(encoder),
        "dimensions": 8,
        "vectors": "binary",
        "search_parameters": "k_factor_rf=4",
    }
    made = make_retriever(Config({"retriever": section}), dataset, None)
    assert made.built_with == {
        "similarity": "dot",
        "index": "Flat",
        "vectors": "binary",
        "dimensions": 8,
    }
    made.save(tmp_path / "index")
    opened = open_dense(documents, folder=tmp_path / "index", encoder=encoder, dimensions=8)
    assert opened.fingerprint == made.fingerprint


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vectors": "int4"}, "key 'vectors': unknown vectors 'int4' — .*int8"),
        ({"vectors": "int8", "index": "HNSW32"}, "without an index 'HNSW32' — leave index out"),
        ({"vectors": "int8", "search_parameters": "nprobe=2"}, "'nprobe=2' means nothing to int8"),
        ({"vectors": "binary", "search_parameters": "efSearch=2"}, "means nothing to binary"),
        ({"vectors": "binary", "search_parameters": "k_factor_rf=0.5"}, "out of range — k_factor"),
        ({"search_parameters": "k_factor_rf=2"}, "means nothing to an index 'Flat'"),
        ({"dimensions": 0}, "key 'dimensions'"),
        ({"dimensions": 3}, "have 2 numbers, 3 cannot be kept — 2 or fewer"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dense(SQUARE, **options)


def test_too_many_numbers_are_told_before_anything_is_encoded() -> None:
    encoder = Points()
    encoder.dimension = 2  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="3 cannot be kept"):
        DenseRetriever(SQUARE, encoder, dimensions=3, cache=False)
    assert encoder.batches == []


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"vectors": "binary"}, "key 'vectors': is 'binary' here.*was built with 'int8'"),
        ({"vectors": "float32"}, "key 'vectors': is 'float32' here"),
        ({"dimensions": 4}, "key 'dimensions': is 4 here.*was built with 8"),
        ({"index": "HNSW32"}, "key 'index'.*name an index that fits"),
        ({"similarity": "cosine"}, "key 'similarity': is 'cosine' here.*'dot'"),
    ],
)
def test_an_index_is_opened_as_it_was_built(
    stated: dict[str, Any], message: str, tmp_path: Path
) -> None:
    encoder = write_model(tmp_path / "contriever", bert(add_pooling_layer=False))
    documents = [Document(f"d{i}", letter) for i, letter in enumerate(LETTERS)]
    common: dict[str, Any] = {"encoder": encoder, "cache": False}
    open_dense(documents, vectors="int8", dimensions=8, **common).save(tmp_path / "index")
    folder = tmp_path / "index"
    for same in ({}, {"vectors": "int8"}, {"dimensions": 8}):
        assert open_dense(documents, folder=folder, **common, **same).dimension == 8
    with pytest.raises(ConfigError, match=message):
        open_dense(documents, folder=folder, **common, **stated)


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    ("kind", "file"),
    [(kind, "index.faiss") for kind in ("float32", "int8", "binary")] + [("binary", "vectors.npy")],
)
@pytest.mark.parametrize("kept", [-1, -4, -600, 20, 0, None])
def test_files_that_are_cut(
    kept: int | None, kind: str, file: str, mmap: bool, tmp_path: Path
) -> None:
    vectors = cloud(50, 16)
    dense(corpus_of(vectors), vectors=kind).save(tmp_path / "index")
    path = tmp_path / "index" / file
    whole = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(whole[:kept])
    message = "missing" if kept is None else "damaged"
    with pytest.raises(RetrievalError, match=rf"{file}.*{message}.*build it anew"):
        DenseRetriever.load(tmp_path / "index", corpus_of(vectors), Points(), mmap=mmap)


def test_vectors_of_another_corpus(tmp_path: Path) -> None:
    documents = corpus_of(cloud(50, 16))
    for name, corpus in (("index", documents), ("other", documents[:40])):
        dense(corpus, vectors="binary").save(tmp_path / name)
    kept, other = tmp_path / "index", tmp_path / "other"
    (kept / "vectors.npy").write_bytes((other / "vectors.npy").read_bytes())
    with pytest.raises(RetrievalError, match=r"shape \(40, 16\), its manifest says \(50, 16\)"):
        DenseRetriever.load(kept, documents, Points())
    values = json.loads((kept / "manifest.json").read_text())
    values["settings"]["vectors"] = "int8"
    (kept / "manifest.json").write_text(json.dumps(values))
    with pytest.raises(RetrievalError, match=r"in a IndexRaBitQ, its manifest says.*ScalarQuant"):
        DenseRetriever.load(kept, documents, Points())


def test_what_faiss_knows_for_the_whole_process_is_put_back() -> None:
    before = faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold
    retriever = dense(corpus_of(cloud(100, 16)), threads=1)
    retriever.search(queries_of(cloud(5, 16)), 3)
    assert (faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold) == before
