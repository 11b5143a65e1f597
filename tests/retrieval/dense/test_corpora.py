"""Vectors of a corpus: cached by fingerprint, resumed after a kill; encoders by their names."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.arrays import Floats
from rulerag.errors import ConfigError, FingerprintError, OutputError
from rulerag.retrieval.dense import DenseRetriever, embed_corpus, open_dense
from rulerag.retrieval.dense.encoders import load_encoder
from rulerag.types import Document, Query
from tests.retrieval.dense.checkpoints import LETTERS, bert, dpr_pair, write_model

ROOT = Path(__file__).resolve().parents[3]


class Waves:
    """Encodes a number as its sine and cosine; remembers what it encoded, and may stop there."""

    def __init__(self, fingerprint: str = "waves", stops_at: int | None = None) -> None:
        self.fingerprint = fingerprint
        self.stops_at = stops_at
        self.encoded: list[int] = []

    def encode(self, texts: Sequence[str]) -> Floats:
        numbers = list(map(int, texts))
        if self.stops_at in numbers:
            raise KeyboardInterrupt
        self.encoded += numbers
        return np.stack([np.sin(numbers), np.cos(numbers)], axis=1).astype(np.float32)


def numbered(numbers: Sequence[int]) -> list[Document]:
    return [Document(f"d{i}", str(number)) for i, number in enumerate(numbers)]


NUMBERS = numbered(range(100))
EXPECTED = Waves().encode([str(i) for i in range(100)])


def embed(encoder: Any, folder: Path, documents: Sequence[Document] = NUMBERS) -> Floats:
    return embed_corpus(documents, encoder, cache_dir=folder, chunk_size=16).vectors


def test_vectors_are_kept_for_the_same_corpus_and_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, other = Waves(), Waves(), Waves("other")
    for encoder in (first, second, other):
        np.testing.assert_array_equal(embed(encoder, tmp_path), EXPECTED)
    assert (first.encoded, second.encoded) == (list(range(100)), [])
    assert len(other.encoded) == 100
    embed(second, tmp_path, NUMBERS[1:])
    assert len(second.encoded) == 99
    files = sorted(path.name for path in next(tmp_path.iterdir()).iterdir())
    assert files == ["progress.json", "vectors.npy"]
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "here"))
    encoder = Waves()
    for index in ("Flat", "SQ8"):  # another index of the same vectors
        DenseRetriever(NUMBERS, encoder, index=index, threads=1)
    assert len(list((tmp_path / "here" / "embeddings").iterdir())) == 1
    assert len(encoder.encoded) == 100
    del encoder.fingerprint  # without a name it is not cached
    embed_corpus(NUMBERS, encoder)
    embed_corpus(NUMBERS, first, cache=False)
    assert (len(encoder.encoded), len(first.encoded)) == (200, 200)
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError):
        embed(Waves(), tmp_path / "file")


# Waves again, slow after the first chunk; without torch, so that it starts at once.
SLOW = """
import sys, time
import numpy as np
from rulerag.retrieval.dense import embed_corpus
from rulerag.types import Document

class Slow:
    fingerprint = "waves"
    calls = 0

    def encode(self, texts):
        time.sleep(0.2 if self.calls else 0.0)
        self.calls += 1
        numbers = list(map(int, texts))
        return np.stack([np.sin(numbers), np.cos(numbers)], axis=1).astype(np.float32)

