"""The benchmark of extraction: a small run, and the page that shows the committed one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.extraction.__main__ import main
from rulerag.synthetic import PARTS

ROOT = Path(__file__).resolve().parents[3]


def test_a_small_world_gives_every_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--worlds", "4", "--facts", "600", "--seeds", "5", "--out", str(tmp_path)]) == 0
    (world,) = json.loads((tmp_path / "extraction.json").read_text())["worlds"]
    assert list(world["parts"]) == list(PARTS)
    for rows in world["parts"].values():
        assert set(rows) == {"labels", "patterns", "facts"}
        assert rows["labels"]["f1"] <= rows["patterns"]["f1"]
    seen = world["parts"]["seen"]
    assert seen["patterns"]["f1"] > 1.5 * seen["labels"]["f1"] > 0
    table = (tmp_path / "extraction.md").read_text()
    assert table.count("\n| 4 | ") == 8
    assert "| 4 | seen | patterns |" in capsys.readouterr().out


def test_the_page_shows_what_was_measured() -> None:
    page = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
    measured = (ROOT / "benchmarks" / "results" / "extraction" / "extraction.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith(tuple(f"| {p} |" for p in PARTS))]
    assert len(rows) == 13
    assert set(rows) <= set(measured.splitlines())
