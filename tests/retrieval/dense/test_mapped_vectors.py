"""Saved vectors stay on disk: what a fresh process holds after opening an index of 312 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.arrays import Floats
from rulerag.retrieval.dense import DenseRetriever
from rulerag.types import Document

ROOT = Path(__file__).resolve().parents[3]
SIZE, DIMENSION, QUERIES = 20_000, 4096, 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory as Linux tells it"),
]


class Waves:
    """Made-up vectors: a number is the seed of its own."""

    fingerprint = "waves"
    dimension = DIMENSION

    def encode(self, texts: Sequence[str]) -> Floats:
        seeds = [np.random.default_rng(int(text)) for text in texts]
        return np.stack([seed.standard_normal(DIMENSION, dtype=np.float32) for seed in seeds])


DOCUMENTS = [Document(f"d{i}", str(i)) for i in range(SIZE)]

# Opens an index, and tells the growth in MB of what the process holds, and of how much of
# that is its own, not of a file; then what it finds.
OPENED = """
import json, sys, time
import faiss
from rulerag.retrieval.dense import DenseRetriever
from tests.retrieval.dense.test_mapped_vectors import DOCUMENTS, QUERIES, Waves

def held():
    fields = dict(line.split(":") for line in open("/proc/self/status"))
    return [int(fields[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "RssAnon")]

encoder = Waves()
asked = encoder.encode([str(-i % 7919) for i in range(1, QUERIES + 1)])
how, place = sys.argv[1:]
before = held()
retriever = DenseRetriever.load(place, DOCUMENTS, encoder, mmap=how == "map")
opened = held()
found = retriever.search_vectors(asked, 20)
after = held()
start = time.process_time()
retriever.search_vectors(asked, 20)
print(json.dumps({
    "opened": [b - a for a, b in zip(before, opened)],
    "searched": [b - a for a, b in zip(before, after)],
    "seconds": time.process_time() - start,
    "rows": found.rows.tolist(),
    "scores": found.scores.tolist(),
}))
"""


def opened(how: str, place: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", OPENED, how, str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    values: dict[str, Any] = json.loads(done.stdout)
    return values


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors")


@pytest.mark.parametrize("index", ["Flat", "SQ8"])
def test_opening_reads_no_vectors_and_finds_the_same(
    index: str, cache: Path, tmp_path: Path
) -> None:
    DenseRetriever(DOCUMENTS, Waves(), cache_dir=cache, index=index).save(tmp_path / "index")
    size = sum(file.stat().st_size for file in (tmp_path / "index").iterdir()) / 1e6
    mapped, read = opened("map", tmp_path / "index"), opened("read", tmp_path / "index")
    assert mapped["opened"][0] < 10
    # How many pages of the file count as held after a search is the system's choice.
    assert mapped["searched"][1] < 20
    assert read["opened"][0] > 0.9 * size
    assert mapped["seconds"] < 3 * read["seconds"] + 0.2  # no copy of the whole for every query
    assert (mapped["rows"], mapped["scores"]) == (read["rows"], read["scores"])
