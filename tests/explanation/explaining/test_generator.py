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
    assert why.explanation.settings["server"]["address"] == generator.address


def test_deciding_subsets_of_a_server_are_asked_twice_and_noise_is_told() -> None:
    """The second answer to one of two documents is another one, as batches of a server may be."""
    seen: dict[str, int] = {}
    noisy = [False]

    def say(number: int, body: dict[str, Any]) -> Any:
        prompt = prompt_of(body)
        seen[prompt] = seen.get(prompt, 0) + 1
        known = "Paris is the capital" in prompt
        alone = known and "Rome" not in prompt and "Berlin" not in prompt
        wavers = noisy[0] and alone and seen[prompt] > 1
        return 200, {}, completion("I don't know." if wavers or not known else "It is Paris.", body)

    shown = []
    with serving() as server:
        server.say = say
        generator = OpenAICompatibleGenerator(server.url, "m", template="open")
        for noisy[0] in (False, True):
            seen.clear()
            why = rulerag.explain(generator, QUESTION, TEXTS)
            (retention,), (omission,) = why.claims[0].retention, why.claims[0].omission
            shown.append(retention.certificate)
            assert why.num_calls == sum(seen.values())
            assert (retention.certificate.repeated, omission.certificate.repeated) == (2, 2)
            assert omission.certificate.disagreed == 0
            again = type(why.explanation).from_json(why.to_json())
            assert again.claims[0].retention[0].certificate == retention.certificate
        once = rulerag.explain(generator, QUESTION, TEXTS, repeats=1)
    assert [one.disagreed for one in shown] == [0, 1]
    assert "1 of 2 deciding subsets differed when asked again" in str(shown[1])
    assert once.claims[0].retention[0].certificate.repeated == 0
