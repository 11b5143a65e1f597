"""Every view of an explanation on hard inputs: valid, escaped, small, with its table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

import rulerag
from rulerag.errors import ConfigError, ExplanationError, RuleRAGError
from rulerag.explanation.any_answer import Why
from rulerag.explanation.any_answer.why import PICTURES
from rulerag.explanation.report import AnswerExplanation, explain_answer, regions_page
from rulerag.types import (
    Answer,
    Completion,
    Document,
    GenerationRequest,
    Query,
    ScoredDocument,
)
from tests.fakes import SelfExplainer

EVIL = '<script>alert(1)</script> & "x" <img src=x onerror=y> \x07\x1b[31m </svg></style>'

CASES: Mapping[str, tuple[str, list[str]]] = {
    "plain": ("Rome is the capital.", ["Rome is the capital of Italy.", "Paris is far.", "Hm."]),
    "script": (f"{EVIL} is so.", [f"{EVIL} is so, they say.", EVIL, f"More of {EVIL}"]),
    "right to left": (
        "القاهرة عاصمة مصر.",
        ["القاهرة عاصمة مصر وتقع على النيل.", "ירושלים עיר גדולה.", "باريس بعيدة."],
    ),
    "no spaces": (
        "東京は日本の首都です。",
        ["東京は日本の首都です。大きい。", "กรุงเทพเป็นเมืองหลวง", "遠い。"],
    ),
    "empty context": ("Rome is the capital.", []),
    "empty documents": ("Rome is the capital.", ["", "  "]),
    "empty answer": ("", ["Rome is the capital of Italy.", "Paris is far."]),
    "one sentence": ("Rome is the capital.", ["Rome is the capital of Italy."]),
    "200 documents": (
        "Rome is the capital.",
        ["Rome is the capital of Italy.", *(f"Filler number {n}." for n in range(199))],
    ),
    "100k words": (
        "Rome is the capital.",
        ["Rome is the capital of Italy. " + "Words that say little follow here. " * 16_700, "Far."],
    ),
}


class Reader(SelfExplainer):
    """Gives the answer of a case where its first document is there, at least its first word."""

    def __init__(self, said: str, first: str) -> None:
        self.said, self.word = said, first.split()[0] if first.split() else first

    def _written(self, request: GenerationRequest) -> str:
        holds = any(self.word in document.text for document in request.documents)
        named = f"{self.word}, nowhere, of Italy Words"
        return f"Thought: t\nKeywords: {named}\nShort answer: {self.said if holds else 'no'}"


@cache
def why(case: str) -> Why:
    said, documents = CASES[case]

    def answer(question: str, kept: list[str]) -> str:
        return said if documents and documents[0] in kept else ""

    given = answer if documents else lambda question, kept: said
    return rulerag.explain(given, EVIL if case == "script" else "What is it?", documents)


@cache
def regions(case: str) -> AnswerExplanation:
    said, documents = CASES[case]
    scored = tuple(
        ScoredDocument(Document(f"d{n} {EVIL}" if case == "script" else f"d{n}", text), 1.0, n + 1)
        for n, text in enumerate(documents)
    )
    reader = Reader(said, documents[0] if documents else "")
    item = Answer(Query("q", "What is it?"), Completion(said), scored)
    return explain_answer(item, reader, explainer="regions")


VIEWS: Mapping[str, Callable[[str], str]] = {
    "why page": lambda case: why(case).to_html(),
    **{kind: lambda case, k=kind: why(case).picture(k).to_html() for kind in PICTURES},  # type: ignore[misc]
    "regions page": lambda case: regions_page([regions(case)], [("dataset", EVIL)]),
    "similarity page": lambda case: rulerag.similarity_attribution(*CASES[case]).to_html(),
}

NOTHING = {  # what is refused by name, and not drawn empty
    **{(view, "empty context"): ConfigError for view in ("flow", "lattice", "bars")},
    **{(view, "empty documents"): ConfigError for view in ("lattice", "bars")},
    **{("regions page", case): ExplanationError for case in ("empty context", "empty documents")},
    **{("similarity page", case): RuleRAGError for case in CASES if case.startswith("empty")},
}


class Page(HTMLParser):
    """Checks that elements close in their order, and keeps what matters."""

    ALONE = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text.append(data)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("view", VIEWS)
def test_it_is_valid_small_and_has_its_table(view: str, case: str) -> None:
    if wrong := NOTHING.get((view, case)):
        with pytest.raises(wrong):
            VIEWS[view](case)
        return
    made = VIEWS[view](case)
    page = Page()
    page.feed(made)
    page.close()
    assert not page.open
    tags = [tag for tag, _ in page.seen]
    assert not {"script", "img", "iframe", "link"} & set(tags)
    assert "http://" not in made and "https://" not in made and "\x07" not in made
    for tag, held in page.seen:
        assert not any(key.startswith("on") for key in held), (tag, held)
        for key in ("href", "src"):
            assert (held.get(key) or "#").startswith("#")
        if tag == "svg":
            assert held.get("role") in ("img", "group") and held.get("aria-label")
    ids = [held["id"] for _, held in page.seen if "id" in held]
    assert len(ids) == len(set(ids))
    if case == "plain" and view != "similarity page":
        wanted = {"why page": {"svg", "mark"}, "regions page": {"mark", "strong"}}
        marked = {"mark"} if view in ("context", "shades") else {"svg"}
        assert wanted.get(view, marked) <= set(tags)
    if "svg" in tags or "mark" in tags:
        assert "summary" in tags and tags.count("tr") > 1
    assert len(made.encode()) < 2_000_000
    said = "".join(page.text)
    if case == "script" and view != "certainty":  # which has numbers of documents alone
        assert "<script>" in said and "alert(1)" in said
    if case == "right to left" and view in ("why page", "context", "regions page"):
        assert 'dir="auto"' in made and "القاهرة" in said


@pytest.mark.parametrize("view", ["why page", "context", "regions page"])
def test_of_a_long_text_what_counts_is_shown_and_the_gaps_are_said(view: str) -> None:
    made = VIEWS[view]("100k words")
    assert len(made) < 200_000 and "words that are not shown" in made
    assert "Rome" in made and "is the capital of Italy" in made


@pytest.mark.parametrize("case", CASES)
def test_what_stands_in_the_record_makes_the_same_views(case: str) -> None:
    read = Why.from_json(json.dumps(why(case).to_json()))
    assert read.to_html() == why(case).to_html()
    if case.startswith("empty "):
        return
    again = AnswerExplanation.from_json(json.loads(json.dumps(regions(case).to_json())))
    assert regions_page([again]) == regions_page([regions(case)])


@pytest.mark.parametrize("kind", PICTURES)
def test_it_is_written_as_a_page_of_its_own(kind: str, tmp_path: Path) -> None:
    picture = why("script").picture(kind)
    page = Page()
    page.feed(picture.save(tmp_path / "view.html").read_text(encoding="utf-8"))
    assert not page.open and page.seen[0][0] == "html"
    with pytest.raises(ConfigError, match=r"\.gif"):
        picture.save(tmp_path / "view.gif")
