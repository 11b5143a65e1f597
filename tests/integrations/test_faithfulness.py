"""What the metrics measure: the baselines that read nothing get nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rulerag.errors import ConfigError, ExplanationError
from rulerag.integrations.faithfulness import sample_faithfulness
from tests.integrations.systems import CONTEXTS, QUESTION, REASON, partly

Answer = Callable[[str, list[str]], Any]


def reading(_: str, documents: list[str]) -> str:
    """Says what the documents say."""
    return "It is Paris." if any("Paris" in one for one in documents) else "I don't know."


def prompted(_: str, documents: list[str]) -> str:
    """Reads nothing, and refuses where there is no document."""
    return "It is Paris." if documents else "I don't know."


async def waiting(question: str, documents: list[str]) -> str:
    return partly(question, documents)


def sample(answer: Any, response: str, contexts: list[str] = CONTEXTS, **options: Any) -> Any:
    return asyncio.run(sample_faithfulness(answer, QUESTION, contexts, response, options))


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (reading, 1),
        (partly, 2 / 3),
        (waiting, 2 / 3),
        (lambda question, documents: "It is Paris.", 0),
        (prompted, 0),
        (lambda question, documents: "I don't know.", None),
    ],
)
def test_systems_whose_workings_are_known(answer: Answer, score: float | None) -> None:
    response = partly(QUESTION, CONTEXTS) if answer is waiting else answer(QUESTION, CONTEXTS)
    found = sample(answer, response)
    assert found.score == score and (score != 2 / 3 or found.reason == REASON)


def test_no_context_and_no_answer() -> None:
    assert sample(prompted, "It is Paris.", []).score == 0
    assert sample(reading, "").score is None


def test_options_are_those_of_explain() -> None:
    given = {"response": "It is Paris.", "predicate": lambda output: "Paris" in output}
    assert sample(reading, budget=100, workers=1, **given).score == 1
    assert sample(prompted, **given).score == 0
    for answer, options, message in [
        (reading, {"bugdet": 3}, "unknown key"),
        (None, {}, "NoneType cannot be called"),
    ]:
        with pytest.raises(ConfigError, match=message):
            sample(answer, "It is Paris.", **options)


@pytest.mark.parametrize("count", [3, 1])
def test_a_system_that_fails_at_once_or_later_has_no_score(count: int) -> None:
    def failing(question: str, documents: list[str]) -> str:
        if len(documents) == count:
            raise RuntimeError("no quota")
        return reading(question, documents)

    with pytest.raises(ExplanationError, match="no quota"):
        sample(failing, "It is Paris.")
