"""The page: whole, escaped, offline, readable without colours and without sight."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from rulerag.errors import OutputError
from rulerag.explanation.similarity import SimilarityAttribution, similarity_attribution

VOID = {"meta", "br", "img", "link", "input", "hr"}
EVIL = "<script>alert('x')</script> Paris & Lyon are <b>big</b> cities ]]>\x07\x1b[2J \"q\""


class Outline(HTMLParser):
    """Tags by how often they stand, the text, and that every tag is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)) and not any(n.startswith("on") for n in names)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.text += data


@pytest.fixture(scope="module")
def strange() -> SimilarityAttribution:
    documents = [
        {"title": "<img src=x onerror=alert(1)>", "text": EVIL},
        "القاهرة عاصمة مصر. الرياض بعيدة.",
        "東京は日本の首都です。大阪は大都市です。",
    ]
    return similarity_attribution(f"Xyzzy. القاهرة عاصمة مصر. 東京は首都です。 {EVIL}", documents)


def test_scripts_of_all_kinds_are_shown_and_never_run(strange: SimilarityAttribution) -> None:
    page = strange.to_html()
    found = Outline(page)
    assert not {"script", "img", "b", "link", "iframe"} & found.tags.keys()
    assert not re.search(r"https?:|url\(|@import|\ssrc=", re.sub(r"&lt;.*?&gt;", "", page))
    assert "<script>alert('x')</script> Paris & Lyon" in found.text
    assert "القاهرة عاصمة مصر." in found.text and "東京は日本の首都です。" in found.text
    assert 'dir="auto"' in page
    assert ElementTree.fromstring(strange.to_svg()).tag.endswith("svg")


def test_every_picture_has_its_table_and_says_the_numbers_in_words(
    strange: SimilarityAttribution,
) -> None:
    found = Outline(strange.to_html())
    assert found.tags["svg"] == 2 and found.tags["table"] == 2  # the flow for two widths
    assert found.tags["details"] == 2 and found.tags["caption"] == 2
    marks = re.findall(r'<mark class="s\d">.*?</mark>', strange.to_html(), re.DOTALL)
    shown = [mark for mark in marks if "bdi" in mark]
    assert len(marks) - len(shown) == 3  # the legend
    assert len(shown) >= 3 and all(re.search(r"\d %</bdi>", mark) for mark in shown)
    assert "nothing is closer than anything else" in found.text


def test_two_hundred_sources_are_folded_and_nothing_is_lost() -> None:
    documents = [
        {"title": f"Report {n}", "text": f"In town{n} the mayor opened a bridge. Rain {n} fell."}
        for n in range(200)
    ]
    answer = " ".join(f"The mayor of town{n} opened it." for n in range(0, 60, 3))
    record = similarity_attribution(answer, documents)
    page = record.to_html()
    found = Outline(page)
    assert len(page) < 500_000
    assert "188 other documents" in found.text and "9 further sentences" in found.text
    assert all(f"[{n + 1}] Report {n}" in found.text for n in range(200))
    assert found.tags["svg"] == 2 and len(re.findall("<rect", page)) == 2 * (12 + 13)


def test_a_book_fits_into_two_megabytes() -> None:
    text = " ".join(
        f"In {1000 + n} the town of place{n % 97} had so many people as word{n} says here."
        for n in range(7200)
    )
    assert len(text.split()) > 100_000
    assert len(similarity_attribution("Place3 had people in 1003.", text).to_html()) < 2_000_000


def test_files_are_written_whole_or_refused(strange: SimilarityAttribution, tmp_path: Path) -> None:
    assert strange.to_html(tmp_path / "a.html") == (tmp_path / "a.html").read_text("utf-8")
    assert strange.to_svg(tmp_path / "a.svg") == (tmp_path / "a.svg").read_text("utf-8")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        strange.to_html(tmp_path / "file" / "a.html")


def test_a_terminal_shows_numbers_beside_marks(strange: SimilarityAttribution) -> None:
    out = StringIO()
    Console(file=out, width=80, color_system=None).print(strange)
    told = " ".join(out.getvalue().split())
    assert "Similarity is not causation" in told and "القاهرة عاصمة مصر. 33 %" in told
    assert "[1] <img src=x onerror=alert(1)>" in told and "\x1b" not in told


def test_a_notebook_gets_the_same_without_a_page_around_it(strange: SimilarityAttribution) -> None:
    fragment = strange._repr_html_()
    style, _, body = fragment.partition("</style>")
    assert style.lstrip().startswith("<style") and "<html" not in fragment
    assert body.strip() in strange.to_html() and style.strip() in strange.to_html()
