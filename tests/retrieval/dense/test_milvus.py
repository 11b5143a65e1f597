"""Milvus behind the dense retriever: a real server and a file give FAISS's ranks; kills, dates."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.scale.kills import milvus_server as milvus
from rulerag.assembly.demo import world_dataset
from rulerag.cli import main
from rulerag.errors import ConfigError, FingerprintError, RetrievalError
from rulerag.protocols import Retriever
from rulerag.retrieval.base import RowSearcher, TimeAwareRetriever
from rulerag.retrieval.dense import DenseRetriever, milvus_index
from rulerag.retrieval.dense.milvus_index import MilvusIndex
from rulerag.rules import RuleBank
from rulerag.synthetic import World
from rulerag.types import Document, Fact, Query
from tests.retrieval.conftest import ids
from tests.retrieval.dense.checkpoints import Points, cloud, corpus_of, dense, queries_of

pytest.importorskip("milvus_lite")
pytest.importorskip("pymilvus")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with milvus(tmp_path_factory.mktemp("milvus"), port):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("where", ["server", "file"])
def test_brute_force_gives_the_first_ten_of_faiss(address: str, tmp_path: Path, where: str) -> None:
    place = address if where == "server" else str(tmp_path / "x.db")
    documents, queries = corpus_of(cloud(3000, 24)), queries_of(cloud(40, 24, seed=1))
    exact = dense(documents)
    served = dense(documents, index=place)
    assert isinstance(served, Retriever) and isinstance(served, RowSearcher)
    one, two = exact.retrieve(queries, 10), served.retrieve(queries, 10)
    assert [ids(found) for found in two] == [ids(found) for found in one]
    for mine, other in zip(one, two, strict=True):
        scores = [found.score for found in other]
        assert scores == pytest.approx([found.score for found in mine], abs=1e-5)
    # Saved, it is an address with what has to be there; opened, nothing is built again.
    served.save(tmp_path / "index")
    opened = DenseRetriever.load(tmp_path / "index", documents, Points())
    assert [ids(found) for found in opened.retrieve(queries, 10)] == [ids(f) for f in one]
    assert opened.fingerprint == served.fingerprint != exact.fingerprint
    short = served.retrieve(queries[:1], 5_000)[0]
    assert len(short) == 3000 and served.search([], 3).rows.shape == (0, 3)


def test_an_index_that_is_not_exact_finds_most(address: str) -> None:
    documents, queries = corpus_of(cloud(3000, 24)), queries_of(cloud(20, 24, seed=1))
    found = dense(documents, index=f"{address}#HNSW,M=16,efConstruction=100").retrieve(queries, 10)
    exact = dense(documents).retrieve(queries, 10)
    pairs = zip(found, exact, strict=True)
    shared = [len(set(ids(one)) & set(ids(two))) for one, two in pairs]
    assert np.mean(shared) > 9


def test_time_is_a_filter_and_gives_what_is_found_without(address: str) -> None:
    vectors = cloud(900, 8)
    texts = [one.text for one in corpus_of(vectors)]
    documents = [
        Document(f"d{n}", text, (Fact("a", "r", "b", None if n % 50 == 0 else n),))
        for n, text in enumerate(texts)
    ]
    asked = queries_of(cloud(12, 8, seed=2))
    queries = [
        Query(f"q{n}", one.text, timestamp=None if n == 0 else 40 * n)
        for n, one in enumerate(asked)
    ]
    local = TimeAwareRetriever(dense(documents), pool=900)
    # As deep as is wanted and no deeper: what comes later was left out by the server.
    served = TimeAwareRetriever(dense(documents, index=address), pool=10, max_pool=10)
    for one, two in zip(local.retrieve(queries, 10), served.retrieve(queries, 10), strict=True):
        assert [found.document.id for found in two] == [found.document.id for found in one]


def test_rows_are_replaced_and_taken_out_and_the_next_search_knows(address: str) -> None:
    vectors = np.eye(4, dtype=np.float32)
    times = np.zeros(4, dtype=np.int64)
    index = MilvusIndex.build(vectors, address, name="changing", times=times, normalize=False)
    assert index.search(vectors[:1], 1).rows.tolist() == [[0]]
    index.delete(np.array([0]))
    assert len(index) == 3 and index.search(vectors[:1], 4).rows[0].tolist().count(0) == 0
    index.upsert(np.array([3, 4]), vectors[[0, 0]] * 2, times[:2])
    found = index.search(vectors[:1], 2)
    assert len(index) == 4 and found.rows.tolist() == [[3, 4]] and found.scores[0, 0] == 2
    with pytest.raises(FingerprintError, match="holds 4 vectors"):  # by another program
        MilvusIndex.load(index.save(""), 5)


def test_a_server_that_is_killed_while_it_is_filled_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after some batches: nothing half is opened, and the next build goes on there."""
    monkeypatch.setattr("rulerag.retrieval.dense.milvus_index._ROWS_BYTES", 4 * 16 * 100)
    port, written, deadly = free_port(), list[int](), 4
    vectors, times = cloud(1000, 16), np.zeros(1000, dtype=np.int64)
    put = MilvusIndex._upsert

    def build() -> MilvusIndex:
        place = f"http://127.0.0.1:{port}"
        return MilvusIndex.build(vectors, place, name="killed", times=times, normalize=True)

    def counted(self: MilvusIndex, collection: str, rows: Any, *rest: Any) -> None:
        if len(written) == deadly:
            server.kill()
            server.wait()
        put(self, collection, rows, *rest)
        written.append(int(rows[0]))

    monkeypatch.setattr(MilvusIndex, "_upsert", counted)
    with milvus(tmp_path, port) as server, pytest.raises(RetrievalError, match="the Milvus at"):
        build()
    deadly = -1
    with milvus(tmp_path, port):
        index = build()
        assert written == list(range(0, 1000, 100))  # each batch once
        assert len(index) == 1000
        rows = index.search(vectors[:50], 1).rows[:, 0]
        assert rows.tolist() == list(range(50))
        with pytest.raises(RetrievalError, match="every row"):
            MilvusIndex.load({**index.save(""), "collection": "rulerag_other_flat"}, 1000)


