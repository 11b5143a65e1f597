"""``--ray``: the same command on a cluster writes the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rulerag.assembly import spread
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks, though there are few queries."""
    monkeypatch.setattr(spread, "AT_ONCE", 7)
    monkeypatch.setattr("rulerag.extraction.extractor._PART", 50)
    monkeypatch.setattr("rulerag.evaluation.link_prediction.protocol._PART", 40)


def both(rulerag: Run, tmp_path: Path, *words: object) -> tuple[Path, Path]:
    """What a command writes here, and on the cluster."""
    for name, ray in (("here", ()), ("there", ("--ray", "local"))):
        done = rulerag(*words, "--out", tmp_path / name, *ray)
        assert done.code == 0, done.err
    return tmp_path / "here", tmp_path / "there"


@pytest.mark.parametrize(
    "words",
    [
        ("retrieve", "{data}", "--rules", "guided"),
        ("retrieve", "{data}", "--rules", "guided", "--union"),
        ("answer", "{data}"),
        ("mine", "{graph}"),
    ],
)
def test_a_file_is_that_of_one_process(
    words: tuple[str, ...], rulerag: Run, tmp_path: Path, dated: Path, graphs: dict[str, Path]
) -> None:
    filled = [word.format(data=dated, graph=graphs["temporal"]) for word in words]
    here, there = both(rulerag, tmp_path, *filled)
    assert here.read_bytes() == there.read_bytes()


def read_run(file: Path) -> dict[str, tuple[tuple[str, ...], list[float]]]:
    """The ids and the scores of each query."""
    rows: dict[str, list[list[str]]] = {}
    for line in file.read_text().splitlines():
        rows.setdefault(line.split()[0], []).append(line.split())
    return {q: (tuple(r[2] for r in own), [float(r[4]) for r in own]) for q, own in rows.items()}


def figures(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return {key: found[key] for key in ("metrics", "num_queries", "config")}


def test_a_run_is_that_of_one_process(rulerag: Run, tmp_path: Path, dated: Path) -> None:
    here, there = both(rulerag, tmp_path, "evaluate", "bm25-guided__symbolic", "--dataset", dated)
    for name in ("predictions.jsonl", "run.trec", "config.yaml"):
        assert (here / name).read_bytes() == (there / name).read_bytes()
    assert figures(here) == figures(there)
    assert json.loads((there / "metrics.json").read_text())["seconds"]["retrieve"] > 0


def test_links_are_predicted_alike(rulerag: Run, tmp_path: Path, graphs: dict[str, Path]) -> None:
    for kind, miner in (("temporal", "tlogic"), ("static", "amie")):
        words = "link-prediction", graphs[kind], "--miner", miner
        here, there = both(rulerag, tmp_path / kind, *words)
        assert figures(here) == figures(there)


def test_texts_are_read_alike(
    rulerag: Run, tmp_path: Path, dated: Path, graphs: dict[str, Path]
) -> None:
    rows = [json.loads(line) for line in (dated / "corpus.jsonl").read_text().splitlines()]
    texts = tmp_path / "texts.md"
    texts.write_text("\n\n".join(row["text"] + "." for row in rows[:300]))
    here, there = both(rulerag, tmp_path, "extract", texts, "--seeds", graphs["temporal"])
    for file in here.iterdir():
        assert file.read_bytes() == (there / file.name).read_bytes()
    assert len((here / "train.csv").read_text().splitlines()) > 200


def test_vectors_find_the_same(
    rulerag: Run, tmp_path: Path, dated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    assert rulerag("index", dated, "--retriever", "dense", "--out", tmp_path / "index").code == 0
    (stored,) = (tmp_path / "cache" / "embeddings").glob("*/vectors.npy")
    alone = np.load(stored)
    stored.unlink()
    again = "index", dated, "--retriever", "dense", "--ray", "local", "--out", tmp_path / "again"
    assert rulerag(*again).code == 0
    np.testing.assert_allclose(np.load(stored), alone, atol=1e-5)
    words = "retrieve", dated, "--retriever", "dense", "--rules", "guided"
    here, there = map(read_run, both(rulerag, tmp_path, *words))
    assert here.keys() == there.keys()
    for query in here:
        assert here[query][0] == there[query][0]
        np.testing.assert_allclose(here[query][1], there[query][1], atol=1e-5)


def test_what_is_wrong_is_said_as_in_one_process(rulerag: Run, tmp_path: Path, dated: Path) -> None:
    out = tmp_path / "out"
    for words in (
        ("retrieve", dated, "--union", "--out", out, "--ray", "local"),
        ("retrieve", tmp_path / "nowhere", "--out", out, "--ray", "local"),
        ("evaluate", "bm25__nobody", "--dataset", dated, "--out", out, "--ray", "local"),
        ("index", dated, "--out", out, "--ray", "local"),
    ):
        done = rulerag(*words)
        assert done.code == 2 and done.err.startswith("error: "), done
        assert "Traceback" not in done.err and len(done.err.strip().splitlines()) == 1
