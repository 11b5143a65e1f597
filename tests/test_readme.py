"""The README says what the code does: its Python runs, its tables are the committed results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_prints_what_the_readme_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.S).groups()
    assert len(code.strip().splitlines()) <= 15
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    without_seconds = re.compile(r"asked in [\d.]+ s")
    assert without_seconds.sub("", printed).strip() == without_seconds.sub("", shown).strip()


def test_the_tables_are_the_committed_results() -> None:
    table = (ROOT / "benchmarks/results/ruleqa-i/table.md").read_text(encoding="utf-8")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) >= 14
    for row in rows:
        assert row in README


def test_every_link_to_a_file_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
