"""Everyday sentences: what is read of them, and the figures that the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.extraction.everyday import main
from rulerag.io import read_json

ROOT = Path(__file__).resolve().parents[3]


def test_the_committed_figures_are_those_of_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    assert "patterns  precision" in capsys.readouterr().out
    measured = read_json(tmp_path / "everyday.json")["patterns"]
    committed = read_json(ROOT / "benchmarks/results/extraction/everyday.json")
    assert measured == pytest.approx(committed["patterns"])
    assert measured["f1"] > 0.5 and measured["precision"] > 0.7
    page = (ROOT / "docs/own-data.md").read_text(encoding="utf-8")
    assert all(f"{100 * row['f1']:.1f}" in page for row in committed.values())
