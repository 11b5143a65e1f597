"""The page and the pictures of an explained answer on hard inputs: whole, escaped, small."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import pytest

import rulerag
from rulerag.errors import ConfigError, ExplanationError
from rulerag.explanation.explaining import Why, explain_answer, plain_rule
from rulerag.explanation.explaining.page import exact_lattice, page
from rulerag.explanation.explaining.why import PICTURES
from rulerag.types import (
    Answer,
    Completion,
    Document,
    GenerationRequest,
    Query,
    ScoredDocument,
)
from tests.fakes import PlantedGenerator, SelfExplainer, planted_answer, planted_rule
from tests.outline import EVIL, Outline

CASES: Mapping[str, tuple[str, list[str]]] = {
    "plain": ("Rome is the capital.", ["Rome is the capital of Italy.", "Paris is far.", "Hm."]),
    "script": (f"{EVIL} is so.", [f"{EVIL} is so, they say.", EVIL, f"More of {EVIL}"]),
    "other scripts": (
        "القاهرة عاصمة مصر.",
        ["القاهرة عاصمة مصر وتقع على النيل.", "東京は日本の首都です。大きい。", "กรุงเทพ"],
    ),
    "empty context": ("Rome is the capital.", []),
    "empty documents": ("Rome is the capital.", ["", "  "]),
    "empty answer": ("", ["Rome is the capital of Italy.", "Paris is far."]),
    "one sentence": ("Rome is the capital.", ["Rome is the capital of Italy."]),
    "200 documents": (
        "Rome is the capital.",
        ["Rome is the capital of Italy.", *(f"Filler number {n}." for n in range(199))],
    ),
    "long text": (
        "Rome is the capital.",
        ["Rome is the capital of Italy. " + "Words that say little follow here. " * 3_000, "Far."],
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
        return said if not documents or documents[0] in kept else ""

    return rulerag.explain(answer, EVIL if case == "script" else "What is it?", documents)


@cache
def regions(case: str) -> Why:
    said, documents = CASES[case]
    scored = tuple(
        ScoredDocument(Document(f"d{n} {EVIL}" if case == "script" else f"d{n}", text), 1.0, n + 1)
        for n, text in enumerate(documents)
    )
    reader = Reader(said, documents[0] if documents else "")
    item = Answer(Query("q", "What is it?"), Completion(said), scored)
    return explain_answer(item, reader, explainer="regions")


VIEWS: Mapping[str, Callable[[str], str]] = {
    "page": lambda case: why(case).to_html(),
    "regions": lambda case: regions(case).to_html(),
    **{kind: lambda case, k=kind: why(case).picture(k).to_html() for kind in PICTURES},  # type: ignore[misc]
}
NOTHING = {  # what is refused by name, and not drawn empty
    **{(view, "empty context"): ConfigError for view in ("flow", "lattice", "bars")},
    **{(view, "empty documents"): ConfigError for view in ("lattice", "bars")},
    **{("regions", case): ExplanationError for case in ("empty context", "empty documents")},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("view", VIEWS)
def test_it_is_whole_harmless_and_small(view: str, case: str) -> None:
    if wrong := NOTHING.get((view, case)):
        with pytest.raises(wrong):
            VIEWS[view](case)
        return
    made = VIEWS[view](case)
    outline = Outline(made)
    assert len(made.encode()) < 2_000_000
    if outline.tags["svg"] or outline.tags["mark"]:
        assert outline.tags["summary"] and outline.tags["tr"] > 1
    if case == "script":
        assert "<script>alert('x')" in outline.text
    if case == "long text" and view in ("page", "context", "regions"):
        assert len(made) < 200_000 and "words that are not shown" in outline.text
        assert "Rome" in outline.text and "is the capital of Italy" in outline.text


@pytest.mark.parametrize("case", CASES)
def test_what_stands_in_the_record_makes_the_same_page(case: str) -> None:
    for made in (why, *([] if case in ("empty context", "empty documents") else [regions])):
        again = Why.from_json(json.dumps(made(case).to_json()))
        assert again.to_html() == made(case).to_html()
        assert Outline(again._repr_html_()).tags["html"] == 0


def test_regions_are_marked_with_the_words_that_they_need_and_that_were_named() -> None:
    outline = Outline(regions("plain").to_html())
    assert {"enough", "needed", "keyword"} <= set(outline.classes)
    assert "region 1: enough alone" in outline.text and "needed" in outline.text
    assert "keywords of the model" in outline.text and "a keyword in it" in outline.text


def test_the_flow_links_what_found_and_what_is_needed_and_nothing_else() -> None:
    rules = [planted_rule(name) for name in "ab"]
    found_by = [[rules[0]], [rules[0]], [rules[1]], [], [None], [rules[0]]]
    answer = planted_answer("France", found_by, rules=tuple(rules))
    generator = PlantedGenerator.dnf([["d2", "d5"], ["d3"]], yes="France", no="Spain")
    made = explain_answer(answer, generator, attribution=("shapley",))
    rows = [(one.partition("[")[2][:1], how, to) for one, how, to in made.picture("flow").rows]
    rests = [label for label, how, _ in rows if how == "is what it rests on"]
    assert rests == ["2", "3", "5"]
    assert [label for label, how, _ in rows if "no claim" in how] == ["1", "4", "6"]
    found = [(one, to[-3:]) for one, how, to in made.picture("flow").rows if how == "found"]
    assert ("the question alone", "[5]") in found and len(found) == 5
    (claim,) = made.claims
    lattice = exact_lattice(claim, made.explanation)
    assert lattice is not None
    # By hand, over 2, 3 and 5: all hold; 2+3, 3+5, 2+5 hold; 3 holds; nothing does not.
    assert [row[1:3] for row in lattice.rows] == [("1", "0"), ("3", "0"), ("1", "2"), ("0", "1")]
    assert "1 is [2], 2 is [3], 3 is [5]. The other 3 make no difference." in lattice.note
    assert exact_lattice(replace(claim, omission=claim.omission[:1]), made.explanation) is None
    assert exact_lattice(replace(claim, complete=False), made.explanation) is None
    text = Outline(page(made.explanation).html()).text
    assert "2 rules that guided the search Confidence" in text and "→ Entity 1 has a Entity" in text
    assert "Shapley (exact) in the documents" in text and "goes without [2], [3]" in text


def test_rules_are_said_without_brackets() -> None:
    text = "[Entity 1, advises, Entity 2] and [Entity 2, knows, Entity 3] leads to [Entity 1, a, b]"
    assert (
        plain_rule(text) == "Entity 1 advises Entity 2 and Entity 2 knows Entity 3 → Entity 1 a b"
    )
    assert plain_rule("if a then b") == "if a then b"
