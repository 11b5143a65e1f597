"""Vectors of a corpus: cached by fingerprint, resumed after a kill, encoded anew when damaged."""

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
import numpy.typing as npt
import pytest

from rulerag.errors import OutputError
from rulerag.retrieval.dense.embeddings import CorpusEmbeddings, embed_corpus
from rulerag.retrieval.dense.encoders.load import load_encoder
from rulerag.retrieval.dense.retriever import DenseRetriever
from rulerag.types import Document, Query
from tests.retrieval.encoder_checkpoints import dpr_pair

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = [Document(f"d{i}", str(i)) for i in range(100)]


class Waves:
    """Encodes a number as its sine and cosine, and remembers which ones it was asked for."""

    def __init__(self, fingerprint: str = "waves") -> None:
        self.fingerprint = fingerprint
        self.asked: list[int] = []

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += map(int, texts)
        angles = np.array([int(text) for text in texts], dtype=np.float64)
        return np.stack([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def embed(encoder: Any, folder: Path, **options: Any) -> CorpusEmbeddings:
    return embed_corpus(NUMBERS, encoder, cache_dir=folder, **{"chunk_size": 16, **options})


EXPECTED = Waves().encode([str(i) for i in range(100)])


def test_vectors_are_kept_for_the_same_corpus_and_encoder(tmp_path: Path) -> None:
    first, second = Waves(), Waves()
    np.testing.assert_array_equal(embed(first, tmp_path).vectors, EXPECTED)
    assert first.asked == list(range(100))
    np.testing.assert_array_equal(embed(second, tmp_path).vectors, EXPECTED)
    assert second.asked == []
    other = Waves("other")
    embed(other, tmp_path)
    assert len(other.asked) == 100
    embed_corpus(NUMBERS[1:], second, cache_dir=tmp_path)
    assert len(second.asked) == 99
    files = sorted(path.name for path in next(tmp_path.iterdir()).iterdir())
    assert files == ["progress.json", "vectors.npy"]


def test_the_cache_stands_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "here"))
    embed_corpus(NUMBERS, Waves())
    assert len(list((tmp_path / "here" / "embeddings").iterdir())) == 1
    again = Waves()
    embed_corpus(NUMBERS, again)
    assert again.asked == []
    embed_corpus(NUMBERS, again, cache=False)
    assert len(again.asked) == 100


def test_an_encoder_without_a_name_is_not_cached(tmp_path: Path) -> None:
    encoder = Waves()
    del encoder.fingerprint
    np.testing.assert_array_equal(embed(encoder, tmp_path).vectors, EXPECTED)
    assert list(tmp_path.iterdir()) == []


# Waves again, slow after the first chunk; without torch, so that it starts at once.
SLOW = """
import sys, time
import numpy as np
from rulerag.retrieval.dense.embeddings import embed_corpus
from rulerag.types import Document

class Slow:
    fingerprint = "waves"
    calls = 0

    def encode(self, texts):
        time.sleep(0.2 if self.calls else 0.0)
        self.calls += 1
        angles = np.array([int(text) for text in texts], dtype=np.float64)
        return np.stack([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)

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
    found = embed(resumed, tmp_path)
    assert resumed.asked == list(range(kept, 100))
    np.testing.assert_array_equal(found.vectors, EXPECTED)


class Dies(Waves):
    """Stops at the fifth chunk."""

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if len(self.asked) >= 64:
            raise KeyboardInterrupt
        return super().encode(texts)


@pytest.mark.parametrize("file", ["vectors.npy", "progress.json"])
@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY\x01\x00rubbish", None])
def test_damaged_parts_are_encoded_again(
    file: str, damage: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyboardInterrupt):
        embed(Dies(), tmp_path)
    [part] = tmp_path.glob(f"*/{file}")
    part.write_bytes(part.read_bytes()[:-8] if damage is None else damage)
    resumed = Waves()
    np.testing.assert_array_equal(embed(resumed, tmp_path).vectors, EXPECTED)
    assert resumed.asked == list(range(100))
    assert "vectors.npy is damaged" in caplog.text


def test_a_damaged_whole_is_encoded_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    embed(Waves(), tmp_path)
    [whole] = tmp_path.glob("*/vectors.npy")
    whole.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(KeyboardInterrupt):
        embed(Dies(), tmp_path)  # what is half done again is not taken for whole
    again = Waves()
    np.testing.assert_array_equal(embed(again, tmp_path).vectors, EXPECTED)
    assert again.asked == list(range(64, 100))
    assert "vectors.npy is damaged" in caplog.text


def test_equal_texts_get_one_vector_across_chunks_and_kills(tmp_path: Path) -> None:
    numbers = [3, 5, 3, 7, 5, 9, 3, 11]
    documents = [Document(f"d{i}", str(n)) for i, n in enumerate(numbers)]

    class DiesAtSeven(Waves):
        def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            if "7" in texts:
                raise KeyboardInterrupt
            return super().encode(texts)

    with pytest.raises(KeyboardInterrupt):
        embed_corpus(documents, DiesAtSeven(), cache_dir=tmp_path, chunk_size=3)
    encoder = Waves()
    found = embed_corpus(documents, encoder, cache_dir=tmp_path, chunk_size=3)
    assert encoder.asked == [7, 9, 11]
    np.testing.assert_array_equal(found.vectors, EXPECTED[numbers])


def test_truncated_documents_are_counted_and_told_again_from_the_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context, question = (load_encoder(folder) for folder in dpr_pair(tmp_path))
    texts = ["a" + " b" * (i % 50) for i in range(120)]
    documents = [Document(f"d{i}", f"{text} {'c' * (i + 1)}") for i, text in enumerate(texts)]
    assert context.window is not None
    cut = sum(len(context.model.tokenizer(d.text)["input_ids"]) > 24 for d in documents)
    for _ in range(2):
        caplog.clear()
        retriever = DenseRetriever(
            documents, context, query_encoder=question, cache_dir=tmp_path / "c", chunk_size=50
        )
        assert retriever.truncated_documents == cut
        told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert told == [f"{cut} of 120 documents are longer than the encoder's window and are cut"]


def test_progress_is_shown_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    retriever = DenseRetriever(NUMBERS, Waves(), cache_dir=tmp_path, progress=True)
    retriever.retrieve([Query("q", "7")], 3)
    shown = capsys.readouterr().err
    assert "Encode: 100%" in shown and "100/100" in shown and "Search: 100%" in shown
    DenseRetriever(NUMBERS, Waves("quiet"), cache_dir=tmp_path).retrieve([Query("q", "7")], 3)
    assert capsys.readouterr().err == ""


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError):
        embed(Waves(), tmp_path / "file")
