"""Dense retrieval: exact scores and ties, every index, files, encoders of two sides, bad input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.errors import (
    ConfigError,
    FingerprintError,
)
from rulerag.protocols import Retriever
from rulerag.retrieval.base.corpus import RowSearcher
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.dense.encoders.load import load_encoder
from rulerag.retrieval.dense.retriever import DenseRetriever, open_dense
from rulerag.retrieval.guided.merging.control import DiversifiedRetriever
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.types import Document, Fact, Query, RuleHit
from tests.retrieval.dense_points import (
    SQUARE,
    Points,
    cloud,
    corpus_of,
    dense,
    ids,
    queries_of,
    text_of,
)
from tests.retrieval.encoder_checkpoints import dpr_pair

# --- scores and order --------------------------------------------------------------------------


def test_it_fits_the_seams() -> None:
    retriever = dense(SQUARE)
    assert isinstance(retriever, Retriever)
    assert isinstance(retriever, RowSearcher)


def test_cosine_and_dot_by_hand() -> None:
    query = [Query("q", "2 1")]
    [found] = dense(SQUARE).retrieve(query, 4)  # cosines: 2, 1, 3/√2 and −2, over √5
    assert ids(found) == ["d2", "d0", "d1", "d3"]
    expected = np.array([3 / np.sqrt(2), 2, 1, -2]) / np.sqrt(5)
    assert [scored.score for scored in found] == pytest.approx(expected)
    [found] = dense(SQUARE, similarity="dot").retrieve(query, 4)
    assert [(s.document.id, s.score) for s in found] == [
        ("d2", 9.0),
        ("d0", 2.0),
        ("d1", 2.0),
        ("d3", -2.0),
    ]
    assert [scored.rank for scored in found] == [1, 2, 3, 4]
    assert found[1].found_by == (RuleHit(None, 2, 2.0),)


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
    kinds = cloud(5, 33)
    documents = corpus_of(kinds[np.arange(3000) % 5])
    queries = queries_of(cloud(60, 33, seed=1))
    one, two = dense(documents, threads=1), dense(documents, threads=2)
    deep = one.search(queries, 3000)
    for row in deep.rows:
        best = row[:600]
        assert (np.diff(best) == 5).all()  # one kind, from the first to the last
        assert sorted(row.tolist()) == list(range(3000))
    for depth in (1, 7, 255, 601, 1333):
        for retriever in (one, two):
            found = retriever.search(queries, depth)
            np.testing.assert_array_equal(found.rows, deep.rows[:, :depth])
            np.testing.assert_array_equal(found.scores, deep.scores[:, :depth])
    alone = np.concatenate([one.search([query], 9).rows for query in queries[:5]])
    np.testing.assert_array_equal(alone, deep.rows[:5, :9])


def test_flat_search_is_exact_on_vectors_without_ties() -> None:
    vectors, asked = cloud(4000, 64), cloud(100, 64, seed=1)
    found = dense(corpus_of(vectors), similarity="dot").search(queries_of(asked), 50)
    exact = asked.astype(np.float64) @ vectors.T.astype(np.float64)
    np.testing.assert_array_equal(found.rows, np.argsort(-exact, axis=1)[:, :50])
    best = -np.sort(-exact, axis=1)[:, :50]
    np.testing.assert_allclose(found.scores, best, rtol=1e-5, atol=1e-5)


def test_equal_queries_and_equal_documents_are_encoded_once() -> None:
    encoder, queries = Points(), Points("queries")
    vectors = [(1, 2), (2, 1), (1, 2), (3, 4), (2, 1)]
    retriever = DenseRetriever(
        corpus_of(vectors), encoder, query_encoder=queries, cache=False, chunk_size=2
    )
    assert [len(batch) for batch in encoder.batches] == [2, 1]
    found = retriever.retrieve(queries_of([(0, 1), (1, 0), (0, 1)]), 5)
    assert queries.batches == [["0.0 1.0", "1.0 0.0"]]
    assert found[0] == found[2]
    assert ids(found[1]) == ["d1", "d4", "d3", "d0", "d2"]


def test_no_queries_and_more_documents_than_there_are() -> None:
    retriever = dense(SQUARE)
    assert retriever.retrieve([], 5) == []
    rows, scores = retriever.search([], 3)
    assert rows.shape == scores.shape == (0, 3)
    assert len(retriever.retrieve([Query("q", "1 1")], 500)[0]) == 4


# --- the kinds of index ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clusters() -> tuple[list[Document], list[Query]]:
    """Vectors around fifty centres, and queries that are some of them, shaken."""
    centres, noise = cloud(50, 32, seed=1), cloud(2000, 32, seed=2)
    vectors = np.repeat(centres, 40, axis=0) + 0.3 * noise
    return corpus_of(vectors), queries_of(vectors[::40] + 0.05 * noise[:50])


@pytest.mark.parametrize("kind", ["Flat", "IVF50,Flat", "HNSW32", "SQ8", "IVF50,SQ8"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_every_index_finds_nearly_what_the_exact_one_finds(
    kind: str, similarity: str, clusters: tuple[list[Document], list[Query]], tmp_path: Path
) -> None:
    documents, queries = clusters
    exact = dense(documents, similarity=similarity).search(queries, 10)
    how = "nprobe=8" if kind.startswith("IVF") else ""
    options: dict[str, Any] = {"index": kind, "search_parameters": how, "threads": 1}
    built = dense(documents, similarity=similarity, **options)
    found = built.search(queries, 10)
    shared = [len(set(a) & set(b)) for a, b in zip(exact.rows, found.rows, strict=True)]
    assert np.mean(shared) > 9
    assert (np.diff(found.scores, axis=1) <= 0).all()
    again = dense(documents, similarity=similarity, **options).search(queries, 10)
    np.testing.assert_array_equal(again.rows, found.rows)
    built.save(tmp_path / "index")
    for mmap in (False, True):
        opened = DenseRetriever.load(tmp_path / "index", documents, Points(), mmap=mmap)
        assert opened.fingerprint == built.fingerprint
        np.testing.assert_array_equal(opened.search(queries, 10).rows, found.rows)
        scores = opened.search(queries, 10).scores
        # FAISS adds the same numbers in another order where memory is aligned otherwise.
        np.testing.assert_allclose(scores, found.scores, rtol=1e-6)


def test_effort_is_traded_for_recall(clusters: tuple[list[Document], list[Query]]) -> None:
    documents, queries = clusters
    exact = dense(documents).search(queries, 10)

    def recall(**options: Any) -> float:
        found = dense(documents, **options).search(queries, 10)
        shared = [len(set(a) & set(b)) for a, b in zip(exact.rows, found.rows, strict=True)]
        return float(np.mean(shared)) / 10

    assert recall(index="IVF50,Flat", search_parameters="nprobe=50") == 1.0
    assert recall(index="IVF50,Flat") < 0.999  # one cell, FAISS's own choice
    low = "efSearch=1,efConstruction=2"
    assert recall(index="HNSW2", search_parameters=low, threads=1) < recall(
        index="HNSW32", threads=1
    )


def test_cells_that_hold_too_few_leave_places_empty() -> None:
    vectors = np.concatenate([cloud(20, 4) + 50, cloud(20, 4) - 50])
    retriever = dense(corpus_of(vectors), index="IVF2,Flat", threads=1)
    rows, scores = retriever.search(queries_of(vectors[:1]), 30)
    assert (rows[0, :20] >= 0).all()
    assert (rows[0, 20:] == -1).all()
    assert (scores[0, 20:] == 0).all()
    assert len(retriever.retrieve(queries_of(vectors[:1]), 30)[0]) == 20


def test_effort_can_be_changed_when_an_index_is_opened(
    clusters: tuple[list[Document], list[Query]], tmp_path: Path
) -> None:
    documents, queries = clusters
    built = dense(documents, index="IVF50,Flat", search_parameters="nprobe=1")
    built.save(tmp_path / "index")
    opened = DenseRetriever.load(
        tmp_path / "index", documents, Points(), search_parameters="nprobe=50"
    )
    assert opened.fingerprint != built.fingerprint
    exact = dense(documents).search(queries, 10)
    np.testing.assert_array_equal(opened.search(queries, 10).rows, exact.rows)


# --- wrappers, encoders of two sides -----------------------------------------------------------


def test_wrappers_take_it(toy_temporal_graph: Any) -> None:
    vectors = cloud(10, 4)
    facts = list(toy_temporal_graph.train)
    documents = [
        Document(f"d{i}", text_of(vector), (Fact(*fact),))
        for i, (vector, fact) in enumerate(zip(vectors, facts, strict=True))
    ]
    query = Query("q", text_of(vectors[0]), "italy", "visit", timestamp=3, prediction=True)

    class NoRules:
        def select(self, queries: Sequence[Query]) -> list[list[Any]]:
            return [[] for _ in queries]

    aware = TimeAwareRetriever(dense(documents))
    [found] = aware.retrieve([query], 5)
    assert found and all((s.document.timestamp or 0) < 3 for s in found)
    [pooled] = DiversifiedRetriever(aware).retrieve([query], 5)
    [guided] = RuleGuidedRetriever(aware, NoRules(), merge="evidence").retrieve([query], 5)
    assert ids(guided) == ids(found)
    assert set(ids(pooled)) <= {s.document.id for s in aware.retrieve([query], 10)[0]}


def test_dpr_end_to_end_with_an_encoder_of_each_side(tmp_path: Path) -> None:
    context, question = (load_encoder(folder) for folder in dpr_pair(tmp_path))
    texts = ["abc def", "bad cab", "a fig", "a" + " b" * 40]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    retriever = DenseRetriever(
        documents, context, query_encoder=question, cache_dir=tmp_path / "cache"
    )
    assert (retriever.similarity, retriever.truncated_documents) == ("dot", 1)
    rows, scores = retriever.search([Query("q", "abc")], 4)
    expected = context.encode(texts) @ question.encode(["abc"])[0]
    assert rows[0].tolist() == np.argsort(-expected).tolist()
    np.testing.assert_allclose(scores[0], np.sort(expected)[::-1], rtol=1e-5)
    with pytest.raises(ConfigError, match="not a query"):
        DenseRetriever(documents, context)
    with pytest.raises(ConfigError, match="not a document"):
        DenseRetriever(documents, question)
    retriever.save(tmp_path / "index")
    opened = DenseRetriever.load(tmp_path / "index", documents, query_encoder=question)
    assert opened.truncated_documents == 1
    assert opened.fingerprint == retriever.fingerprint
    np.testing.assert_array_equal(opened.search([Query("q", "abc")], 4).rows, rows)
    with pytest.raises(FingerprintError, match="another encoder"):
        DenseRetriever.load(
            tmp_path / "index",
            documents,
            load_encoder(tmp_path / "dpr-ctx_encoder-tiny", max_length=9),
            query_encoder=question,
        )


def test_encoders_by_name(tmp_path: Path) -> None:
    context, question = dpr_pair(tmp_path)
    documents = [Document(f"d{i}", text) for i, text in enumerate(["abc def", "bad cab", "a fig"])]
    options: dict[str, Any] = {"max_length": 9, "batch_size": 2, "device": "cpu"}
    named = open_dense(
        documents, encoder=context, index="HNSW32", cache_dir=tmp_path / "c", **options
    )
    made = DenseRetriever(
        documents,
        load_encoder(context, max_length=9),
        query_encoder=load_encoder(question, max_length=9),
        index="HNSW32",
        cache_dir=tmp_path / "c",
    )
    assert named.fingerprint == made.fingerprint
    assert len(list((tmp_path / "c").iterdir())) == 1
    named.save(tmp_path / "index")
    for query_encoder in (None, str(question)):
        opened = open_dense(
            documents,
            folder=tmp_path / "index",
            encoder=context,
            query_encoder=query_encoder,
            **options,
        )
        assert opened.fingerprint == made.fingerprint
    both = load_encoder(question).model
    both.save_pretrained(str(tmp_path / "both"))
    one = open_dense(documents, encoder=tmp_path / "both", cache_dir=tmp_path / "c")
    one.save(tmp_path / "one")
    again = open_dense(documents, folder=tmp_path / "one", encoder=tmp_path / "both", mmap=True)
    assert again.fingerprint == one.fingerprint
    with pytest.raises(FingerprintError, match="another encoder"):
        open_dense(documents, folder=tmp_path / "one", encoder=tmp_path / "both", max_length=5)


def test_the_fingerprint_names_corpus_encoders_and_settings() -> None:
    others = [
        dense(SQUARE),
        dense(SQUARE[:3]),
        dense(SQUARE, similarity="dot"),
        dense(SQUARE, index="SQ8"),
        dense(SQUARE, index="HNSW32"),
        dense(SQUARE, index="HNSW32", search_parameters="efSearch=9"),
        dense(SQUARE, query_encoder=Points("other")),
        DenseRetriever(SQUARE, Points("third"), cache=False),
        DenseRetriever(SQUARE, Points(None), cache=False),
    ]
    assert len({retriever.fingerprint for retriever in others}) == len(others)
    assert dense(SQUARE, threads=1).fingerprint == dense(SQUARE).fingerprint


def test_other_indexes_of_the_same_vectors_are_not_encoded_again(tmp_path: Path) -> None:
    documents = corpus_of(cloud(300, 16))
    first, second = Points(), Points()
    DenseRetriever(documents, first, cache_dir=tmp_path)
    for index in ("SQ8", "PQ4x4", "HNSW4"):
        DenseRetriever(documents, second, cache_dir=tmp_path, index=index, threads=1)
    assert (len(first.batches), second.batches) == (1, [])


def test_what_faiss_knows_for_the_whole_process_is_put_back() -> None:
    before = faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold
    dense(corpus_of(cloud(100, 16)), threads=1).search(queries_of(cloud(5, 16)), 3)
    assert (faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold) == before
