"""The page about RuleQA in prose shows figures that were measured."""

from __future__ import annotations

import re

from benchmarks.natural.rewriting import wordings_of
from tests.pages import ROOT

PAGE = ROOT / "docs" / "natural.md"


def test_every_figure_is_measured() -> None:
    measured = (ROOT / "benchmarks" / "results" / "natural" / "natural.md").read_text("utf-8")
    shown = re.findall(r"^\| ruleqa-.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown and set(shown) <= set(measured.splitlines())


def test_the_examples_are_wordings() -> None:
    text = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    known = wordings_of("Consult")
    for example, templates in (
        ("China sat down for talks with Iran", known.statements),
        ("Iran was consulted by China", known.statements),
        ("With whom did China hold consultations", known.questions),
    ):
        assert example in text
        filled = {t.replace("{x}", "China").replace("{y}", "Iran").rstrip("?") for t in templates}
        assert example in filled
