"""BM25 in process: scores against the textbook, exact ties, tokens, files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rulerag.errors import FingerprintError, RetrievalError
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.retrieval.lexical.tokenization import Tokenizer, rewrite_dates
from rulerag.retrieval.lexical.word_counts import bm25_scores as scores_of, count_words
from rulerag.types import Document, Query
from tests.retrieval.conftest import ids

words = st.lists(st.sampled_from(["red", "green", "blue", "grey", "pink"]), max_size=6)


def corpus_of(texts: list[str]) -> list[Document]:
    return [Document(f"d{i}", text) for i, text in enumerate(texts)]


COLOURS = corpus_of(["red green", "green blue", "red red red", "red green", "grey"])


@settings(max_examples=50)
@given(
    corpus=st.lists(words, min_size=1, max_size=12).filter(any),
    query=words,
    k1=st.sampled_from([0.0, 0.9, 1.5]),
    b=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_scores_and_order_are_the_textbooks_and_bit_by_bit_those_of_bm25s(
    corpus: list[list[str]],
    query: list[str],
    k1: float,
    b: float,
    bm25_scores: Callable[..., list[float]],
) -> None:
    texts = [" ".join(t) for t in corpus]
    retriever = BM25Retriever(corpus_of(texts), k1=k1, b=b, threads=1)
    expected = bm25_scores(corpus, query, k1, b)
    [found] = retriever.retrieve([Query("q", " ".join(query))], len(corpus))
    assert sorted(ids(found)) == sorted(f"d{i}" for i, s in enumerate(expected) if s > 0)
    rows = [int(scored.document.id[1:]) for scored in found]
    assert [s.score for s in found] == pytest.approx([expected[row] for row in rows], rel=1e-5)
    keys = [(-scored.score, row) for scored, row in zip(found, rows, strict=True)]
    assert keys == sorted(keys)
    for depth in range(1, len(corpus)):
        [start] = retriever.retrieve([Query("q", " ".join(query))], depth)
        assert start == found[:depth]
    counts = count_words(texts, Tokenizer())
    tokens = [[counts.vocabulary[word] for word in document] for document in corpus]
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    index.index((tokens, counts.vocabulary), create_empty_token=False, show_progress=False)
    assert np.array_equal(index.scores["data"], scores_of(counts, len(texts), k1, b))
    assert np.array_equal(index.scores["indices"], counts.indices)


def test_masses_of_ties_keep_corpus_order_at_any_depth_batch_and_thread_count() -> None:
    texts = [f"{'china' if i % 3 else 'iran'} visit {'x' if i % 2 else 'y'}" for i in range(2000)]
    documents = corpus_of(texts)
    queries = [Query(f"q{i}", text) for i, text in enumerate(["china visit", "iran x"] * 150)]
    one, two = (BM25Retriever(documents, threads=threads) for threads in (1, 2))
    deep, deep_scores = one.search(queries[:2], 2000)  # of so few queries by NumPy
    assert deep[0, :4].tolist() == [1, 2, 4, 5]
    assert (deep[0] >= 0).all()  # the others share one word
    for depth in (1, 7, 1333):
        for retriever in (one, two):
            rows, scores = retriever.search(queries, depth)
            assert np.array_equal(rows, np.tile(deep[:, :depth], (150, 1)))
            assert np.array_equal(scores, np.tile(deep_scores[:, :depth], (150, 1)))
    assert one.retrieve(queries[:1], 9)[0] == one.retrieve(queries[:5], 9)[0]


# --- tokens ------------------------------------------------------------------------------------

TEXT = "Time 2014-06-23 what does Citizen_(Nigeria) Make_an_appeal to O'Neill ?"


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"dates": "token"}, TEXT[:15], ["time", "20140623"]),
        ({"dates": "split"}, TEXT[:15], ["time", "2014", "06", "23"]),
        ({"dates": "drop"}, TEXT[:15], ["time"]),
        (
            {},
            TEXT[16:],
            ["what", "does", "citizen", "nigeria", "make", "appeal", "o", "neill"],
        ),
        ({}, "(2014-06-23)/2015-01-02", ["20140623", "20150102"]),
        ({}, "To be or not to be", []),
        ({"stopwords": "none"}, "To be", ["to", "be"]),
        ({"stopwords": ("Time",)}, "Time to go", ["to", "go"]),
        ({"stopwords": "none", "min_length": 3}, "a an ant Ünal", ["ant", "ünal"]),
        # Languages without spaces: pairs of letters.
        (
            {},
            "王伟在北京 works 2023年",
            ["王伟", "伟在", "在北", "北京", "works", "2023", "年"],
        ),
        ({}, "2023-01-02東京", ["20230102", "東京"]),
    ],
)
def test_tokens(options: dict[str, Any], text: str, expected: list[str]) -> None:
    tokenizer = Tokenizer(**options)
    assert tokenizer(text) == expected
    assert Tokenizer(**tokenizer.settings()) == tokenizer


def test_titles_are_searched_and_only_whole_dates_are_dates() -> None:
    parts_of_numbers = "12014-06-23 2014-06-231 2014-6-23"
    assert rewrite_dates(parts_of_numbers, "token") == parts_of_numbers
    documents = [Document("a", "on 2014-06-23", title="Treaty"), Document("b", "on 2014-06-24")]
    query = [Query("q", "treaty of 2014-06-24")]
    found = {d: BM25Retriever(documents, dates=d) for d in ("token", "drop", "split")}
    assert ids(found["token"].retrieve(query, 5)[0]) == ["b", "a"]  # shorter first
    assert ids(found["drop"].retrieve(query, 5)[0]) == ["a"]
    assert len(found["split"].retrieve(query, 5)[0]) == 2


# --- files -------------------------------------------------------------------------------------


def test_save_and_load_give_the_same_retriever(tmp_path: Path) -> None:
    retriever = BM25Retriever(COLOURS, k1=0.9, b=0.4, stopwords=["blue"], dates="split")
    retriever.save(tmp_path / "index")
    again = BM25Retriever.load(tmp_path / "index", COLOURS)
    queries = [Query("a", "red blue"), Query("b", "green grey")]
    assert again.fingerprint == retriever.fingerprint
    assert again.retrieve(queries, 5) == retriever.retrieve(queries, 5)
    with pytest.raises(FingerprintError, match="another corpus"):
        BM25Retriever.load(tmp_path / "index", COLOURS[:-1])


def test_damaged_indexes_are_named_before_the_kernel_reads_them(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    BM25Retriever(COLOURS).save(whole)
    with np.load(whole / "scores.npz") as stored:
        arrays: dict[str, Any] = dict(stored)

    def damaged(number: int) -> Path:
        shutil.copytree(whole, tmp_path / str(number))
        return tmp_path / str(number)

    places = [damaged(number) for number in range(8)]
    (places[0] / "scores.npz").unlink()
    (places[1] / "scores.npz").write_bytes(b"\0x")
    (places[2] / "scores.npz").write_bytes((whole / "scores.npz").read_bytes()[:-90])
    (places[3] / "manifest.json").write_bytes(b"\0x")
    changes: list[dict[str, Any]] = [
        {"indices": arrays["indices"] + 10_000},
        {"starts": arrays["starts"][:-1]},
        {"data": arrays["data"][:-1]},
        {"vocabulary": np.array([255], dtype=np.uint8)},
    ]
    for place, change in zip(places[4:], changes, strict=True):
        np.savez(place / "scores.npz", **{**arrays, **change})
    for place in places:
        with pytest.raises(RetrievalError, match="rulerag index"):
            BM25Retriever.load(place, COLOURS)
