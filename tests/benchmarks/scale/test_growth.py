"""Growth is measured, goes on where it stopped, and is carried on by its own figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale.__main__ import main


def test_rows_are_measured_once_and_carried_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("faiss")
    run = ["run", "--out", str(tmp_path), "--steps", "index-dense", "mine-amie", "--sizes", "2000"]
    assert main(run) == 0
    first = json.loads((tmp_path / "growth.json").read_text())["rows"]
    assert [row["step"] for row in first] == ["index-dense", "mine-amie"]
    assert first[0]["recall@10"] > 0.95 and first[0]["peak_mb"] > 50 and first[1]["rules"] > 5
    assert main([*run, "8000"]) == 0
    rows = json.loads((tmp_path / "growth.json").read_text())["rows"]
    assert rows[:2] == first and len(rows) == 4, "what stands is not measured again"
    table = (tmp_path / "growth.md").read_text()
    assert "| mine-amie | 8,000 | 1 |" in table and "On paper" in table
    assert (tmp_path / "growth.png").stat().st_size > 10_000
    capsys.readouterr()
    assert main(["run", "--out", str(tmp_path), "--steps", "index-dnese"]) == 2
    assert "index-dense" in capsys.readouterr().err
