"""Vectors in files: the same from every number of workers, whole shards kept, nothing mixed up."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.arrays import Floats
from rulerag.errors import DataError, DataFormatError, FingerprintError, OutputError, RuleRAGError
from rulerag.parallel import RayBackend
from rulerag.retrieval.dense import DenseRetriever, embed_corpus, encode_files, encoding
from rulerag.retrieval.dense.encoders import NANO_ENCODER, load_encoder
from rulerag.retrieval.dense.encoding import open_vectors
from rulerag.types import Document, Query

pyarrow = pytest.importorskip("pyarrow")
parquet, fs = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.fs")
pytest.importorskip("sentence_transformers")

TEXTS = [f"{'word ' * (1 + n % 37)}number {n} of the “corpus”" for n in range(203)]
DOCUMENTS = [Document(f"d{n}", text, title="T" * (n % 2)) for n, text in enumerate(TEXTS)]


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "ROWS", 40)
    monkeypatch.setattr(encoding, "_BYTES", 3000)


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.jsonl"
    rows = [{"_id": d.id, "title": d.title, "text": d.text} for d in DOCUMENTS]
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return file


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    for number, part in enumerate((DOCUMENTS[:90], DOCUMENTS[90:])):
        columns = {key: [getattr(one, key) for one in part] for key in ("id", "text", "title")}
        table = pyarrow.table(columns | {"other": [0] * len(part)})
        parquet.write_table(table, folder / f"{number}.parquet", row_group_size=33)
    return folder


def read(place: Path) -> tuple[list[str], Floats]:
    """The ids and vectors of every shard in order."""
    shards = [parquet.read_table(file) for file in sorted(place.glob("*.parquet"))]
    ids = [one for shard in shards for one in shard["id"].to_pylist()]
    return ids, np.vstack([np.array(shard["vector"].to_pylist(), np.float32) for shard in shards])


def alone() -> Floats:
    return embed_corpus(DOCUMENTS, load_encoder(NANO_ENCODER), cache=False).vectors


def test_lines_and_tables_give_what_one_pass_gives(
    jsonl: Path, tables: Path, tmp_path: Path
) -> None:
    for source in (jsonl, tables):
        made = encode_files(source, tmp_path / "out" / source.name, NANO_ENCODER)
        ids, vectors = read(tmp_path / "out" / source.name)
        assert ids == [one.id for one in DOCUMENTS] and made.documents == len(ids)
        assert made.shards > 5
        np.testing.assert_allclose(vectors, alone(), atol=1e-5)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray, for its own settings
def test_a_cluster_gives_the_same_files(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there, seen = tmp_path / "here", tmp_path / "there", tmp_path / "seen"
    seen.mkdir()

    class Watched(encoding._Worker):
        def __call__(self, work: dict[str, Any]) -> dict[str, Any]:
            (seen / str(os.getpid())).touch()
            end = time.monotonic() + 60
            while len(os.listdir(seen)) < 2 and time.monotonic() < end:
                time.sleep(0.1)
            return super().__call__(work)

    encode_files(jsonl, here, NANO_ENCODER)
    monkeypatch.setattr(encoding, "_Worker", Watched)
    encode_files(jsonl, there, NANO_ENCODER, backend=RayBackend(3))  # a worker on every CPU
    assert len(os.listdir(seen)) > 1, "small files are no single block, which one would take"
    assert sorted(os.listdir(here)) == sorted(os.listdir(there))
    assert read(here)[0] == read(there)[0]
    np.testing.assert_allclose(read(here)[1], read(there)[1], atol=1e-6)


def test_a_store_of_objects_gives_the_same_files(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which("moto_server")
    if program is None:
        pytest.skip("no server of S3 is here: pip install 'moto[server]'")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        host, port = probe.getsockname()
    words = [program, "-H", host, "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex((host, port)) == 0:
                    break
            time.sleep(0.1)
        place = (
            f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1&allow_delayed_open=true"
        )
        store, _ = fs.FileSystem.from_uri(f"s3://corpora{place}&allow_bucket_creation=true")
        store.create_dir("corpora")
        with store.open_output_stream("corpora/corpus.jsonl") as file:
            file.write(jsonl.read_bytes())
        here, there = tmp_path / "here", f"s3://corpora/out{place}"
        made = encode_files(f"s3://corpora/corpus.jsonl{place}", there, NANO_ENCODER)
        encode_files(jsonl, here, NANO_ENCODER)
        texts, vectors = zip(*open_vectors(there, made.encoder)[1], strict=True)
        assert list(texts) == [text for text, _ in open_vectors(here, made.encoder)[1]]
        assert (np.vstack(vectors) == read(here)[1]).all()
        refused(OutputError, "cannot be written", jsonl, f"s3://missing/out{place}")
        refused(DataError, "no such file or folder", f"s3://corpora/nothing{place}", tmp_path / "x")
        nowhere = "s3://b/one?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1"
        refused(DataError, "cannot be read.*check address", nowhere, tmp_path / "x")
    finally:
        server.kill()
        server.wait()


def test_whole_shards_are_not_encoded_again(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    encode_files(jsonl, out, NANO_ENCODER)
    expected = read(out)
    for name in ("part-0000001.parquet", "part-0000003.parquet"):
        (out / name).unlink()
    (out / "part-0000001.parquet.left").write_text("of a killed worker")
    asked: list[int] = []
    work = encoding._Worker.__call__

    def counted(self: Any, one: dict[str, Any]) -> dict[str, Any]:
        asked.append(one["number"])
        return work(self, one)

    monkeypatch.setattr(encoding._Worker, "__call__", counted)
    encode_files(jsonl, out, NANO_ENCODER)
    assert asked == [1, 3]
    assert read(out)[0] == expected[0] and (read(out)[1] == expected[1]).all()
    assert not list(out.glob("*.parquet.*"))


def test_they_are_indexed_and_others_are_refused(
    jsonl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    made = encode_files(jsonl, out, NANO_ENCODER)
    encoder: Any = load_encoder(NANO_ENCODER)
    plain = DenseRetriever(DOCUMENTS, encoder, cache=False)
    settings: dict[str, Any] = {"vectors": str(out), "cache_dir": tmp_path / "cache"}
    monkeypatch.setattr(
        "rulerag.retrieval.dense.embeddings._encode", lambda *_: pytest.fail("encoded again")
    )
    from_files = DenseRetriever(DOCUMENTS, encoder, **settings)
    questions = [Query(str(n), f"number {n}") for n in range(20)]
    for a, b in zip(*(one.retrieve(questions, 10) for one in (plain, from_files)), strict=True):
        assert [s.document.id for s in a] == [s.document.id for s in b]
    with pytest.raises(FingerprintError, match="from document 0 on"):
        DenseRetriever(DOCUMENTS[::-1], encoder, **settings)
    with pytest.raises(FingerprintError, match="from document 203 on"):
        DenseRetriever([*DOCUMENTS, Document("x", "more")], encoder, **settings)
    with pytest.raises(FingerprintError, match="another encoder"):
        open_vectors(out, "f" * 16)
    assert open_vectors(out, made.encoder)[0] == made


def refused(error: type[RuleRAGError], words: str, corpus: Path | str, out: Path | str) -> None:
    with pytest.raises(error, match=words) as caught:
        encode_files(corpus, out, NANO_ENCODER)
    assert "\n" not in str(caught.value)


def test_what_is_wrong_is_named(jsonl: Path, tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused(DataError, "no such file or folder: .*nowhere", tmp_path / "nowhere", out)
    (tmp_path / "empty").mkdir()
    refused(DataError, r"no .parquet or .jsonl file", tmp_path / "empty", out)
    broken = tmp_path / "broken.parquet"
    broken.write_text("no table")
    refused(DataFormatError, r"broken.parquet: is no Parquet file", broken, out)
    parquet.write_table(pyarrow.table({"id": ["1"], "body": ["x"]}), broken)
    refused(DataFormatError, "has the columns id, body — `id` and `text`", broken, out / "a")
    parquet.write_table(pyarrow.table({"id": ["1"], "text": [None]}), broken)
    refused(DataFormatError, "the document '1' has no text", broken, out / "b")
    encode_files(jsonl, out / "c", NANO_ENCODER)
    refused(FingerprintError, "another corpus or encoder", tables, out / "c")
    lines = jsonl.read_text().splitlines()
    jsonl.write_text("\n".join([*lines[:100], '{"_id": 1', *lines[100:]]))
    refused(DataFormatError, r"corpus.jsonl: near byte [\d,]+", jsonl, out / "d")
    refused(OutputError, "cannot be written", tables, jsonl / "below")
    with pytest.raises(DataError, match="gopher://x cannot be opened"):
        encode_files("gopher://x", out, NANO_ENCODER)
    with pytest.raises(DataError, match="no whole encoding"):
        open_vectors(out / "d", "f" * 16)
