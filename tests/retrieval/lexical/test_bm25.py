"""BM25 in process: scores against the textbook, exact ties, files, bad input."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.errors import (
    ConfigError,
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    OutputError,
    RetrievalError,
)
from rulerag.kg.graph import KnowledgeGraph
from rulerag.protocols import Retriever
from rulerag.retrieval.base.corpus import RowSearcher
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.types import Document, Query, RuleHit, ScoredDocument

words = st.lists(st.sampled_from(["red", "green", "blue", "grey", "pink"]), max_size=6)


def corpus_of(texts: list[str]) -> list[Document]:
    return [Document(f"d{i}", text) for i, text in enumerate(texts)]


def ids(results: list[ScoredDocument]) -> list[str]:
    return [scored.document.id for scored in results]


COLOURS = corpus_of(["red green", "green blue", "red red red", "red green", "grey"])


def test_it_fits_the_seams() -> None:
    retriever = BM25Retriever(COLOURS)
    assert isinstance(retriever, Retriever)
    assert isinstance(retriever, RowSearcher)


@given(
    corpus=st.lists(words, min_size=1, max_size=12).filter(any),
    query=words,
    k1=st.sampled_from([0.0, 0.9, 1.5]),
    b=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_scores_and_order_are_the_textbooks(
    corpus: list[list[str]],
    query: list[str],
    k1: float,
    b: float,
    bm25_scores: Callable[..., list[float]],
) -> None:
    retriever = BM25Retriever(corpus_of([" ".join(t) for t in corpus]), k1=k1, b=b)
    expected = bm25_scores(corpus, query, k1, b)
    [found] = retriever.retrieve([Query("q", " ".join(query))], len(corpus))
    assert sorted(ids(found)) == sorted(f"d{i}" for i, s in enumerate(expected) if s > 0)
    for scored in found:
        row = int(scored.document.id[1:])
        assert scored.score == pytest.approx(expected[row], rel=1e-5)
    keys = [(-scored.score, int(scored.document.id[1:])) for scored in found]
    assert keys == sorted(keys)
    for depth in range(1, len(corpus)):
        [start] = retriever.retrieve([Query("q", " ".join(query))], depth)
        assert start == found[:depth]


def test_results_carry_ranks_and_the_plain_hit() -> None:
    [found] = BM25Retriever(COLOURS).retrieve([Query("q", "Red, or GREY!")], 10)
    assert ids(found) == ["d4", "d2", "d0", "d3"]
    assert [scored.rank for scored in found] == [1, 2, 3, 4]
    assert found[2].score == found[3].score
    assert found[3].found_by == (RuleHit(None, 4, found[3].score),)


def test_repeated_query_words_count_repeatedly() -> None:
    retriever = BM25Retriever(COLOURS)
    once, twice = retriever.retrieve([Query("a", "grey"), Query("b", "grey grey")], 1)
    assert twice[0].score == pytest.approx(2 * once[0].score)


def test_no_shared_word_no_document() -> None:
    queries = [Query("a", "violet"), Query("b", "???"), Query("c", "the of"), Query("d", "blue")]
    found = BM25Retriever(COLOURS).retrieve(queries, 3)
    assert [ids(documents) for documents in found] == [[], [], [], ["d1"]]


def test_masses_of_ties_keep_corpus_order_at_any_depth_batch_and_thread_count() -> None:
    texts = [f"{'china' if i % 3 else 'iran'} visit {'x' if i % 2 else 'y'}" for i in range(2000)]
    documents = corpus_of(texts)
    queries = [Query(f"q{i}", text) for i, text in enumerate(["china visit", "iran x"] * 150)]
    one, two = BM25Retriever(documents, threads=1), BM25Retriever(documents, threads=2)
    deep = one.retrieve(queries[:2], 2000)
    assert ids(deep[0])[:4] == ["d1", "d2", "d4", "d5"]
    assert len(deep[0]) == 2000  # the others share one word
    for depth in (1, 7, 255, 1333):
        for retriever in (one, two):
            rows, _ = retriever.search(queries, depth)
            for i, row in enumerate(rows.tolist()):
                assert row == [int(d.document.id[1:]) for d in deep[i % 2][:depth]]
    assert [one.retrieve([q], 9)[0] for q in queries[:5]] == one.retrieve(queries[:5], 9)


def test_titles_are_searched_and_dates_can_be_dropped() -> None:
    documents = [Document("a", "on 2014-06-23", title="Treaty"), Document("b", "on 2014-06-24")]
    query = [Query("q", "treaty of 2014-06-24")]
    assert ids(BM25Retriever(documents).retrieve(query, 5)[0]) == ["b", "a"]  # shorter first
    assert ids(BM25Retriever(documents, dates="drop").retrieve(query, 5)[0]) == ["a"]
    assert len(BM25Retriever(documents, dates="split").retrieve(query, 5)[0]) == 2


def test_no_queries_and_more_documents_than_there_are() -> None:
    retriever = BM25Retriever(COLOURS)
    assert retriever.retrieve([], 5) == []
    rows, scores = retriever.search([], 5)
    assert rows.shape == scores.shape == (0, 5)
    assert len(retriever.retrieve([Query("q", "red green")], 500)[0]) == 4


@pytest.mark.parametrize("top_k", [0, -1, True, 2.5])
def test_top_k_must_be_a_positive_whole_number(top_k: int) -> None:
    with pytest.raises(ConfigError, match="top_k"):
        BM25Retriever(COLOURS).retrieve([Query("q", "red")], top_k)


@pytest.mark.parametrize(
    "options", [{"k1": -1}, {"b": 1.5}, {"b": -0.1}, {"threads": 0}, {"dates": "no"}]
)
def test_options_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        BM25Retriever(COLOURS, **options)  # type: ignore[arg-type]


def test_corpora_that_cannot_be_indexed() -> None:
    with pytest.raises(EmptyDataError, match="no documents"):
        BM25Retriever([])
    with pytest.raises(EmptyDataError, match="not one word"):
        BM25Retriever(corpus_of(["the of", "???"]))
    with pytest.raises(DataFormatError, match="'d0'"):
        BM25Retriever([COLOURS[0], COLOURS[0]])


def test_the_fingerprint_names_corpus_and_settings() -> None:
    base = BM25Retriever(COLOURS).fingerprint
    assert BM25Retriever(COLOURS, threads=1, progress=False).fingerprint == base
    others = [
        BM25Retriever(COLOURS[::-1]),
        BM25Retriever([Document("d9", COLOURS[0].text), *COLOURS[1:]]),
        BM25Retriever(COLOURS, k1=1.2),
        BM25Retriever(COLOURS, b=0.4),
        BM25Retriever(COLOURS, dates="drop"),
        BM25Retriever(COLOURS, stopwords=["red"]),
        BM25Retriever(COLOURS, min_token_length=2),
    ]
    assert len({base, *(other.fingerprint for other in others)}) == len(others) + 1


def test_save_and_load_give_the_same_retriever(tmp_path: Path) -> None:
    retriever = BM25Retriever(COLOURS, k1=0.9, b=0.4, stopwords=["blue"], dates="split")
    retriever.save(tmp_path / "index")
    again = BM25Retriever.load(tmp_path / "index", COLOURS)
    queries = [Query("a", "red blue"), Query("b", "green grey")]
    assert again.fingerprint == retriever.fingerprint
    assert again.retrieve(queries, 5) == retriever.retrieve(queries, 5)
    retriever.save(tmp_path / "index")  # an index may take the place of an index
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


def test_an_index_of_other_documents_is_refused(tmp_path: Path) -> None:
    BM25Retriever(COLOURS).save(tmp_path / "index")
    with pytest.raises(FingerprintError, match="another corpus"):
        BM25Retriever.load(tmp_path / "index", COLOURS[:-1])


def test_a_folder_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="no index"):
        BM25Retriever(COLOURS).save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_damaged_indexes_are_named(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    BM25Retriever(COLOURS).save(whole)
    files = sorted(p.relative_to(whole) for p in whole.rglob("*") if p.is_file())
    assert len(files) >= 5
    for number, name in enumerate(files):
        for how in ("missing", "garbage"):
            damaged = tmp_path / f"{how}{number}"
            shutil.copytree(whole, damaged)
            (damaged / name).unlink() if how == "missing" else (damaged / name).write_bytes(b"\0x")
            with pytest.raises(RetrievalError, match="rulerag index"):
                BM25Retriever.load(damaged, COLOURS)


def test_arrays_that_do_not_fit_are_refused_before_the_kernel_reads_them(tmp_path: Path) -> None:
    BM25Retriever(COLOURS).save(tmp_path / "index")
    path = next((tmp_path / "index").rglob("*indices*.npy"))
    array = np.load(path)
    array[0] = 10_000
    np.save(path, array)
    with pytest.raises(RetrievalError, match="do not fit"):
        BM25Retriever.load(tmp_path / "index", COLOURS)


def test_icews14_ties_are_exact(graph_folder: Callable[[str], Path]) -> None:
    graph = KnowledgeGraph.load(graph_folder("icews14"))
    start = dt.date(2014, 1, 1)
    documents = []
    for number, fact in enumerate(graph.train):
        day = start + dt.timedelta(hours=fact.timestamp or 0)
        words = " ".join((fact.subject, fact.relation, fact.object)).replace("_", " ")
        documents.append(Document(f"d{number}", f"Time {day} {words}.", (fact,)))
    retriever = BM25Retriever(documents, dates="drop")
    texts = [f"what does {d.text.split(' ', 2)[2]} ?" for d in documents[::150]]
    queries = [Query(f"q{i}", text) for i, text in enumerate(texts)]
    rows, scores = retriever.search(queries, 1000)
    assert (np.diff(scores, axis=1) <= 0).all()
    tied = (np.diff(scores, axis=1) == 0) & (rows[:, 1:] >= 0)
    assert tied.mean() > 0.5  # the corpus does tie in masses
    assert (np.diff(rows, axis=1)[tied] > 0).all()
    shallow = retriever.search(queries[::-1], 10)
    assert (shallow.rows[::-1] == rows[:, :10]).all()
