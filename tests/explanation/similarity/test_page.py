"""What is similar, shown: whole, escaped, offline, readable without colours and without sight."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from rulerag.errors import OutputError
from rulerag.explanation.similarity import SimilarityAttribution, similarity_attribution
from tests.outline import EVIL, Outline


@pytest.fixture(scope="module")
def strange() -> SimilarityAttribution:
    documents = [
        {"title": EVIL, "text": f"Paris and Lyon. {EVIL}"},
        "القاهرة عاصمة مصر. الرياض بعيدة.",
        "東京は日本の首都です。大阪は大都市です。",
    ]
    return similarity_attribution(f"Xyzzy. القاهرة عاصمة مصر. 東京は首都です。 {EVIL}", documents)


def test_scripts_of_all_kinds_are_shown_and_never_run(
    strange: SimilarityAttribution, tmp_path: Path
) -> None:
    page = Outline(strange.to_html(tmp_path / "a.html"))
    assert "<script>alert('x')</script> &" in page.text and page.tags["h1"] == 1
    assert "القاهرة عاصمة مصر." in page.text and "東京は日本の首都です。" in page.text
    assert page.tags["svg"] == 2 and page.tags["table"] == page.tags["details"] == 3
    assert "nothing is closer than anything else" in page.text
    tags = re.findall(r'<mark class="shade\d"><span class="tag">[\d.]+ %', strange.to_html())
    assert len(tags) >= 3
    assert Outline(strange._repr_html_()).text == page.text.removeprefix(
        "What the answer reads like "
    )
    assert ElementTree.fromstring(strange.to_svg(tmp_path / "a.svg")).tag.endswith("svg")
    with pytest.raises(OutputError):
        strange.to_html(tmp_path / "a.svg" / "a.html")


def test_two_hundred_sources_are_folded_and_nothing_is_lost() -> None:
    documents = [
        {"title": f"Report {n}", "text": f"In town{n} the mayor opened a bridge. Rain {n} fell."}
        for n in range(200)
    ]
    answer = " ".join(f"The mayor of town{n} opened it." for n in range(0, 60, 3))
    page = similarity_attribution(answer, documents).to_html()
    outline = Outline(page)
    assert len(page) < 1_000_000 and "188 other documents" in outline.text
    assert "188 others" in outline.text and "8 others" in outline.text
    assert all(f"[{n + 1}] Report {n} " in outline.text for n in range(200))


def test_a_terminal_shows_numbers_beside_marks(strange: SimilarityAttribution) -> None:
    out = StringIO()
    Console(file=out, width=80, color_system=None).print(strange)
    words = " ".join(out.getvalue().split())
    assert "Similarity is not causation" in words and "[33 %] القاهرة عاصمة مصر." in words
    assert "[1] <script>" in words and "\x1b" not in words
