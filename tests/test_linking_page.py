"""The page about questions in one's own words: its blocks print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import ROOT, printed_and_shown

PAGE = ROOT / "docs" / "linking.md"


def test_the_page_prints_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = list(printed_and_shown(PAGE))
    assert len(pairs) == 3
    for printed, shown in pairs:
        assert printed == shown


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("linking", r"ruleqa-. "),
        ("language-model", "ruleqa-.-validation"),
        ("metaqa", "(?:one|two) hop"),
    ],
)
def test_every_figure_is_measured(table: str, rows: str) -> None:
    measured = (ROOT / "benchmarks" / "results" / "linking" / f"{table}.md").read_text("utf-8")
    shown = re.findall(rf"^\| {rows}.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown and set(shown) <= set(measured.splitlines())
