"""The steps whose growth is measured, each of a size, in a process of its own.

Every step gives what its unit costs; what it needs first (a generated graph, generated vectors) is
made before the clock starts, and counts only to the peak of memory.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rulerag.arrays import Floats
from rulerag.mining.amie import AmieMiner
from rulerag.mining.temporal import TLogicMiner
from rulerag.parallel import RayBackend
from rulerag.retrieval.dense.encoding import encode_files
from rulerag.retrieval.dense.faiss_index import VectorIndex
from rulerag.retrieval.dense.shards import SHARD, ShardedIndex
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.synthetic import World
from rulerag.types import Document, Query

DIMENSION, _RANK, _NOISE = 384, 48, 0.35
_SEARCHES, _QUESTIONS = 9, 60  # q alone and with eight rules
_WORDS, _ENOUGH = 60, 0.955

Step = Callable[[int, int, Path], dict[str, Any]]


class Clock:
    """Wall seconds, and CPU seconds of this process and of those that it started."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), self._used()

    @staticmethod
    def _used() -> float:
        both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(one.ru_utime + one.ru_stime for one in both)

    def read(self) -> dict[str, float]:
        """Seconds since it was made."""
        wall, used = time.perf_counter() - self._began[0], self._used() - self._began[1]
        return {"seconds": round(wall, 3), "cpu_seconds": round(used, 3)}


class PrivateMemory:
    """Watches the memory that this process has for itself, files that are mapped left out."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            status = Path("/proc/self/status").read_text(encoding="utf-8")
            kilobytes = int(status.partition("RssAnon:")[2].split()[0])
            self.peak_mb = max(self.peak_mb, round(kilobytes / 1024, 1))
            time.sleep(0.1)


def _mine(kind: str, size: int, workers: int) -> dict[str, Any]:
    facts = World.generate(size, kind=kind).graph.train
    backend = RayBackend(workers) if workers > 1 else None
    miner: Any
    if kind == "static":
        miner = AmieMiner(max_atoms=3, threads=1, backend=backend)
    else:
        miner = TLogicMiner(lengths=(1,), threads=1, backend=backend)
    small = World.generate(1000, kind=kind).graph.train
    miner.mine(small)  # compiled, and on a cluster each worker up
    clock = Clock()
    rules = miner.mine(facts)
    return {**clock.read(), "rules": len(rules)}


def mine_amie(size: int, workers: int, _folder: Path) -> dict[str, Any]:
    """Rules of up to three atoms of a static graph."""
    return _mine("static", size, workers)


def mine_file(size: int, _workers: int, folder: Path) -> dict[str, Any]:
    """The same rules from a file of names, by the whole command."""
    table = World.generate(size, kind="static").graph.train
    entities, relations = (np.array(one.names) for one in (table.entities, table.relations))
    with (folder / "facts.tsv").open("w", encoding="utf-8") as out:
        for start in range(0, len(table), 10**6):
            ids = table.rows[start : start + 10**6].T
            names = entities[ids[0]], relations[ids[1]], entities[ids[2]]
            out.writelines("\t".join(fact) + "\n" for fact in zip(*names, strict=True))
    clock = Clock()
    words = ["mine", folder / "facts.tsv", "--out", folder / "rules.jsonl", "--threads", "1"]
    subprocess.run([sys.executable, "-m", "rulerag.cli", *map(str, words)], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {**clock.read(), "peak_mb": round(peak, 1)}


def mine_tlogic(size: int, workers: int, _folder: Path) -> dict[str, Any]:
    """Rules of one body atom of a temporal graph."""
    return _mine("temporal", size, workers)


def _passages(size: int) -> list[str]:
    """Passages of sixty words, whose frequencies fall as those of words do (Zipf)."""
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.zipf(1.2, (size, _WORDS)), 200_000)
    return [" ".join(f"w{one}" for one in row) for row in ids]


def encode(size: int, workers: int, folder: Path) -> dict[str, Any]:
    """Passages to vectors, with all-MiniLM-L6-v2, to files of ids and vectors."""
    file = folder / "corpus.jsonl"
    pages = (Path(__file__).parents[2] / "docs").glob("*.md")
    words = re.findall("[a-z]+", " ".join(page.read_text(encoding="utf-8") for page in pages))
    rng = np.random.default_rng(0)
    with file.open("w", encoding="utf-8") as out:
        for number in range(size):
            text = " ".join(rng.choice(words, _WORDS))
            out.write(json.dumps({"_id": f"d{number}", "text": text}) + "\n")
    backend = RayBackend(workers) if workers > 1 else None
    if backend:
        list(backend.map(abs, range(workers)))
    clock = Clock()
    encode_files(file, folder / "vectors", "all-minilm-l6-v2", backend=backend)
    return {**clock.read(), "disk_mb": _disk_mb((folder / "vectors").iterdir())}


def index_bm25(size: int, _workers: int, folder: Path) -> dict[str, Any]:
    """Passages to a BM25 index on disk; nine searches of a question in it."""
    documents = [Document(f"d{n}", text) for n, text in enumerate(_passages(size))]
    clock = Clock()
    BM25Retriever(documents).save(folder / "index")
    built = {**clock.read(), "disk_mb": _disk_mb((folder / "index").rglob("*"))}
    opened = BM25Retriever.load(folder / "index", documents)
    rng = np.random.default_rng(1)
    questions = [
        [Query(f"q{n}-{r}", " ".join(rng.choice(documents[n].text.split(), 8))) for r in range(9)]
        for n in range(_QUESTIONS)
    ]
    return {**built, "question_ms": _median(lambda some: opened.search(some, 10), questions)}


def index_dense(size: int, _workers: int, folder: Path) -> dict[str, Any]:
    """Generated vectors to ``IVF,SQ8`` shards on disk; nine searches of a question in them.

    How many cells are searched is chosen on other queries: the fewest that find 95.5 of 100.
    """
    vectors = random_vectors(folder / "vectors.npy", size)
    cells = int(2 ** round(np.log2(2 * np.sqrt(size))))
    kind = f"IVF{cells},SQ8"
    clock = Clock()
    made: Any
    if size > SHARD:
        made = ShardedIndex.build(vectors, kind, normalize=True)
    else:
        made = VectorIndex.build(vectors, kind, normalize=True)
    saved = made.save(folder)
    built = clock.read()
    disk = _disk_mb(f for f in folder.rglob("*.faiss") if "learned" not in f.parts)
    del made

    def opened(probes: int, threads: int = 1) -> Any:
        settings = saved | {"search_parameters": f"nprobe={probes}"}
        if size > SHARD:
            return ShardedIndex.load(folder, settings, threads=threads)
        return VectorIndex.load(folder, settings, size, threads=threads)

    chosen, unseen = (_questions(vectors, seed) for seed in (1, 2))
    wanted = _exact(vectors, chosen[:20].reshape(-1, DIMENSION), 10)
    probes = 4
    while probes < cells and _recall(opened(probes), chosen[:20], wanted) < _ENOUGH:
        probes = -(-5 * probes // 4)
    recall = _recall(opened(probes), unseen, _exact(vectors, unseen.reshape(-1, DIMENSION), 10))
    one, two = (
        _median(partial(opened(probes, threads).search, depth=10), list(unseen))
        for threads in (1, 2)
    )
    return {
        **built,
        "kind": f"{kind}, nprobe={probes}",
        "question_ms": one,
        "question_ms_2_threads": two,
        "recall@10": round(recall, 4),
        "disk_mb": disk,
    }


def _disk_mb(files: Iterable[Path]) -> float:
    """What files take together; one of two names counts once."""
    sizes = {file.stat().st_ino: file.stat().st_size for file in files if file.is_file()}
    return round(sum(sizes.values()) / 1e6, 1)


def _questions(vectors: Floats, seed: int) -> Floats:
    """Queries near stored vectors, of shape (questions, searches, dimension)."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.integers(0, len(vectors), _QUESTIONS * _SEARCHES))
    noise = rng.standard_normal((len(rows), DIMENSION), dtype=np.float32) / np.sqrt(DIMENSION)
    queries = rng.permutation(_unit(vectors[rows] + _NOISE * noise))
    return queries.reshape(_QUESTIONS, _SEARCHES, DIMENSION)


