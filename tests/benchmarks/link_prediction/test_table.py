"""The table: one row measured for real, rows that are there are kept, bad names are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.link_prediction.table import ROWS, LinkRow, main


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LinkRow:
    """A row over a small graph; everybody answers whoever asks, a day later."""
    folder = tmp_path / "data" / "talks"
    folder.mkdir(parents=True)
    facts = [(f"p{i}", "asks", f"q{i}", t) for i in range(10) for t in range(0, 20, 2)]
    facts += [(f"q{i}", "answers", f"p{i}", t) for i in range(10) for t in range(1, 20, 2)]
    facts.sort(key=lambda fact: fact[3])
    for name, part in (("train", facts[:150]), ("valid", facts[150:160]), ("test", facts[160:])):
        lines = ("\t".join(map(str, fact)) + "\n" for fact in part)
        (folder / f"{name}.txt").write_text("".join(lines))
    monkeypatch.setenv("RULERAG_DATA", str(tmp_path / "data"))
    return LinkRow(name="talks", graph="talks", rules="mined", arguments=("--miner", "tlogic"))


def test_a_row_is_measured_once(
    row: LinkRow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["--out", str(out)], rows=[row]) == 0
    path = out / row.name / "metrics.json"
    result = json.loads(path.read_text())
    assert result["metrics"]["hits@1"] == 1.0
    assert str(tmp_path) not in path.read_text()
    lines = (out / "table.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("| talks |")]
    assert "100.00" in line
    columns = [line.count("|") for line in lines if line.startswith("|")]
    assert len(set(columns)) == 1
    result["num_rules"] = 123456
    path.write_text(json.dumps(result))
    capsys.readouterr()
    assert main(["--out", str(out)], rows=[row]) == 0
    assert "123,456" in capsys.readouterr().out


def test_names_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert main(["--out", str(tmp_path), "--rows", "yago-tlogic-noisy"]) == 2
    assert "yago-tlogic-noisy-or" in capsys.readouterr().err


def test_a_failed_run_says_why(
    row: LinkRow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "talks" / "train.txt").unlink()
    assert main(["--out", str(tmp_path / "out")], rows=[row]) == 2
    assert "talks" in capsys.readouterr().err
