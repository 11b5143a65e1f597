"""The guide to questions in one's own words prints what stands there; figures are measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.natural.rewriting import wordings_of
from tests.pages import ROOT, printed_and_shown

RESULTS = ROOT / "docs" / "natural.md"


def test_the_guide_prints_what_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = list(printed_and_shown(ROOT / "docs" / "linking.md"))
    assert len(pairs) == 3
    for printed, shown in pairs:
        assert printed == shown


@pytest.mark.parametrize(
    ("table", "rows"), [("natural/natural", r"ruleqa-. "), ("linking/metaqa", "(?:one|two) hop")]
)
def test_every_figure_is_measured(table: str, rows: str) -> None:
    measured = (ROOT / "benchmarks" / "results" / f"{table}.md").read_text("utf-8")
    shown = re.findall(rf"^\| {rows}.*$", RESULTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown and set(shown) <= set(measured.splitlines())


def test_the_examples_are_wordings() -> None:
    text = re.sub(r"\s+", " ", RESULTS.read_text(encoding="utf-8"))
    known = wordings_of("Consult")
    for example, templates in (
        ("China sat down for talks with Iran", known.statements),
        ("Iran was consulted by China", known.statements),
        ("With whom did China hold consultations", known.questions),
    ):
        assert example in text
        filled = {t.replace("{x}", "China").replace("{y}", "Iran").rstrip("?") for t in templates}
        assert example in filled