documents = [Document(f"d{i}", str(i)) for i in range(100)]
embed_corpus(documents, Slow(), cache_dir=sys.argv[1], chunk_size=16)
"""


def rows_done(folder: Path) -> int:
    """How far a run has told that it is."""
    for progress in folder.glob("*/progress.json"):
        return int(json.loads(progress.read_text())["rows"])
    return 0


def test_a_killed_run_is_resumed_to_the_same_vectors(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLOW, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        while rows_done(tmp_path) < 32 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -9, "it was done before it could be killed"
    kept = rows_done(tmp_path)
    assert 32 <= kept < 100
    resumed = Waves()
    np.testing.assert_array_equal(embed(resumed, tmp_path), EXPECTED)
    assert resumed.encoded == list(range(kept, 100))


@pytest.mark.parametrize("stops_at", [64, None])
@pytest.mark.parametrize("file", ["vectors.npy", "progress.json"])
@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY\x01\x00rubbish", None])
def test_damaged_vectors_are_encoded_again(
    file: str,
    damage: bytes | None,
    stops_at: int | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if stops_at is None:
        embed(Waves(), tmp_path)
    else:
        with pytest.raises(KeyboardInterrupt):
            embed(Waves(stops_at=stops_at), tmp_path)
    [part] = tmp_path.glob(f"*/{file}")
    part.write_bytes(part.read_bytes()[:-8] if damage is None else damage)
    with pytest.raises(KeyboardInterrupt):
        embed(Waves(stops_at=40), tmp_path)  # what is half done again is not taken for whole
    resumed = Waves()
    np.testing.assert_array_equal(embed(resumed, tmp_path), EXPECTED)
    assert resumed.encoded == list(range(32, 100))
    assert "vectors.npy is damaged" in caplog.text


def test_equal_texts_get_one_vector_across_chunks_and_kills(tmp_path: Path) -> None:
    numbers = [3, 5, 3, 7, 5, 9, 3, 11] * 4
    with pytest.raises(KeyboardInterrupt):
        embed_corpus(numbered(numbers), Waves(stops_at=7), cache_dir=tmp_path, chunk_size=3)
    encoder = Waves()
    found = embed_corpus(numbered(numbers), encoder, cache_dir=tmp_path, chunk_size=3)
    assert encoder.encoded == [7, 9, 11]
    np.testing.assert_array_equal(found.vectors, EXPECTED[numbers])


def test_truncated_documents_are_counted_and_told_again_from_the_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    context, question = (load_encoder(folder) for folder in dpr_pair(tmp_path))
    documents = [Document(f"d{i}", f"a{' b' * (i % 50)} {'c' * (i + 1)}") for i in range(120)]
    cut = sum(len(context.model.tokenizer(d.text)["input_ids"]) > 24 for d in documents)
    assert 0 < cut < 120
    for shown in (True, False):
        caplog.clear()
        retriever = DenseRetriever(
            documents,
            context,
            query_encoder=question,
            cache_dir=tmp_path / "c",
            chunk_size=50,
            progress=shown,
        )
        assert retriever.truncated_documents == cut
        told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert told == [f"{cut} of 120 documents are longer than the encoder's window and are cut"]
        assert ("120/120" in capsys.readouterr().err) == shown


# --- encoders of two sides ---------------------------------------------------------------------

WORDS = [Document(f"d{i}", text) for i, text in enumerate(["abc def", "bad cab", "a fig"])]


def test_dpr_from_its_names_to_a_saved_index(tmp_path: Path) -> None:
    context, question = dpr_pair(tmp_path)
    options: dict[str, Any] = {"max_length": 9, "batch_size": 2, "device": "cpu"}
    named = open_dense(WORDS, encoder=context, cache_dir=tmp_path / "c", **options)
    sides = [load_encoder(folder, max_length=9) for folder in (context, question)]
    rows, scores = named.search([Query("q", "abc")], 3)
    expected = sides[0].encode([d.text for d in WORDS]) @ sides[1].encode(["abc"])[0]
    assert rows[0].tolist() == np.argsort(-expected).tolist()
    np.testing.assert_allclose(scores[0], np.sort(expected)[::-1], rtol=1e-5)
    made = DenseRetriever(WORDS, sides[0], query_encoder=sides[1], cache_dir=tmp_path / "c")
    assert (named.fingerprint, named.similarity) == (made.fingerprint, "dot")
    assert len(list((tmp_path / "c").iterdir())) == 1
    named.save(tmp_path / "index")
    for query_encoder in (None, str(question)):
        opened = open_dense(
            WORDS,
            folder=tmp_path / "index",
            encoder=context,
            query_encoder=query_encoder,
            **options,
        )
        assert opened.fingerprint == made.fingerprint
    with pytest.raises(ConfigError, match="not a query"):
        DenseRetriever(WORDS, sides[0])
    with pytest.raises(ConfigError, match="not a document"):
        DenseRetriever(WORDS, sides[1])
    other = load_encoder(context)
    with pytest.raises(FingerprintError, match="another encoder"):
        DenseRetriever.load(tmp_path / "index", WORDS, other, query_encoder=sides[1])


def test_an_index_is_opened_as_it_was_built(tmp_path: Path) -> None:
    encoder = write_model(tmp_path / "contriever", bert(add_pooling_layer=False))
    documents = [Document(f"d{i}", letter) for i, letter in enumerate(LETTERS)]
    common: dict[str, Any] = {"encoder": encoder, "cache": False}
    made = open_dense(documents, index="SQ8", **common)
    made.save(tmp_path / "index")
    common["folder"] = tmp_path / "index"
    for same in ({}, {"index": "SQ8"}, {"similarity": "dot"}):
        opened = open_dense(documents, **common, **same)
        assert (opened.fingerprint, opened.built_with) == (made.fingerprint, made.built_with)
    with pytest.raises(FingerprintError, match="another encoder"):
        open_dense(documents, **common, max_length=5)
