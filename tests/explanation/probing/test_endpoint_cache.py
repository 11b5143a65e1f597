"""Explanations through a real HTTP endpoint: failures, kills and new builds lose or mix nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import (
    CutCompletionError,
    EmptyCompletionError,
    EndpointChangedError,
    GenerationError,
    RefusedCompletionError,
    SamplingError,
)
from rulerag.explanation.probing.asking import VotingGenerator
from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.predicates import judged
from rulerag.explanation.report.explain import explain_answer
from rulerag.explanation.source_rules.exact import MonoMiner
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.types import Answer, Completion, Document, GenerationRequest, Query, ScoredDocument
from tests.endpoints import Reply, Server, completion, failure, prompt_of, wait_until

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = tuple(Document(f"d{i}", f"Text number {i}.") for i in range(1, 7))
QUERY = Query("q", "where does Ann live ?")
REQUEST = GenerationRequest(QUERY, DOCUMENTS)
EVERY = range(1 << len(DOCUMENTS))


def rome(number: int, body: dict[str, Any], **told: Any) -> Reply:
    """Reads Rome in documents 1 and 2, and Paris in the rest."""
    both = all(text in prompt_of(body) for text in ("number 1.", "number 2."))
    return 200, {}, completion("Rome." if both else "Paris.", body, **told)


def reader(url: str, **options: Any) -> OpenAICompatibleGenerator:
    given = {"timeout": 20.0, "concurrency": 2, "template": "standard", **options}
    return OpenAICompatibleGenerator(url, "tiny", **given)


def cached(server: Server, path: Path, **options: Any) -> CachedGenerator:
    return CachedGenerator(reader(server.url, **options), AnswerCache(path))


def is_rome(output: str) -> bool:
    return output == "Rome"


def mine(generator: CachedGenerator) -> frozenset[frozenset[int]]:
    engine = ProbeEngine.from_generator(generator, REQUEST)
    engine.probe(EVERY)  # one batch of 64
    return MonoMiner("retention").mine(engine, is_rome).minimal


def test_one_failed_call_costs_no_answer_that_had_arrived(server: Server, tmp_path: Path) -> None:
    server.say = lambda n, body: failure(400) if n == 40 else rome(n, body)
    path = tmp_path / "answers.sqlite"
    with pytest.raises(GenerationError, match="status 400"):
        mine(cached(server, path))
    asked = len(server.bodies)
    assert len(AnswerCache(path)) == asked - 1 >= 40
    again = cached(server, path)
    assert mine(again) == {frozenset({0, 1})}
    assert len(server.bodies) == 64 + 1, "every prompt once, the one that failed twice"
    assert again.num_asked == 65 - asked and again.num_known == asked - 1


@pytest.mark.parametrize(
    ("told", "text", "kind"),
    [
        ({}, None, EmptyCompletionError),
        ({}, "", EmptyCompletionError),
        ({"finish_reason": "length"}, "Ro", CutCompletionError),
        ({"finish_reason": "content_filter"}, None, RefusedCompletionError),
        ({"refusal": "I cannot say."}, None, RefusedCompletionError),
    ],
)
def test_what_is_no_answer_is_no_false_predicate(
    server: Server, tmp_path: Path, told: dict[str, str], text: str | None, kind: type[Exception]
) -> None:
    """With document 6 alone the endpoint says nothing: no rule may be made of that."""

    def say(number: int, body: dict[str, Any]) -> Reply:
        if "number 6." in prompt_of(body) and "number 5." not in prompt_of(body):
            return 200, {}, completion(text, body, **told)
        return rome(number, body)

    server.say = say
    path = tmp_path / "answers.sqlite"
    scored = tuple(ScoredDocument(d, 1.0, n) for n, d in enumerate(DOCUMENTS, start=1))
    answer = Answer(QUERY, Completion("Rome"), scored)
    with pytest.raises(kind, match="query 'q'"):
        explain_answer(answer, reader(server.url), cache=AnswerCache(path))
    assert len(AnswerCache(path)) < len(server.bodies), "what is no answer is not stored"
    server.say = rome
    why = explain_answer(answer, reader(server.url), cache=AnswerCache(path))
    assert why.retention == (("D1", "D2"),)


def test_a_judge_that_says_nothing_gives_no_verdict(server: Server) -> None:
    server.say = lambda n, body: (200, {}, completion(None, body))
    engine = ProbeEngine.from_function(lambda kept: ["Rome"] * len(kept), num_sources=1)
    with pytest.raises(EmptyCompletionError, match="with null"):
        MonoMiner("retention").mine(engine, judged(reader(server.url), "Is {output} right?"))


def started(
    server: Server, path: Path, after: int
) -> tuple[subprocess.Popen[str], threading.Event]:
    """A process that explains, held in the middle of its one batch with two calls on the way."""
    go_on = threading.Event()

    def say(number: int, body: dict[str, Any]) -> Reply:
        if number >= after:
            go_on.wait(30)
        return rome(number, body)

    server.say = say
    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.explanation.probing.test_endpoint_cache import CachedGenerator, AnswerCache, mine, reader
mine(CachedGenerator(reader({server.url!r}), AnswerCache(Path({str(path)!r}))))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: len(server.bodies) == after + 2 or process.poll() is not None)
    wait_until(lambda: path.exists() and len(AnswerCache(path)) >= after)
    return process, go_on


def test_a_run_killed_in_the_middle_of_a_batch_loses_nothing(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "answers.sqlite"
    process, go_on = started(server, path, after=10)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    go_on.set()
    assert len(AnswerCache(path)) == 10
    server.bodies.clear()
    server.say = rome
    again = cached(server, path)
    assert mine(again) == {frozenset({0, 1})}
    assert len(server.bodies) == again.num_asked == 64 - 10, "only the rest is asked"


def test_a_run_interrupted_in_the_middle_of_a_batch_keeps_what_was_on_the_way(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "answers.sqlite"
    process, go_on = started(server, path, after=10)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    go_on.set()
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors
    assert len(AnswerCache(path)) == len(server.bodies) == 12
    server.say = rome
    assert mine(cached(server, path)) == {frozenset({0, 1})}
    assert len(server.bodies) == 64


def test_answers_of_another_build_are_asked_for_again(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    server.say = lambda n, body: rome(n, body, system="fp_1")
    assert mine(cached(server, path)) == {frozenset({0, 1})}
    assert len(server.bodies) == 64
    assert mine(cached(server, path)) == {frozenset({0, 1})}
    assert len(server.bodies) == 64, "as long as nothing is asked, no other build is seen"

    def other(number: int, body: dict[str, Any]) -> Reply:
        text = "Rome." if "number 3." in prompt_of(body) else "Paris."
        return 200, {}, completion(text, body, system="fp_2")

    server.say = other
    wider = GenerationRequest(QUERY, (*DOCUMENTS, Document("d7", "Text number 7.")))
    generator = cached(server, path)
    engine = ProbeEngine.from_generator(generator, wider)
    rules = MonoMiner("retention").mine(engine, is_rome)
    assert rules.minimal == {frozenset({2})}, "of the new build alone, though half was stored"
    assert generator.system_fingerprint == "fp_2"
    stored = len(AnswerCache(path))
    assert stored == 64 + engine.num_probes


def test_a_build_that_changes_within_an_explanation_is_an_error_and_a_rerun_goes_on(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "answers.sqlite"
    server.say = lambda n, body: rome(n, body, system="fp_1" if n < 30 else "fp_2")
    generator = cached(server, path, concurrency=1)
    engine = ProbeEngine.from_generator(generator, REQUEST)
    engine.probe(range(20))
    with pytest.raises(EndpointChangedError, match="'fp_2', and did as 'fp_1' before"):
        engine.probe(EVERY)
    assert engine.num_probes == 20
    again = cached(server, path, concurrency=1)
    assert mine(again) == {frozenset({0, 1})} and again.system_fingerprint == "fp_2"
    with pytest.raises(EndpointChangedError):  # without a cache likewise
        server.say = lambda n, body: rome(n, body, system=f"fp_{n % 5}")
        ProbeEngine.from_generator(reader(server.url), REQUEST).probe(EVERY)


def test_an_endpoint_of_two_builds_is_asked_until_one_has_answered_all(
    server: Server, tmp_path: Path
) -> None:
    server.say = lambda n, body: rome(n, body, system="fp_1" if n % 3 else "fp_2")
    generator = cached(server, tmp_path / "answers.sqlite", concurrency=1)
    assert mine(generator) == {frozenset({0, 1})}
    assert 64 < len(server.bodies) < 3 * 64


@pytest.mark.parametrize("temperature", [0.7, None, 1])
def test_an_endpoint_told_to_sample_is_refused(server: Server, temperature: float | None) -> None:
    sampling = reader(server.url, options={"temperature": temperature})
    with pytest.raises(SamplingError, match="by chance"):
        ProbeEngine.from_generator(sampling, REQUEST)
    ProbeEngine.from_generator(VotingGenerator(sampling, 3), REQUEST)
    ProbeEngine.from_generator(reader(server.url, options={"temperature": 0.0}), REQUEST)
    assert server.bodies == []
