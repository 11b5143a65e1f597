"""The figures of encoders measure what they say, on sizes that take no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import embeddings
from benchmarks.embeddings import encoders, main, measure
from benchmarks.speed.retrieval_training import training_dataset
from rulerag.io import read_json
from rulerag.retrieval.dense.encoders import NANO_ENCODER
from rulerag.ruleqa import RuleQADataset

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset() -> RuleQADataset:
    return training_dataset(1500)


def test_encoders_take_turns_over_the_same_documents(
    dataset: RuleQADataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "_BLOCK", 100)
    documents = list(dataset.corpus)[:250]
    asked: dict[str, list[int]] = {}
    encode = encoders(NANO_ENCODER)

    def spied(name: str) -> embeddings.Encode:
        def run(block: Any) -> Any:
            asked.setdefault(name, []).append(len(block))
            return encode[name](block)

        return run

    rows = measure(documents, {name: spied(name) for name in encode})
    assert set(map(tuple, asked.values())) == {(64, 100, 100, 50)}
    assert rows["rulerag"]["largest_difference"] < 1e-5
    assert 1e-5 < rows["rulerag, bfloat16"]["largest_difference"] < 0.5
    assert rows["sentence-transformers"]["ratio"] == 1
    ours = rows["rulerag"]["documents_per_second"]
    theirs = rows["sentence-transformers"]["documents_per_second"]
    assert rows["rulerag"]["ratio"] == pytest.approx(ours / theirs)


def test_an_interrupted_measurement_goes_on(
    dataset: RuleQADataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embeddings, "_BLOCK", 50)
    documents = list(dataset.corpus)[:150]
    calls: list[int] = []

    def counted(block: Any) -> Any:
        calls.append(len(block))
        if len(calls) == 7:  # two to begin with, then three of two sides
            raise KeyboardInterrupt
        return np.zeros((len(block), 2), dtype=np.float32)

    encode = {"sentence-transformers": counted, "rulerag": counted}
    with pytest.raises(KeyboardInterrupt):
        measure(documents, encode, tmp_path / "part.json")
    assert len(read_json(tmp_path / "part.json")["blocks"]) == 2
    calls.append(0)
    before = len(calls)
    assert set(measure(documents, encode, tmp_path / "part.json")) == set(encode)
    assert len(calls) - before == 4


def test_the_command_writes_figures(
    dataset: RuleQADataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))
    dataset.save(tmp_path / "data")
    out = tmp_path / "out"
    options = ["--dataset", str(tmp_path / "data"), "--encoder", NANO_ENCODER, "--sample", "40"]
    assert main([*options, "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["encoding.json", "encoding.md"]
    figures = read_json(out / "encoding.json")
    assert figures["encoder"] == NANO_ENCODER
    shown = capsys.readouterr().out
    assert all(name in shown for name in figures["rows"])