def _recall(index: Any, questions: Floats, wanted: np.ndarray[Any, Any]) -> float:
    found = index.search(questions.reshape(-1, DIMENSION), wanted.shape[1]).rows
    return float(
        np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, wanted, strict=True)])
    )


def random_vectors(file: Path, size: int) -> np.memmap[Any, Any]:
    """Unit vectors in clouds of a hundred: few directions and noise, as texts cluster."""
    rng = np.random.default_rng(0)
    made = np.lib.format.open_memmap(file, "w+", np.float32, (size, DIMENSION))
    basis = rng.standard_normal((_RANK, DIMENSION), dtype=np.float32) / np.sqrt(DIMENSION)
    centres = rng.standard_normal((max(size // 100, 10), _RANK), dtype=np.float32)
    for start in range(0, size, 100_000):
        count = min(100_000, size - start)
        cloud = centres[rng.integers(0, len(centres), count)]
        cloud = cloud + 0.6 * rng.standard_normal((count, _RANK), dtype=np.float32)
        rest = rng.standard_normal((count, DIMENSION), dtype=np.float32) / np.sqrt(DIMENSION)
        made[start : start + count] = _unit(cloud @ basis + rest)
    made.flush()
    del made
    opened: np.memmap[Any, Any] = np.load(file, mmap_mode="r")
    return opened


def _unit(values: Floats) -> Floats:
    unit: Floats = values / np.linalg.norm(values, axis=1, keepdims=True)
    return unit


def _exact(vectors: Floats, queries: Floats, depth: int) -> np.ndarray[Any, Any]:
    """The rows of the most similar vectors, all of them compared."""
    rows = np.empty((len(queries), 0), dtype=np.int64)
    scores = np.empty((len(queries), 0), dtype=np.float32)
    for start in range(0, len(vectors), 200_000):
        here = queries @ np.asarray(vectors[start : start + 200_000]).T
        best = np.argpartition(-here, depth, axis=1)[:, :depth]
        rows = np.hstack([rows, best + start])
        scores = np.hstack([scores, np.take_along_axis(here, best, axis=1)])
        order = np.argsort(-scores, axis=1)[:, :depth]
        rows = np.take_along_axis(rows, order, axis=1)
        scores = np.take_along_axis(scores, order, axis=1)
    return rows


def _median(search: Callable[[Any], Any], questions: list[Any]) -> float:
    times = []
    for one in questions:
        began = time.perf_counter()
        search(one)
        times.append(1000 * (time.perf_counter() - began))
    return round(float(np.median(times)), 2)


STEPS: dict[str, tuple[Step, tuple[int, ...]]] = {
    "mine-amie": (mine_amie, (10**4, 10**5, 10**6, 10**7, 3 * 10**7)),
    "mine-file": (mine_file, (10**4, 10**5, 10**6, 10**7, 3 * 10**7)),
    "mine-tlogic": (mine_tlogic, (10**4, 10**5, 10**6, 10**7, 3 * 10**7)),
    "encode": (encode, (10**3, 10**4, 10**5)),
    "index-bm25": (index_bm25, (10**4, 10**5, 10**6)),
    "index-dense": (index_dense, (10**4, 10**5, 10**6, 10**7)),
}
"""What is measured, and of which sizes."""
