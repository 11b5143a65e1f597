"""Dense search: exact scores and ties, every index of FAISS, index folders, bad input."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rulerag.errors import (
    ConfigError,
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    MissingDependencyError,
    OutputError,
    RetrievalError,
)
from rulerag.protocols import Retriever
from rulerag.retrieval.base import RowSearcher
from rulerag.retrieval.dense import DenseRetriever, shards
from rulerag.retrieval.dense.faiss_index import VectorIndex
from rulerag.types import Document, Query, RuleHit
from tests.retrieval.conftest import ids
from tests.retrieval.dense.checkpoints import (
    SQUARE,
    Points,
    cloud,
    corpus_of,
    dense,
    queries_of,
)


def test_cosine_and_dot_by_hand() -> None:
    query = [Query("q", "2 1")]
    retriever = dense(SQUARE)
    assert isinstance(retriever, Retriever) and isinstance(retriever, RowSearcher)
    [found] = retriever.retrieve(query, 500)  # cosines: 2, 1, 3/√2 and −2, over √5
    assert ids(found) == ["d2", "d0", "d1", "d3"]
    expected = np.array([3 / np.sqrt(2), 2, 1, -2]) / np.sqrt(5)
    assert [scored.score for scored in found] == pytest.approx(expected)
    [found] = dense(SQUARE, similarity="dot").retrieve(query, 4)
    assert dict(zip(ids(found), [s.score for s in found], strict=True)) == {
        "d2": 9.0,
        "d0": 2.0,
        "d1": 2.0,
        "d3": -2.0,
    }
    assert found[1].found_by == (RuleHit(None, 2, 2.0),)
    assert retriever.search([], 3).rows.shape == (0, 3)


@settings(max_examples=30)
@given(
    corpus=st.lists(st.tuples(*[st.integers(-3, 3)] * 3).filter(any), min_size=1, max_size=40),
    query=st.tuples(*[st.integers(-3, 3)] * 3).filter(any),
)
def test_the_order_is_that_of_exact_arithmetic_with_ties_in_corpus_order(
    corpus: list[tuple[int, ...]], query: tuple[int, ...]
) -> None:
    retriever = dense(corpus_of(corpus), similarity="dot")
    products = [sum(a * b for a, b in zip(row, query, strict=True)) for row in corpus]
    expected = sorted(range(len(corpus)), key=lambda i: (-products[i], i))
    for depth in (1, 3, len(corpus)):
        rows, scores = retriever.search(queries_of([query]), depth)
        assert rows[0].tolist() == expected[:depth]
        assert scores[0].tolist() == [products[i] for i in expected[:depth]]


def test_masses_of_ties_keep_corpus_order_at_any_depth_batch_and_thread_count() -> None:
    before = faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold
    documents = corpus_of(cloud(5, 33)[np.arange(1500) % 5])
    queries = queries_of(cloud(30, 33, seed=1))
    one, two = dense(documents, threads=1), dense(documents, threads=2)
    deep = one.search(queries, 1500)
    assert (np.diff(deep.rows[:, :300], axis=1) == 5).all()  # one kind, from first to last
    for depth in (1, 7, 601):
        for retriever in (one, two):
            found = retriever.search(queries, depth)
            np.testing.assert_array_equal(found.rows, deep.rows[:, :depth])
            np.testing.assert_array_equal(found.scores, deep.scores[:, :depth])
    alone = np.concatenate([one.search([query], 9).rows for query in queries[:5]])
    np.testing.assert_array_equal(alone, deep.rows[:5, :9])
    assert (faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold) == before


def test_a_search_that_is_not_settled_goes_deeper() -> None:
    # 300 documents within rounding of each other: the first candidates cannot settle the end.
    base = cloud(1, 16)[0]
    vectors = np.repeat(base[None], 300, axis=0)
    vectors[150] *= np.float32(1 + 2e-7)
    rows, _ = dense(corpus_of(vectors), similarity="dot").search(queries_of([base]), 3)
    products = np.einsum("nd,d->n", vectors, base)
    assert rows[0].tolist() == sorted(range(300), key=lambda i: (-products[i], i))[:3]


def test_equal_queries_and_equal_documents_are_encoded_once() -> None:
    encoder, queries = Points(), Points("queries")
    documents = corpus_of([(1, 2), (2, 1), (1, 2), (3, 4), (2, 1)])
    retriever = dense(documents, encoder, query_encoder=queries, chunk_size=2)
    assert [len(batch) for batch in encoder.batches] == [2, 1]
    found = retriever.retrieve(queries_of([(0, 1), (1, 0), (0, 1)]), 5)
    assert queries.batches == [["0.0 1.0", "1.0 0.0"]]
    assert found[0] == found[2]
    assert ids(found[1]) == ["d1", "d4", "d3", "d0", "d2"]


# --- the kinds of index ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clusters() -> tuple[list[Document], list[Query]]:
    """Vectors around fifty centres, and queries that are some of them, shaken."""
    centres, noise = cloud(50, 32, seed=1), cloud(1000, 32, seed=2)
    vectors = np.repeat(centres, 20, axis=0) + 0.3 * noise
    return corpus_of(vectors), queries_of(vectors[::40] + 0.05 * noise[:25])


@pytest.mark.parametrize(
    ("index", "how"),
    [("Flat", ""), ("IVF20,Flat", "nprobe=8"), ("HNSW32", ""), ("IVF20,SQ8", "nprobe=8")],
)
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_every_index_finds_nearly_what_the_exact_one_finds_saved_too(
    index: str, how: str, similarity: str, clusters: Any, tmp_path: Path
) -> None:
    documents, queries = clusters
    exact = dense(documents, similarity=similarity).search(queries, 10)
    options = {"similarity": similarity, "index": index, "search_parameters": how, "threads": 1}
    built = dense(documents, **options)
    found = built.search(queries, 10)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.rows, found.rows, strict=True)]
    assert np.mean(shared) > 8.9
    assert (np.diff(found.scores, axis=1) <= 0).all()
    built.save(tmp_path / "index")
    opened = DenseRetriever.load(tmp_path / "index", documents, Points())
    assert opened.fingerprint == built.fingerprint
    assert opened.built_with == {"similarity": similarity, "index": index}
    again = opened.search(queries, 10)
    np.testing.assert_array_equal(again.rows, found.rows)
    # FAISS adds the same numbers in another order where memory is aligned otherwise.
    np.testing.assert_allclose(again.scores, found.scores, rtol=1e-6)
    if index == "IVF20,Flat":  # effort is traded for recall, also when an index is opened
        whole = DenseRetriever.load(
            tmp_path / "index", documents, Points(), search_parameters="nprobe=20"
        )
        assert whole.fingerprint != built.fingerprint
        np.testing.assert_array_equal(whole.search(queries, 10).rows, exact.rows)


def test_four_shards_on_disk_are_one_index(
    clusters: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row for row where every vector is compared; a build that was ended goes on behind a shard."""
    documents, queries = clusters
    options: dict[str, Any] = {"cache": True, "cache_dir": tmp_path / "cache", "threads": 1}
    exact = dense(documents, **options)
    approximate = {"index": "IVF8,SQ8", "search_parameters": "nprobe=6"}
    monkeypatch.setattr(shards, "SHARD", -(-len(documents) // 4))
    build, built = VectorIndex.build, list[int]()

    def interrupted(vectors: Any, *rest: Any, **more: Any) -> VectorIndex:
        if len(built) == 2:
            built.append(0)
            raise KeyboardInterrupt
        built.append(len(vectors))
        return build(vectors, *rest, **more)

    monkeypatch.setattr(VectorIndex, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dense(documents, **options)
    sharded = dense(documents, **options)
    assert isinstance(sharded._index, shards.ShardedIndex)
    assert len(built) == 5 and sum(built) == len(documents)  # each shard once
    for depth in (1, 10, 60, len(documents)):
        one, four = (each.search(queries, depth) for each in (exact, sharded))
        np.testing.assert_array_equal(four.rows, one.rows)
        np.testing.assert_array_equal(four.scores, one.scores)
    coarse = dense(documents, **options, **approximate)
    found, best = coarse.search(queries, 10).rows, exact.search(queries, 10).rows
    monkeypatch.setattr(shards, "SHARD", len(documents))
    one = dense(documents, **options, **approximate)
    assert not isinstance(one._index, shards.ShardedIndex) and one.fingerprint == coarse.fingerprint
    np.testing.assert_array_equal(one.search(queries, 10).rows, found)
    monkeypatch.setattr(shards, "SHARD", -(-len(documents) // 4))
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found, best, strict=True)]) > 9
    coarse.save(tmp_path / "index")
    opened = DenseRetriever.load(tmp_path / "index", documents, Points())
    np.testing.assert_array_equal(opened.search(queries, 10).rows, found)
    assert opened.fingerprint == coarse.fingerprint != exact.fingerprint
    # Its files are those of the cache: one that was cut is refused, and built again there.
    (tmp_path / "index" / "2" / "index.faiss").write_bytes(b"cut")
    with pytest.raises(RetrievalError, match="damaged"):
        DenseRetriever.load(tmp_path / "index", documents, Points())
    again = dense(documents, **options, **approximate)
    np.testing.assert_array_equal(again.search(queries, 10).rows, found)


def test_cells_that_hold_too_few_leave_places_empty() -> None:
    vectors = np.concatenate([cloud(20, 4) + 50, cloud(20, 4) - 50])
    retriever = dense(corpus_of(vectors), index="IVF2,Flat", threads=1)
    rows, scores = retriever.search(queries_of(vectors[:1]), 30)
    assert (rows[0, :20] >= 0).all() and (rows[0, 20:] == -1).all()
    assert (scores[0, 20:] == 0).all()
    assert len(retriever.retrieve(queries_of(vectors[:1]), 30)[0]) == 20


def test_the_fingerprint_names_corpus_encoders_and_settings() -> None:
    others = [
        dense(SQUARE),
        dense(SQUARE[:3]),
        dense(SQUARE, similarity="dot"),
        dense(SQUARE, index="HNSW32"),
        dense(SQUARE, index="HNSW32", search_parameters="efSearch=9"),
        dense(SQUARE, query_encoder=Points("other")),
        dense(SQUARE, Points("third")),
        dense(SQUARE, Points(None)),
    ]
    assert len({retriever.fingerprint for retriever in others}) == len(others)
    assert dense(SQUARE, threads=1).fingerprint == dense(SQUARE).fingerprint


# --- bad input ---------------------------------------------------------------------------------


class Flat:
    def encode(self, texts: Sequence[str]) -> Any:
        return np.ones(len(texts), dtype=np.float32)


class Broken:
    def encode(self, texts: Sequence[str]) -> Any:
        return np.full((len(texts), 2), np.nan, dtype=np.float32)


def asked(*texts: str) -> Callable[[], Any]:
    return lambda: dense(SQUARE).retrieve([Query(f"q{i}", t) for i, t in enumerate(texts)], 3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: dense(SQUARE, similarity="euclidean"), ConfigError, "key 'similarity'"),
        (lambda: dense(SQUARE, index="hnsw"), ConfigError, "an index 'hnsw'.*Flat.*HNSW32"),
        (lambda: dense(SQUARE, index="IVF5,Flat"), ConfigError, "key 'index'.*from 4 vectors"),
        (lambda: dense(SQUARE, search_parameters="nprobe=4"), ConfigError, "'nprobe=4' means no"),
        (lambda: dense(SQUARE, threads=0), ConfigError, "key 'threads'"),
        (lambda: dense(SQUARE, chunk_size=0), ConfigError, "key 'chunk_size'"),
        (
            lambda: dense(SQUARE, Points(dimension=2), index="PQ4"),
            ConfigError,
            "an index 'PQ4' of vectors of 2 numbers",
        ),
        (lambda: dense([]), EmptyDataError, "no documents"),
        (lambda: dense([*SQUARE, Document("blank", " ")]), EmptyDataError, "'blank' has no text"),
        (lambda: dense([SQUARE[0]] * 2), DataFormatError, "'d0'"),
        (asked("1 1", " "), EmptyDataError, "the query 'q1' has no text"),
        (asked("1 1 1"), RetrievalError, "encoded to 3 numbers, documents to 2"),
        (
            lambda: dense(SQUARE, query_encoder=Points("known", dimension=3)),
            RetrievalError,
            "encoded to 3 numbers, documents to 2",
        ),
        (lambda: dense(SQUARE, Flat()), RetrievalError, r"Flat gave an array of shape \(4,\) for"),
        (lambda: dense(SQUARE, Broken()), RetrievalError, "no numbers"),
        (lambda: dense(SQUARE).retrieve([], 0), ConfigError, "top_k"),
    ],
)
def test_what_cannot_be_searched_is_named(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_missing_faiss_is_told_before_anything_is_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    encoder = Points()
    with pytest.raises(MissingDependencyError, match=r"pip install 'rulerag\[dense\]'"):
        dense(SQUARE, encoder)
    assert encoder.batches == []


def test_an_index_and_what_does_not_fit_it(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    dense(SQUARE).save(folder)
    dense(SQUARE, index="SQ8").save(tmp_path / "sq8")
    dense(SQUARE[:2]).save(tmp_path / "two")
    load = DenseRetriever.load
    with pytest.raises(FingerprintError, match="another corpus"):
        load(folder, SQUARE[:3], Points())
    with pytest.raises(FingerprintError, match="another encoder"):
        load(folder, SQUARE, Points("other"))
    with pytest.raises(ConfigError, match="nothing encodes queries"):
        load(folder, SQUARE)
    with pytest.raises(RetrievalError, match="no dense index here"):
        load(tmp_path, SQUARE, Points())
    with pytest.raises(RetrievalError, match="encoded to 3 numbers"):
        load(folder, SQUARE, query_encoder=Points("known", dimension=3))
    with pytest.raises(OutputError, match="no index"):
        dense(SQUARE).save(tmp_path)
    whole = (folder / "index.faiss").read_bytes()
    manifest = json.loads((folder / "manifest.json").read_text())
    for number, (content, message) in enumerate(
        [
            (None, "missing"),
            (whole[:-1], "damaged .76 bytes, its manifest says 77"),
            (whole[:40], "damaged .40 bytes"),
            (whole + b"x", "damaged"),
            (b"", "damaged"),
            ((tmp_path / "sq8" / "index.faiss").read_bytes(), "in a IndexScalarQuantizer, its"),
            ((tmp_path / "two" / "index.faiss").read_bytes(), "2 vectors of 2 numbers in a"),
        ]
    ):
        place = tmp_path / str(number)
        shutil.copytree(folder, place)
        (place / "index.faiss").unlink()
        if content is not None:
            (place / "index.faiss").write_bytes(content)
        if number > 4:
            manifest["settings"]["bytes"] = len(content or b"")
            (place / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(RetrievalError, match=rf"index.faiss.*{message}.*build it anew"):
            load(place, SQUARE, Points())
    manifest["settings"]["bytes"] = None
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RetrievalError, match="manifest is damaged"):
        load(folder, SQUARE, Points())
