"""Explanations through a real HTTP endpoint: failures, kills and new builds lose or mix nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import (
    CutCompletionError,
    EmptyCompletionError,
    GenerationError,
    SamplingError,
)
from rulerag.explanation.explaining import explain_answer
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.search.exact import MonoMiner
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.types import Answer, Completion, Document, GenerationRequest, Query, ScoredDocument
from tests.endpoints import Reply, Server, completion, failure, prompt_of, wait_until

DOCUMENTS = tuple(Document(f"d{i}", f"Text number {i}.") for i in range(1, 7))
QUERY = Query("q", "where does Ann live ?")
REQUEST = GenerationRequest(QUERY, DOCUMENTS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


def rome(number: int, body: dict[str, Any], **told: Any) -> Reply:
    """Reads Rome in documents 1 and 2, and Paris in the rest."""
    both = all(text in prompt_of(body) for text in ("number 1.", "number 2."))
    return 200, {}, completion("Rome." if both else "Paris.", body, **told)


def reader(url: str, **options: Any) -> OpenAICompatibleGenerator:
    given = {"timeout": 20.0, "concurrency": 2, "template": "standard", **options}
    return OpenAICompatibleGenerator(url, "tiny", **given)


def mine(
    url: str, path: Path, request: GenerationRequest = REQUEST, **options: Any
) -> tuple[frozenset[frozenset[int]], CachedGenerator]:
    """The minimal rules for Rome, after one batch of every subset."""
    generator = CachedGenerator(reader(url, **options), AnswerCache(path))
    engine = ProbeEngine.from_generator(generator, request)
    engine.probe(range(1 << engine.num_sources))
    rules = MonoMiner("retention").mine(engine, lambda output: output == "Rome")
    return rules.minimal, generator


def test_one_failed_call_costs_no_answer_that_had_arrived(server: Server, path: Path) -> None:
    server.say = lambda n, body: failure(400) if n == 40 else rome(n, body)
    with pytest.raises(GenerationError, match="status 400"):
        mine(server.url, path)
    asked = len(server.bodies)
    assert len(AnswerCache(path)) == asked - 1 >= 40
    rules, again = mine(server.url, path)
    assert rules == {frozenset({0, 1})}
    assert len(server.bodies) == 64 + 1, "every prompt once, the one that failed twice"
    assert again.num_asked == 65 - asked and again.num_known == asked - 1


@pytest.mark.parametrize(
    ("text", "reason", "kind"),
    [(None, "stop", EmptyCompletionError), ("Ro", "length", CutCompletionError)],
)
def test_what_is_no_answer_is_no_false_predicate(
    server: Server, path: Path, text: str | None, reason: str, kind: type[Exception]
) -> None:
    """With document 6 alone the endpoint says nothing: no rule may be made of that."""

    def say(number: int, body: dict[str, Any]) -> Reply:
        if "number 6." in prompt_of(body) and "number 5." not in prompt_of(body):
            return 200, {}, completion(text, body, finish_reason=reason)
        return rome(number, body)

    server.say = say
    scored = tuple(ScoredDocument(d, 1.0, n) for n, d in enumerate(DOCUMENTS, start=1))
    answer = Answer(QUERY, Completion("Rome"), scored)
    with pytest.raises(kind, match="query 'q'"):
        explain_answer(answer, reader(server.url), cache=AnswerCache(path))
    assert len(AnswerCache(path)) < len(server.bodies), "what is no answer is not stored"
    server.say = rome
    why = explain_answer(answer, reader(server.url), cache=AnswerCache(path))
    assert why.claims[0].retention == (frozenset({0, 1}),)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_run_ended_within_a_batch_loses_nothing_that_had_arrived(
    server: Server, path: Path, by: signal.Signals
) -> None:
    """A run that is interrupted waits for a call on its way; one that is killed cannot."""
    go_on = threading.Event()

    def say(number: int, body: dict[str, Any]) -> Reply:
        if number >= 10:
            go_on.wait(30)
        return rome(number, body)

    server.say = say
    process = multiprocessing.get_context("spawn").Process(target=mine, args=(server.url, path))
    process.start()
    wait_until(lambda: len(server.bodies) == 12 or not process.is_alive())
    wait_until(lambda: path.exists() and len(AnswerCache(path)) >= 10)
    assert process.pid is not None
    os.kill(process.pid, by)
    if by == signal.SIGKILL:
        process.join()
    time.sleep(0.5)
    go_on.set()
    process.join(timeout=60)
    assert process.exitcode in (-by, 1)
    stored = len(AnswerCache(path))
    assert stored == 10 if by == signal.SIGKILL else 10 < stored <= 14
    assert len(server.bodies) <= 16, "hardly a call is begun after that"
    server.bodies.clear()
    rules, again = mine(server.url, path)
    assert rules == {frozenset({0, 1})}
    assert len(server.bodies) == again.num_asked == 64 - stored, "only the rest is asked"


def test_answers_of_another_build_are_asked_for_again(server: Server, path: Path) -> None:
    server.say = lambda n, body: rome(n, body, system="fp_1")
    for _ in range(2):
        assert mine(server.url, path)[0] == {frozenset({0, 1})}
        assert len(server.bodies) == 64, "as long as nothing is asked, no other build is seen"

    def other(number: int, body: dict[str, Any]) -> Reply:
        text = "Rome." if "number 3." in prompt_of(body) else "Paris."
        return 200, {}, completion(text, body, system="fp_2")

    server.say = other
    wider = GenerationRequest(QUERY, (*DOCUMENTS, Document("d7", "Text number 7.")))
    rules, generator = mine(server.url, path, wider)
    assert rules == {frozenset({2})}, "of the new build alone, though half was stored"
    assert generator.system_fingerprint == "fp_2"
    assert generator.num_asked == 128
    assert len(server.bodies) == len(AnswerCache(path)) == 64 + 128


@pytest.mark.parametrize("temperature", [0.7, None, 1, 0.0])
def test_an_endpoint_told_to_sample_is_refused(temperature: float | None) -> None:
    sampling = reader("http://127.0.0.1:9/v1", options={"temperature": temperature})
    with nullcontext() if temperature == 0 else pytest.raises(SamplingError, match="by chance"):
        ProbeEngine.from_generator(sampling, REQUEST)
