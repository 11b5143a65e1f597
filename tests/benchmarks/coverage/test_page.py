"""The page shows the committed figures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.coverage.__main__ import table
from rulerag.io import read_json

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_shows_the_committed_figures() -> None:
    files = sorted((ROOT / "benchmarks/results/coverage").glob("*.json"))
    shown = table([read_json(file) for file in files])
    assert files and shown in (ROOT / "docs/other-benchmarks.md").read_text(encoding="utf-8")
    assert shown in (ROOT / "benchmarks/results/coverage/table.md").read_text(encoding="utf-8")
