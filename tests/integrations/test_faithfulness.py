"""What the metrics measure: the baselines that read nothing get nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rulerag.errors import ConfigError, ExplanationError
from rulerag.integrations.faithfulness import measured
from tests.integrations.systems import (
    CONTEXTS,
    QUESTION,
    REASON,
    by_heart,
    partly,
    prompted,
    reading,
    refusing,
)


def score(answer: Callable[..., Any], response: str | None = None, **options: Any) -> float | None:
    said = answer(QUESTION, CONTEXTS) if response is None else response
    return asyncio.run(measured(answer, QUESTION, CONTEXTS, said, options)).score


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [(reading, 1), (partly, 2 / 3), (by_heart, 0), (prompted, 0), (refusing, None)],
)
def test_systems_whose_workings_are_known(answer: Callable[..., Any], wanted: float | None) -> None:
    assert score(answer) == wanted


def test_reasons_and_functions_that_wait() -> None:
    async def waiting(question: str, documents: list[str]) -> str:
        return partly(question, documents)

    said = partly(QUESTION, CONTEXTS)
    found = asyncio.run(measured(waiting, QUESTION, CONTEXTS, said))
    assert (found.score, found.reason) == (2 / 3, REASON)


def test_no_context_and_no_answer() -> None:
    assert asyncio.run(measured(by_heart, QUESTION, [], "It is Paris.")).score == 0
    assert score(reading, "") is None


def test_options_are_those_of_explain() -> None:
    assert score(reading, budget=100, workers=1, predicate=lambda output: "Paris" in output) == 1
    assert score(prompted, predicate=lambda output: "Paris" in output) == 0
    with pytest.raises(ConfigError, match="unknown: bugdet"):
        score(reading, bugdet=3)
    with pytest.raises(ConfigError, match="NoneType cannot be called"):
        asyncio.run(measured(None, QUESTION, CONTEXTS, "It is Paris."))


def test_a_system_that_fails_has_no_score() -> None:
    def failing(_: str, documents: list[str]) -> str:
        raise RuntimeError("no quota")

    with pytest.raises(ExplanationError, match="no quota"):
        score(failing, "It is Paris.")


def test_a_system_that_fails_later_has_no_score() -> None:
    def failing(question: str, documents: list[str]) -> str:
        if len(documents) == 1:
            raise RuntimeError("no quota")
        return reading(question, documents)

    with pytest.raises(ExplanationError, match="no quota"):
        score(failing, "It is Paris.")
