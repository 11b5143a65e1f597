"""An answer explained by regions: the record, its words, and the keywords of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import ConfigError, ExplanationError, SamplingError
from rulerag.explanation.explaining import Explanation, explain_answer, explanation_lines
from rulerag.explanation.probing import AnswerCache, is_correct
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


def explained(answer: Answer, reader: Reader, **options: Any) -> Explanation:
    return explain_answer(answer, reader, explainer="regions", **options).explanation


def test_the_record_of_a_plain_reader() -> None:
    reader = Reader(PromptTemplate.standard())
    found = explained(answered(*TEXTS), reader)
    assert found.regions is not None and found.keywords is None and found.complete
    assert found.num_calls == len(reader.asked) == 1 + 3 + 5
    (region,) = found.regions.regions
    assert [group.text for group in region.keywords] == ["Rome", "the capital"]
    assert [document.id for document in found.supporting] == ["d1"] and not found.claims
    lines = "\n".join(explanation_lines(found))
    assert "1 of 3 parts is enough alone" in lines and "[needs Rome; the capital]" in lines
    row = json.loads(json.dumps(found.to_json()))
    assert Explanation.from_json(row) == found and row["settings"]["explainer"] == "regions"


def test_keywords_of_a_reader_that_explains_itself(tmp_path: Path) -> None:
    reader = Reader(SelfExplanationTemplate())
    cache = AnswerCache(tmp_path / "answers.sqlite")
    found = explained(answered(*TEXTS), reader, cache=cache)
    assert found.keywords is not None and found.num_calls == len(reader.asked) == 1 + 3 + 5
    assert found.keywords.score == 0.75 and found.keywords.keywords == (
        *(("Rome", "necessary"), ("is the capital", "straddles"), ("Lyon", "absent")),
    )
    assert "faithfulness 0.75" in "\n".join(explanation_lines(found))
    again = explained(answered(*TEXTS), reader, cache=cache)
    assert len(reader.asked) == 9 and again.regions == found.regions


def test_a_condition_a_budget_and_nothing_found() -> None:
    reader = Reader(SelfExplanationTemplate())
    found = explained(answered(*TEXTS), reader, parts=1, predicate=is_correct(["Rome"]))
    assert found.num_calls == 1 + 5 and len(found.regions.regions) == 1  # type: ignore[union-attr]
    some = explained(answered(*TEXTS), reader, budget=3)
    assert some.num_calls == 3 and not some.complete
    spread = answered("Rome is a city by the sea and it is the capital.")
    none = explained(spread, Reader(SelfExplanationTemplate()))
    lines = "\n".join(explanation_lines(none))
    assert "no sufficient region" in lines and "nothing to compare with" in lines


def test_what_cannot_be_explained_by_regions_is_named() -> None:
    reader = Reader(PromptTemplate.standard())
    for options, match in (
        ({"level": "sentence"}, "key 'level': does not go with the explainer 'regions'"),
        ({"parts": 0}, "key 'parts': 0 is out of range"),
        ({"budget": 0}, "the whole text has to be asked once"),
    ):
        with pytest.raises(ConfigError, match=match):
            explained(answered(*TEXTS), reader, **options)
    with pytest.raises(ExplanationError, match="rests on no document"):
        explained(answered(" "), reader)
    turns = iter(range(99))

    class Chance(Reader):
        def _written(self, request: GenerationRequest) -> str:
            return f"City {next(turns)}"

    with pytest.raises(SamplingError, match="to the same request"):
        explained(answered(*TEXTS), Chance(PromptTemplate.standard()))
