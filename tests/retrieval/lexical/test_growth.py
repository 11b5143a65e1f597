"""A BM25 index that grows: the same numbers as one that is built anew, and as bm25s."""

from __future__ import annotations

import json
from pathlib import Path

import bm25s
import numpy as np
import pytest

from rulerag.errors import FingerprintError, RetrievalError
from rulerag.io import StoredRecords, fingerprint_file, write_jsonl
from rulerag.kg.verbalization import Verbalizer
from rulerag.retrieval.base.corpus import indexed_text
from rulerag.retrieval.base.index_folder import MANIFEST
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.retrieval.lexical.tokenization import Tokenizer
from rulerag.retrieval.lexical.word_counts import bm25_scores, count_words, joined_counts
from rulerag.synthetic.world import World
from rulerag.types import Document, Query

WORDS = ["red", "green", "blue", "grey", "pink"]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.0, 0.75), (1.5, 0.0)])
def test_counts_that_grow_are_counts_of_all(seed: int, k1: float, b: float) -> None:
    random = np.random.default_rng(seed)
    old, new = (
        [" ".join(random.choice(WORDS, random.integers(7))) for _ in range(random.integers(1, 10))]
        for _ in range(2)
    )
    tokenizer = Tokenizer()
    first = count_words(old, tokenizer)
    size = len(first.starts) - 1
    known = dict(first.vocabulary)
    second = count_words(new, tokenizer, known, first=len(old))
    grown, whole = joined_counts(first, second), count_words(old + new, tokenizer)
    assert grown.vocabulary == whole.vocabulary
    assert len(first.vocabulary) == size
    for one, other in zip(grown[1:], whole[1:], strict=True):
        assert np.array_equal(one, other)
    if not whole.vocabulary:
        return
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy")
    ids = [[whole.vocabulary[word] for word in tokenizer(text)] for text in old + new]
    index.index((ids, whole.vocabulary), create_empty_token=False, show_progress=False)
    found = bm25_scores(grown, len(old + new), k1, b)
    assert np.array_equal(index.scores["data"], found)
    assert np.array_equal(index.scores["indices"], grown.indices)
    assert np.array_equal(index.scores["indptr"], grown.starts)


@pytest.fixture(scope="module")
def corpus() -> list[Document]:
    graph = World.generate(1000).graph
    return Verbalizer(graph).corpus(graph.train)


def stored(file: Path, documents: list[Document]) -> StoredRecords[Document]:
    write_jsonl(file, (one.to_json() for one in documents))
    return StoredRecords(file, Document.from_json, fingerprint_file(file))


@pytest.mark.parametrize("in_file", [True, False])
def test_an_index_that_grew_finds_what_a_new_one_finds(
    corpus: list[Document], tmp_path: Path, *, in_file: bool
) -> None:
    parts = [corpus[:500], corpus[:501], corpus]
    sizes = [
        stored(tmp_path / f"{n}.jsonl", one) if in_file else one for n, one in enumerate(parts)
    ]
    BM25Retriever(sizes[0], k1=0.9, dates="split").save(tmp_path / "index")
    assert BM25Retriever.extend(tmp_path / "index", sizes[1]) == 1
    assert BM25Retriever.extend(tmp_path / "index", sizes[2]) == len(corpus) - 501
    assert BM25Retriever.extend(tmp_path / "index", sizes[2]) == 0
    grown = BM25Retriever.load(tmp_path / "index", sizes[2])
    anew = BM25Retriever(corpus, k1=0.9, dates="split")
    queries = [Query(f"q{n}", indexed_text(one)) for n, one in enumerate(corpus[::50])]
    assert grown.retrieve(queries, 20) == anew.retrieve(queries, 20)
    assert grown.fingerprint == anew.fingerprint
    # A list of the same documents opens it too, other documents do not.
    assert BM25Retriever.load(tmp_path / "index", corpus).retrieve(queries, 5)
    for other in (corpus[:-1], [*corpus[:-1], Document("x", "y")]):
        with pytest.raises(FingerprintError):
            BM25Retriever.load(tmp_path / "index", other)


def test_what_cannot_grow_says_why(corpus: list[Document], tmp_path: Path) -> None:
    BM25Retriever(corpus[:100]).save(tmp_path / "index")
    for other in (corpus[1:], corpus[:50], [Document("x", "y"), *corpus[1:]]):
        with pytest.raises(FingerprintError, match="first documents"):
            BM25Retriever.extend(tmp_path / "index", other)
    file = tmp_path / "index" / MANIFEST
    manifest = json.loads(file.read_text())
    del manifest["settings"]["counts"]  # as older versions wrote it
    file.write_text(json.dumps(manifest))
    BM25Retriever.load(tmp_path / "index", corpus[:100])
    with pytest.raises(RetrievalError, match="no counts"):
        BM25Retriever.extend(tmp_path / "index", corpus)
    assert json.loads(file.read_text()) == manifest
