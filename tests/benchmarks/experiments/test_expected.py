"""The numbers that experiment files expect, written from finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.experiments.expected import main, state_expected
from rulerag.composition.config import load_config
from rulerag.io import write_json

TEN, UNION = "answer_recall@10", "answer_recall@10_union"


def keep(
    folder: Path,
    name: str,
    of: int,
    generator: dict[str, Any] | None = None,
    **columns: list[float],
) -> None:
    """A run's record, and its values."""
    count = len(next(iter(columns.values())))
    means: Any = {key: float(np.mean(column)) for key, column in columns.items()}
    record = {"metrics": means, "num_queries": count, "of_queries": of}
    record |= {"seed": int(name.rpartition("-")[2]), "config": {"generator": generator or {}}}
    write_json(folder / f"{name}.json", record)
    np.savez(folder / f"{name}.values.npz", **{k: np.array(v) for k, v in columns.items()})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    rows = tmp_path / "runs" / "rows" / "ruleqa-i" / "balanced"
    read = tmp_path / "runs" / "reading" / "ruleqa-i" / "balanced"
    for place in (rows, read):
        place.mkdir(parents=True)
    keep(rows, "bm25-0", 4, **{TEN: [1, 0, 0, 0.0], UNION: [1, 1, 0, 0.0]})
    for seed, hit in enumerate((1.0, 0.0)):
        columns = {"exact_match": [hit, 1, 1, 0], "token_f1": [hit, 1, 1, 0.5]}
        keep(read, f"dense__llama-{seed}", 8, **columns)
    keep(read, "none__llama-0", 16, exact_match=[1, 0, 0, 0.0], token_f1=[1, 0, 0, 0.0])
    return tmp_path / "runs"


@pytest.fixture
def configs(tmp_path: Path) -> Path:
    folder = tmp_path / "configs"
    for part in ("expected", "datasets"):
        (folder / part).mkdir(parents=True)
    names = ("bm25__symbolic", "dense__llama", "none__llama", "bm25__hybrid")
    (folder / "methods.yaml").write_text("".join(f"{name}: {{method: x}}\n" for name in names))
    (folder / "expected" / "ruleqa-i.yaml").write_text(
        "# On the balanced query set; an old run.\nbm25__symbolic:\n"
        f"  {TEN}: {{value: 0.9, tolerance: 0.1, source: own run}}\n"
        "  exact_match: {value: 0.5, tolerance: 0.005, source: own run}\n"
        "# kept\nother__symbolic:\n  exact_match: {value: 0.1, tolerance: 0.1, source: paper}\n"
    )
    (folder / "datasets" / "ruleqa-i.yaml").write_text(
        "metadata: {benchmark: ruleqa-i}\nmethods:\n"
        "  bm25__hybrid: {generator: {weight: 0.5}}\n  other: {generator: {weight: 3}}\n"
    )
    return folder


def test_measured_numbers_are_written_and_others_stay(runs: Path, configs: Path) -> None:
    (file,) = state_expected(runs, configs)
    text = file.read_text()
    assert "# On the balanced query set; benchmarks/results/table2-retrieval holds" in text
    assert "# kept\nother__symbolic:" in text and "old run" not in text
    stated = load_config(file)
    assert list(stated) == ["bm25__symbolic", "dense__llama", "none__llama", "other__symbolic"]
    told = stated.section("bm25__symbolic").to_dict()
    values = {key: entry["value"] for key, entry in told.items()}
    assert values == {TEN: 0.25, "exact_match": 0.5, UNION: 0.5}
    assert told[TEN]["tolerance"] == 0.005
    # Tolerance grows with the sample and the seeds.
    assert "# Over 4 of 8 balanced queries, drawn by seed 0" in text and "Means of 2 seeds" in text
    drawn = stated.section("dense__llama").to_dict()["exact_match"]
    assert drawn["value"] == 0.625
    assert drawn["tolerance"] == pytest.approx(3 * np.std([0.75, 0.5], ddof=1), abs=1e-3)
    sampled = stated.section("none__llama").to_dict()["exact_match"]
    assert sampled["tolerance"] == pytest.approx(2 * np.std([1, 0, 0, 0]) / 2, abs=1e-3)
    assert state_expected(runs, configs) == [], "a second time changes nothing"


def test_a_broken_file_is_named_and_an_empty_one_is_written(
    runs: Path, configs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = configs / "expected" / "ruleqa-i.yaml"
    file.write_text("")
    assert file in state_expected(runs, configs)
    text = "bm25__symbolic:\n  a: [\n"
    file.write_text(text)
    assert main([str(runs), "--configs", str(configs)]) == 2
    assert f"{file}, line 3: not YAML" in capsys.readouterr().err
    assert file.read_text() == text
    assert main([str(configs)]) == 2
    assert "holds no finished row" in capsys.readouterr().err


def test_the_weight_that_was_tuned_is_written(runs: Path, configs: Path) -> None:
    read = runs / "reading" / "ruleqa-i" / "balanced"
    told = {"type": "hybrid", "weight": 0.05}
    keep(read, "bm25__hybrid-0", 2, told, exact_match=[1.0, 0], token_f1=[1.0, 0])
    file = configs / "datasets" / "ruleqa-i.yaml"
    assert file in state_expected(runs, configs)
    methods = load_config(file).section("methods").to_dict()
    assert methods["bm25__hybrid"] == {"generator": {"weight": 0.05}}
    assert methods["other"] == {"generator": {"weight": 3}}
