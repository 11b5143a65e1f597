"""An answer explained by regions: the record, its words, and the keywords of the model."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import ConfigError, ExplanationError, SamplingError
from rulerag.explanation.attribution import keyword_spans
from rulerag.explanation.probing import AnswerCache, is_correct
from rulerag.explanation.report import (
    AnswerExplanation,
    explain_answer,
    marked_regions,
    regions_page,
)
from rulerag.generation.prompts import PromptTemplate, SelfExplanationTemplate
from rulerag.types import (
    Answer,
    Completion,
    Document,
    GenerationRequest,
    Query,
    ScoredDocument,
)
from tests.fakes import SelfExplainer

BY: dict[str, Any] = {"explainer": "regions"}
TEXTS = ("The moon is far away.", "Rome is the capital of Italy.", "Paris lies on the Seine.")


class Reader(SelfExplainer):
    """Answers Rome where Rome and capital stand in the text; explains itself by its template."""

    def __init__(
        self, template: PromptTemplate, keywords: str = "Rome, is the capital, Lyon"
    ) -> None:
        self.template, self.keywords = template, keywords
        self.asked: list[str] = []

    def _written(self, request: GenerationRequest) -> str:
        text = " ".join(document.text for document in request.documents)
        self.asked.append(text)
        answer = "Rome" if "Rome" in text and "capital" in text else "Lyon"
        if isinstance(self.template, SelfExplanationTemplate):
            return f"Thought: t\nKeywords: {self.keywords}\nShort answer: {answer}"
        return answer


def answered(*texts: str, said: str = "Rome") -> Answer:
    documents = tuple(
        ScoredDocument(Document(f"d{n}", text), 1.0, n + 1) for n, text in enumerate(texts)
    )
    query = Query("q", "What is the capital of Italy?", answers=("Rome",))
    return Answer(query, Completion(said), documents)


def test_the_record_of_a_plain_reader() -> None:
    reader = Reader(PromptTemplate.standard())
    found = explain_answer(answered(*TEXTS), reader, explainer="regions")
    assert found.regions is not None and found.keywords is None and found.complete
    assert found.num_probes == len(reader.asked) == 1 + 3 + 5
    (region,) = found.regions.regions
    assert [group.text for group in region.keywords] == ["Rome", "the capital"]
    assert [document.id for document in found.supporting] == ["d1"]
    assert found.retained == found.omitted == () and found.full_output == "Rome"
    assert found.sentence == "1 of 3 parts is enough alone."
    assert "[needs Rome; the capital]" in str(found) and "9 requests asked in" in str(found)
    row = json.loads(json.dumps(found.to_json()))
    assert AnswerExplanation.from_json(row) == found
    assert row["settings"]["explainer"] == "regions" and row["settings"]["parts"] == 3


def test_keywords_of_a_reader_that_explains_itself(tmp_path: Path) -> None:
    reader = Reader(SelfExplanationTemplate())
    cache = AnswerCache(tmp_path / "answers.sqlite")
    found = explain_answer(answered(*TEXTS), reader, explainer="regions", cache=cache)
    assert found.keywords is not None and found.num_probes == len(reader.asked) == 1 + 3 + 5
    assert found.keywords.score == 0.75 and found.full_output == "Rome"
    assert found.keywords.keywords == (
        *(("Rome", "necessary"), ("is the capital", "straddles"), ("Lyon", "absent")),
    )
    lines = re.sub(r"  +", " ", str(found))
    assert (
        "keywords of the model: faithfulness 0.75" in lines and "not in the text: “Lyon”" in lines
    )
    again = explain_answer(answered(*TEXTS), reader, explainer="regions", cache=cache)
    assert len(reader.asked) == 9 and again.regions == found.regions


def test_a_condition_of_ones_own() -> None:
    reader = Reader(SelfExplanationTemplate())
    found = explain_answer(
        answered(*TEXTS), reader, explainer="regions", parts=1, predicate=is_correct(["Rome"])
    )
    assert found.claim == "the output is correct" and found.num_probes == 1 + 5
    assert len(found.regions.regions) == 1  # type: ignore[union-attr]


def test_no_sufficient_region_is_said() -> None:
    asked = answered("Rome is a city by the sea and it is the capital.")
    found = explain_answer(asked, Reader(SelfExplanationTemplate()), explainer="regions")
    assert found.sentence == "None of the 3 parts is enough alone: no sufficient region."
    assert "nothing to compare with" in str(found) and found.keywords.score is None  # type: ignore[union-attr]


def test_the_page_shows_the_marked_text_then_cost_then_what_is_missing() -> None:
    reader = Reader(SelfExplanationTemplate(), "Rome, is the capital, Lyon, Seine")
    found = explain_answer(answered(*TEXTS), reader, explainer="regions")
    made = marked_regions(found)
    marks = [
        (one.text[mark.start : mark.end], mark.kind) for one in made.texts for mark in one.marks
    ]
    assert marks == [
        ("Rome is the capital of Italy.", "enough"),
        *(("Rome", "needed"), ("the capital", "needed")),
        *(("Rome", "keyword"), ("is the capital", "keyword"), ("Seine.", "keyword")),
    ]
    assert [row[0] for row in made.rows] == ["D2"] * 5 + ["D3"]
    page = regions_page([found])
    assert re.sub(r"<span.*?</span>", "", page).count("<strong>Rome</strong>") == 1
    order = [page.index(t) for t in ("region 1: enough", "What it cost", "What was not found")]
    assert order == sorted(order)
    assert "9 requests in" in page and "at most 19 for 3 parts of 5 groups" in page
    assert "“is the capital”: stands across the border of two groups or parts" in page
    assert "“Seine”: stands only in a part that is not enough." in page
    assert "“Lyon”: is not in the text." in page and "0.75 of 1" in page


def test_the_page_says_that_nothing_was_found() -> None:
    asked = answered("Rome is a city by the sea and it is the capital.")
    page = regions_page([explain_answer(asked, Reader(PromptTemplate.standard()), **BY)])
    assert "none of the three parts that were asked is enough alone" in page
    assert "That is no score of 0" in page and "its prompt asks for none" in page
    reader = Reader(SelfExplanationTemplate(), keywords="Rome")
    page = regions_page([explain_answer(answered("Rome, capital", "Rome, capital"), reader, **BY)])
    assert "no necessary words" not in page
    page = regions_page([explain_answer(answered(*["Rome capital"] * 9), reader, **BY)])
    assert "Region 3 has no necessary words" in page and "is not defined" in page
    page = regions_page([explain_answer(answered(*TEXTS), reader, **BY, max_probes=3)])
    assert "The budget ran out" in page
    rules = explain_answer(answered(*TEXTS), Reader(PromptTemplate.standard()))
    for wrong in ([], [rules]):
        with pytest.raises(ConfigError):
            regions_page(wrong)


@pytest.mark.parametrize(
    ("text", "keywords", "found"),
    [
        ("Rome, ROME and (rome)!", ["rome"], ["Rome,", "ROME", "(rome)!"]),
        ("the U.S. and us", ["US"], ["U.S.", "us"]),
        ("a b a b a", ["a b a"], ["a b a", "a b a"]),
        ("東京は日本の首都です。", ["日本", "首都"], ["日本", "首都"]),
        ("القاهرة عاصمة مصر.", ["مصر"], ["مصر."]),
        ("Rome", ["", "...", "Rom"], []),
    ],
)
def test_where_keywords_stand(text: str, keywords: list[str], found: list[str]) -> None:
    assert [text[start:end] for start, end in keyword_spans(text, keywords)] == found


@pytest.mark.parametrize("most", [0, 1, 3, 6])
def test_the_budget_holds(most: int) -> None:
    reader = Reader(SelfExplanationTemplate())
    found = explain_answer(answered(*TEXTS), reader, explainer="regions", max_probes=most)
    assert found.num_probes == len(reader.asked) == most and not found.complete
    assert "The probe budget ran out" in str(found)


class Fickle(Reader):
    """Says something else each time."""

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        self.asked += [""] * len(requests)
        return [Completion(f"Rome {len(self.asked)}") for _ in requests]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"unit": "word"}, "unit"),
        ({"attribution": ("shapley",)}, "attribution"),
        ({"validity": 0.9}, "validity"),
        ({"parts": 0}, "parts"),
        ({"explainer": "rules", "groups": 3}, "groups"),
    ],
)
def test_settings_that_say_nothing_about_regions_are_refused(
    options: dict[str, Any], error: str
) -> None:
    with pytest.raises(ConfigError, match=error):
        explain_answer(
            answered(*TEXTS),
            Reader(PromptTemplate.standard()),
            **{"explainer": "regions", **options},
        )


def test_what_cannot_be_explained_is_named() -> None:
    plain = Reader(PromptTemplate.standard())
    with pytest.raises(ExplanationError, match="rests on no document"):
        explain_answer(answered(), plain, explainer="regions")
    with pytest.raises(ExplanationError, match="no word"):
        explain_answer(answered(" "), plain, explainer="regions")
    with pytest.raises(SamplingError):
        explain_answer(answered(*TEXTS), Fickle(PromptTemplate.standard()), explainer="regions")
