"""Self-explanations beside what the answer needs: scores by hand, the funnel, bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError
from rulerag.explanation.faithfulness import (
    SelfFaithfulness,
    assess_self_explanation,
    mean_self_faithfulness,
)
from rulerag.explanation.probing import AnswerCache, matches_answer
from rulerag.generation.huggingface import HuggingFaceGenerator
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.types import Document, GenerationRequest, Query
from tests.endpoints import Reply, Server, completion, serving

TEXT = "Rome is the capital of Italy Milan is rich and full of banks It rains"
"""Fifteen words: three parts of five, whose groups are single words."""


def request(text: str = TEXT, *documents: str) -> GenerationRequest:
    texts = [text, *documents] if text else []
    found = tuple(Document(f"d{n}", one) for n, one in enumerate(texts))
    return GenerationRequest(Query("q", "what is the capital of Italy?"), found)


class Model:
    """Answers Rome where its words stand in the text, and names the same keywords every time."""

    def __init__(self, *needed: str, keywords: str = "Rome", wrote: str = "") -> None:
        self.needed, self.keywords, self.wrote = needed, keywords, wrote
        self.read: list[str] = []

    def __call__(self, messages: list[dict[str, str]]) -> str:
        text = re.search(
            r"answering the question: (.*?)\nQuestion: ", messages[-1]["content"], re.S
        )
        self.read.append(text[1] if text else "")
        words = self.read[-1].split()
        answer = "Rome" if all(one in words for one in self.needed) else "Milan"
        if self.wrote:
            return self.wrote
        return f"Thought: as the text says.\nKeywords: {self.keywords}\nShort answer: {answer}"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def assess(model: Any, asked: GenerationRequest | None = None, **options: Any) -> SelfFaithfulness:
    return assess_self_explanation(model, asked or request(), matches_answer("Rome"), **options)


@pytest.mark.parametrize(
    ("keywords", "sufficient", "necessary", "score"),
    [
        # The first part is enough and needs two of its words, Rome and capital.
        ("Rome, capital", 1, 1.0, 1.0),
        ("capital, Milan", 1, 0.5, 0.75),
        ("Rome is the capital", 1, 0.0, 0.5),  # across groups: in the part, in no group
        ("Vienna", 0, 0.0, 0.0),
    ],
)
def test_scores_by_hand(keywords: str, sufficient: int, necessary: float, score: float) -> None:
    found = assess(Model("Rome", "capital", keywords=keywords))
    assert found.fit is not None and found.regions is not None
    (region,) = found.fit.regions
    assert [group.text for group in found.regions.regions[0].keywords] == ["Rome", "capital"]
    assert (region.sufficient, region.necessary) == (sufficient, necessary)
    assert found.score == found.fit.score == score and found.stage == "explained"


@pytest.mark.parametrize(
    ("needed", "options", "calls", "stage"),
    [
        (("Rome",), {}, 1 + 3 + 5, "explained"),
        ((), {}, 1 + 3 + 3 * 5, "no keyword"),  # all parts are enough: the most there can be
        (("Rome", "rains"), {}, 1 + 3, "no region"),
        (("Vienna",), {}, 1, "wrong"),
        (("Rome",), {"parts": 1}, 1 + 5, "explained"),  # the only part is the whole text
        (("Rome",), {"without_text": True}, 2 + 3 + 5, "explained"),
        ((), {"without_text": True}, 2, "known"),
    ],
)
def test_calls_by_hand(
    needed: tuple[str, ...], options: dict[str, Any], calls: int, stage: str
) -> None:
    model = Model(*needed)
    found = assess(model, **options)
    assert found.num_probes == len(model.read) == calls and found.stage == stage
    parts, groups = options.get("parts", 3), options.get("groups", 5)
    assert calls <= 1 + parts + parts * groups + options.get("without_text", False)


def test_the_funnel_and_the_mean_by_hand() -> None:
    models = [
        (Model("Rome", keywords="Rome"), True),  # 1.0
        (Model("Rome", keywords="the"), True),  # 0.5
        (Model("Rome", keywords="Vienna"), True),  # 0.0, which is a score
        (Model("Rome", "rains"), True),  # no region: no score, not zero
        (Model("Vienna"), True),
        (Model(), True),  # known without the text
        (Model(wrote="Rome"), True),  # malformed: no label, no answer, and none is guessed
    ]
    summary = mean_self_faithfulness([assess(model, without_text=hard) for model, hard in models])
    assert (summary.total, summary.incomplete, summary.known, summary.hard) == (7, 1, 1, 6)
    assert (summary.right, summary.sufficient, summary.necessary) == (4, 3, 3)
    assert summary.score == pytest.approx((1.0 + 0.5 + 0.0) / 3)
    assert summary.calls == pytest.approx((3 * (2 + 3 + 5) + 2 + 3) / 4)
    assert str(summary).endswith("3 with a necessary keyword; F = 0.500")
    nothing = mean_self_faithfulness([])
    assert nothing.score is None and nothing.calls is None and "no score" in str(nothing)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Model("Rome"), "faithfulness 1.00"),
        (Model("Rome", keywords=""), "not in what the model wrote: keywords"),
        (Model("Vienna"), "not explained: it is wrong"),
        (
            Model(wrote="I think it is Rome."),
            "not in what the model wrote: thought, keywords and answer",
        ),
        (Model("Rome", "rains"), "None of the 3 parts is enough alone: no sufficient region"),
    ],
)
def test_records_say_how_far_it_came_and_are_read_again(model: Model, words: str) -> None:
    made = assess(model, without_text=True)
    assert words in str(made)
    assert SelfFaithfulness.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_the_budget_holds() -> None:
    model = Model("Rome")
    made = assess(model, max_probes=6)
    assert len(model.read) == made.num_probes == 6 and made.score == 1.0
    assert made.regions is not None and not made.regions.complete
    with pytest.raises(ProbeBudgetError):
        assess(model, max_probes=0)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: assess(Model(), request("")), ExplanationError, "hold no word"),
        (lambda: assess(HuggingFaceGenerator()), ConfigError, "self-explanation"),
        (lambda: assess(Model(), cache=AnswerCache("unused.sqlite")), ConfigError, "fingerprint"),
    ],
)
def test_bad_input_is_named(
    make: Callable[[], Any], error: type[Exception], words: str, in_folder: Path
) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_endpoint_is_asked_with_the_papers_messages(server: Server, tmp_path: Path) -> None:
    def reply(_: int, body: dict[str, Any]) -> Reply:
        return 200, {}, completion(Model("Rome")(body["messages"]), body)

    server.say = reply
    reader = OpenAICompatibleGenerator(server.url, "m", api_key="k", template="self-explanation")
    cache = AnswerCache(tmp_path / "answers.sqlite")
    found = [assess(reader, cache=cache) for _ in range(2)]
    assert found[0] == found[1] and found[0].score == 1.0 and len(server.bodies) == 1 + 3 + 5
    assert [one["role"] for one in server.bodies[0]["messages"]] == ["system", "user"]
    # The generator itself goes on to give short answers.
    assert reader.generate([request()])[0].text == "Rome"
