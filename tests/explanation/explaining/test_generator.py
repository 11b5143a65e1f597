"""Generators of rulerag explained like any function: with their own prompts, in batches or not."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import rulerag
from rulerag import OpenAICompatibleGenerator
from tests.endpoints import completion, failure, prompt_of, serving

QUESTION = "What is the capital of France?"
TEXTS = ["Lyon is a city.", "Paris is the capital of France.", "Rome is old."]


def test_an_endpoint_is_asked_call_by_call() -> None:
    running = threading.Semaphore(0)

    def say(number: int, body: dict[str, Any]) -> Any:
        running.release()
        time.sleep(0.05)
        known = "Paris is the capital" in prompt_of(body)
        return 200, {}, completion("It is Paris." if known else "I don't know.", body)

    with serving() as server:
        server.say = say
        generator = OpenAICompatibleGenerator(server.url, "m", template="open")
        why = rulerag.explain(generator, QUESTION, TEXTS, workers=5)
        many = server.most_at_once
        server.say = lambda number, body: failure(400, "no such model")
        broken = OpenAICompatibleGenerator(server.url, "other")
        with pytest.raises(rulerag.RuleRAGError, match="no such model"):
            rulerag.explain(broken, QUESTION, TEXTS)
    assert why.claims[0].sources == (1,) and 2 <= many <= 5
    assert why.explanation.settings["order"] == "shared", "the layout stands in the record"
    assert why.explanation.settings["generator"] == generator.fingerprint