def test_a_server_that_dies_during_a_search_is_named_and_found_again(tmp_path: Path) -> None:
    port = free_port()
    documents, queries = corpus_of(cloud(200, 8)), queries_of(cloud(30, 8, seed=1))
    with milvus(tmp_path, port):
        retriever = dense(documents, index=f"http://127.0.0.1:{port}")
        before = [ids(found) for found in retriever.retrieve(queries, 5)]
    with pytest.raises(RetrievalError, match=f"the Milvus at http://127.0.0.1:{port} failed"):
        retriever.retrieve(queries, 5)
    with milvus(tmp_path, port):  # with what it had acknowledged
        for _ in range(20):
            with suppress(RetrievalError):
                again = [ids(found) for found in retriever.retrieve(queries, 5)]
                break
            time.sleep(0.5)
        assert again == before


@pytest.mark.parametrize(
    ("index", "options", "error", "told"),
    [
        ("http://127.0.0.1:9", {}, RetrievalError, "the Milvus at http://127.0.0.1:9 failed"),
        ("/nowhere/at/all/x.db", {}, RetrievalError, "not exists"),
        ("x.db#BTREE", {}, ConfigError, "no index of Milvus is called 'BTREE'"),
        ("x.db#HNSW,M=many", {}, ConfigError, "'M=many' are no parameters"),
        ("x.db", {"search_parameters": "ef:3"}, ConfigError, "'ef:3' are no parameters"),
        ("http://me:secret@h:1", {}, ConfigError, "holds a password"),
    ],
)
def test_what_cannot_be_reached_or_read_is_said_before_anything_is_encoded(
    index: str, options: dict[str, str], error: type[Exception], told: str, tmp_path: Path
) -> None:
    encoder = Points()
    place = index.replace("x.db", str(tmp_path / "x.db")) if index.startswith("x.db") else index
    with pytest.raises(error, match=told) as raised:
        dense(corpus_of(cloud(5, 3)), encoder, index=place, **options)
    assert not encoder.batches and "secret" not in str(raised.value)


def test_the_command_line_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world_dataset(World.generate(600), RuleBank([])).save(tmp_path / "data")
    place = str(tmp_path / "x.db")

    def rulerag(*words: str) -> None:
        with pytest.raises(SystemExit) as done:
            main([*words, "--quiet"])
        assert done.value.code == 0, capsys.readouterr().err

    data, index = str(tmp_path / "data"), str(tmp_path / "index")
    rulerag("index", data, "--retriever", "milvus", "--kind", place, "--out", index)
    rulerag("retrieve", data, "--retriever", "milvus", "--index", index, "--out", f"{place}.trec")
    rulerag("retrieve", data, "--retriever", "dense", "--out", f"{place}.flat")
    one, two = (Path(f"{place}.{kind}").read_text().splitlines() for kind in ("trec", "flat"))
    assert [line.split()[:4] for line in one] == [line.split()[:4] for line in two]


def test_what_a_killed_server_left_torn_is_filled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while it wrote a file: the file is short, and the collection cannot be read again."""
    port = free_port()
    vectors, times = cloud(2000, 64), np.zeros(2000, dtype=np.int64)

    def build() -> MilvusIndex:
        place = f"http://127.0.0.1:{port}"
        return MilvusIndex.build(vectors, place, name="torn", times=times, normalize=True)

    count, counted = milvus_index._count, list[str]()

    def killed(client: Any, collection: str) -> int:
        counted.append(collection)
        if len(counted) == 2:  # all is written, and nothing has its name yet
            server.kill()
            server.wait()
        return count(client, collection)

    monkeypatch.setattr(milvus_index, "_count", killed)
    with milvus(tmp_path, port) as server, pytest.raises(RetrievalError, match="the Milvus at"):
        build()
    large = [one for one in tmp_path.rglob("*") if one.is_file() and one.stat().st_size > 100_000]
    for file in large:
        os.truncate(file, file.stat().st_size // 2)
    assert large
    with milvus(tmp_path, port):
        rows = build().search(vectors[:50], 1).rows[:, 0]
    assert rows.tolist() == list(range(50))
