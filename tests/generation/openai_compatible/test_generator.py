"""The endpoint reader over real HTTP: a local server that answers well, late, wrongly or not."""

from __future__ import annotations

import logging
import socket
import threading
import time
import traceback
from typing import Any

import pytest

from rulerag.errors import (
    ConfigError,
    CutCompletionError,
    EmptyCompletionError,
    GenerationError,
    RefusedCompletionError,
)
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator, Usage
from rulerag.types import Document, GenerationRequest, Query
from tests.endpoints import Reply, Server, completion, failure, good, prompt_of

KEY = "sk-very-secret-0123456789"
SOON = {"retry_after_ms": "10"}


def requests(number: int) -> list[GenerationRequest]:
    documents = (Document("d", "A consult B."),)
    return [
        GenerationRequest(Query(f"q{i}", f"what does Land {i} visit ?"), documents)
        for i in range(number)
    ]


def reader(server: Server, **options: Any) -> OpenAICompatibleGenerator:
    given = {"api_key": KEY, "timeout": 5.0, **options}
    return OpenAICompatibleGenerator(server.url, "tiny", **given)


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_answers_come_in_order_with_tokens_and_scores(server: Server, api: str) -> None:
    generator = reader(server, api=api, log_probability=True)
    asked = requests(20)
    answers = generator.generate([*asked, asked[0]])
    assert [a.text for a in answers] == [f"Land {i}" for i in range(20)] + ["Land 0"]
    assert answers[0].score == pytest.approx(-0.75 if api == "chat" else -1.5)
    assert len(server.bodies) == 20, "equal prompts are asked once"
    usage = generator.usage
    assert (usage.calls, usage.retries) == (20, 0)
    assert (usage.prompt_tokens, usage.completion_tokens) == (2000, 60)
    place = "/v1/chat/completions" if api == "chat" else "/v1/completions"
    assert set(server.paths) == {place}
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("tiny", 0, 32)
    assert "A consult B." in prompt_of(body)
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert generator.generate([]) == []


def test_concurrency_is_used_and_bounded(server: Server) -> None:
    def slowly(number: int, body: dict[str, Any]) -> Reply:
        time.sleep(0.05)
        return good(number, body)

    server.say = slowly
    reader(server, concurrency=3).generate(requests(12))
    assert server.most_at_once == 3


def test_passing_failures_are_tried_again(server: Server) -> None:
    statuses = {0: 500, 1: 503, 2: 429, 4: 408, 5: 409, 6: 425}
    server.say = lambda n, body: failure(statuses[n], **SOON) if n in statuses else good(n, body)
    generator = reader(server, concurrency=2)
    assert [c.text for c in generator.generate(requests(4))] == [f"Land {i}" for i in range(4)]
    assert len(server.bodies) == 10
    assert generator.usage == Usage(4, 6, 400, 12)


@pytest.mark.parametrize("headers", [{"Retry_After": "0.4"}, {"retry_after_ms": "400"}])
def test_a_rate_limit_is_waited_for_as_long_as_it_says(
    server: Server, headers: dict[str, str]
) -> None:
    server.say = lambda n, body: failure(429, **headers) if n == 0 else good(n, body)
    generator = reader(server, concurrency=1)
    generator.generate(requests(3))
    gaps = [b - a for a, b in zip(server.times, server.times[1:], strict=False)]
    assert gaps[0] >= 0.39
    assert min(gaps[1:]) < 0.3, "later calls do not wait, though a busy machine may stall one"
    server.bodies.clear()
    with pytest.raises(GenerationError, match=r"status 429.* lower concurrency") as caught:
        server.say = lambda n, body: failure(429, Retry_After="3600")
        generator.generate(requests(1))
    assert caught.value.retryable and len(server.bodies) == 1, "nobody waits for an hour"


def test_failures_that_stay_name_provider_and_whether_to_try_later(server: Server) -> None:
    server.say = lambda n, body: failure(500, "out of memory", **SOON)
    with pytest.raises(GenerationError, match=r"status 500: .*out of memory") as caught:
        reader(server, max_retries=2).generate(requests(1))
    assert (caught.value.provider, caught.value.retryable) == (server.url, True)
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("status", "hint"),
    [(400, ""), (401, "check the API key"), (404, "base_url"), (422, ""), (501, ""), (505, "")],
)
def test_final_failures_are_not_tried_again(server: Server, status: int, hint: str) -> None:
    server.say = lambda n, body: failure(status)
    with pytest.raises(GenerationError, match=f"status {status}.*{hint}") as caught:
        reader(server, concurrency=1).generate(requests(30))
    assert not caught.value.retryable
    # One call at a time; those under way when the failure is told may still arrive.
    assert len(server.bodies) < 10, "the other calls are not made"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"error": {"message": "no such key", "code": 7}}, "no such key"),
        ({"message": "no such key", "object": "error"}, "no such key"),
        ({"detail": "no such key"}, "no such key"),
        ({"detail": [{"msg": "no such key"}]}, "{'detail': [{'msg': 'no such key'}]}"),
        ({"error": "no such key", "error_type": "validation"}, "no such key"),
        ("<html>\n no such\nkey</html>", "<html> no such key</html>"),
        ("", "Error code: 400"),
        ({"error": {"message": "x" * 999}}, "x" * 300),
    ],
)
def test_the_reason_is_found_in_every_form_of_a_body(
    server: Server, body: Any, reason: str
) -> None:
    server.say = lambda n, _: (400, {}, body)
    with pytest.raises(GenerationError) as caught:
        reader(server).generate(requests(1))
    assert str(caught.value) == f"{server.url}: status 400: {reason}"


def test_an_empty_purse_is_not_tried_again(server: Server) -> None:
    error = {"error": {"message": "pay", "type": "t", "code": "insufficient_quota"}}
    server.say = lambda n, body: (429, {}, error)
    with pytest.raises(GenerationError, match="pay"):
        reader(server).generate(requests(1))
    assert len(server.bodies) == 1


def test_the_key_is_never_shown(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    server.say = lambda n, body: failure(401 if n else 503, f"Incorrect API key: {KEY}", **SOON)
    generator = reader(server, api_key=None, api_key_env="MY_KEY")
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(GenerationError, match=r"Incorrect API key: \*\*\*") as caught,
    ):
        generator.generate(requests(1))
    assert server.keys[0] == f"Bearer {KEY}"
    shown = "".join(traceback.format_exception(caught.value))
    log = [r.getMessage() for r in caplog.records]
    assert any("Retrying" in line for line in log), "the retry is logged"
    for text in (shown, repr(generator), generator.fingerprint, *log):
        assert KEY not in text
    with pytest.raises(ConfigError, match="cannot be sent") as wrong:
        reader(server, api_key=f"{KEY}\nä")
    assert KEY not in str(wrong.value)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"choices": [{"mess', "application/json"),
        ("<html>Welcome</html>", "text/html"),
        ("", "application/json"),
        ('"hello"', "application/json"),
        ('{"object": "list", "data": []}', "application/json"),
        ('{"choices": "none"}', "application/json"),
        ('{"choices": []}', "application/json"),
        ('{"choices": [{"message": "hello"}]}', "application/json"),
        ('{"choices": [{"text": "hello"}]}', "application/json"),
        ('{"choices": [7]}', "application/json"),
    ],
)
def test_nonsense_is_an_error_that_says_so(server: Server, body: str, kind: str) -> None:
    server.say = lambda n, _: (200, {"Content-Type": kind}, body)
    with pytest.raises(GenerationError, match=r"no completion|without a text") as caught:
        reader(server).generate(requests(1))
    assert not caught.value.retryable
    assert "api=" in str(caught.value)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("text", ["", None, " \n ", "Answer:", "<think>hm</think>"])
def test_an_empty_answer_is_an_error_of_its_own_kind(server: Server, text: Any, api: str) -> None:
    server.say = lambda n, body: (200, {}, completion(text, body))
    with pytest.raises(EmptyCompletionError, match=r"query 'q0' with .*try again") as caught:
        reader(server, api=api).generate(requests(1))
    assert ("null" in str(caught.value)) == (text is None)
    assert caught.value.provider == server.url


def test_a_message_without_content_is_empty_and_parts_may_be_too(server: Server) -> None:
    server.say = lambda n, body: (200, {}, {"choices": [{"message": {"role": "assistant"}}]})
    with pytest.raises(EmptyCompletionError, match="with null"):
        reader(server).generate(requests(1))
    server.say = lambda n, body: (200, {}, completion([], body))
    with pytest.raises(EmptyCompletionError, match="an empty text"):
        reader(server).generate(requests(1))


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("text", ["Ivo Mar", "", None, "<think>The rule says", "Answer:\nIv"])
@pytest.mark.parametrize("reason", ["length", "max_tokens"])
def test_a_cut_answer_is_an_error_of_its_own_kind(
    server: Server, text: Any, api: str, reason: str
) -> None:
    server.say = lambda n, body: (200, {}, completion(text, body, finish_reason=reason))
    with pytest.raises(CutCompletionError, match=r"query 'q0' was cut .*max_new_tokens"):
        reader(server, api=api).generate(requests(1))


def test_no_template_takes_a_thought_for_an_answer(server: Server) -> None:
    generator = reader(server, template="compact")
    for said in ("<think>\nSudavia?\nOr", "<think>Sudavia"):
        server.say = lambda n, body, said=said: (
            200,
            {},
            completion(said, body, finish_reason="length"),
        )
        with pytest.raises(CutCompletionError):
            generator.generate(requests(1))
    server.say = lambda n, body: (200, {}, completion("<think>Sudavia?</think>Norland", body))
    assert generator.generate(requests(1))[0].text == "Norland"


def test_a_cut_behind_the_line_with_the_answer_takes_nothing_away(server: Server) -> None:
    said = "Answer:\nIvo Marek.\nHe was arrested by the pol"
    server.say = lambda n, body: (200, {}, completion(said, body, finish_reason="length"))
    assert reader(server).generate(requests(1))[0].text == "Ivo Marek"


@pytest.mark.parametrize(
    "say",
    [
        lambda n, body: (200, {}, completion(None, body, finish_reason="content_filter")),
        lambda n, body: (200, {}, completion("Ivo", body, finish_reason="content_filter")),
        lambda n, body: (200, {}, completion(None, body, refusal="I cannot help with that.")),
        lambda n, body: (
            400,
            {},
            {"error": {"message": "filtered", "type": "t", "code": "content_filter"}},
        ),
    ],
)
def test_a_refusal_is_an_error_of_its_own_kind(server: Server, say: Any) -> None:
    server.say = say
    with pytest.raises(RefusedCompletionError, match=r"refused .*another model") as caught:
        reader(server).generate(requests(1))
    assert not caught.value.retryable
    assert len(server.bodies) == 1


def test_answers_stream_as_they_arrive_and_survive_a_failure(server: Server) -> None:
    begun, held = threading.Event(), threading.Event()

    def say(number: int, body: dict[str, Any]) -> Reply:
        if "Land 3 " in prompt_of(body):
            begun.set()
            held.wait(10)  # under way while the other fails
        if "Land 2 " in prompt_of(body):
            begun.wait(10)
            return failure(400)
        return good(number, body)

    server.say = say
    stream = reader(server, concurrency=2).stream(requests(30))
    seen = [next(stream).place, next(stream).place]
    assert sorted(seen) == [0, 1], "handed out while others are still asked"
    threading.Timer(0.3, held.set).start()
    with pytest.raises(GenerationError, match="status 400"):
        for arrival in stream:
            seen.append(arrival.place)
    assert 3 in seen, "what was under way is handed out before the failure is raised"
    assert len(server.bodies) < 10, "the other calls are not made"


def test_the_build_of_the_model_is_told(server: Server) -> None:
    generator = reader(server)
    assert generator.system_fingerprint == ""
    server.say = lambda n, body: (200, {}, completion("A.", body, system="fp_1"))
    assert [arrival.system for arrival in generator.stream(requests(2))] == ["fp_1", "fp_1"]
    assert generator.system_fingerprint == "fp_1"
    before = reader(server).fingerprint
    assert generator.fingerprint == before, "known only from answers, so not part of the name"


def test_parts_of_a_message_are_joined(server: Server) -> None:
    parts = [{"type": "text", "text": "Nor"}, {"type": "text", "text": "land."}]
    server.say = lambda n, body: (200, {}, completion(parts, body))
    assert reader(server).generate(requests(1))[0].text == "Norland"


def test_parts_of_a_message_that_are_no_text_are_left(server: Server) -> None:
    thought = {"type": "thinking", "text": "Sudavia?", "thinking": [{"type": "text", "text": "?"}]}
    parts = [thought, {"type": "text", "text": "Norland."}]
    server.say = lambda n, body: (200, {}, completion(parts, body))
    assert reader(server).generate(requests(1))[0].text == "Norland"


@pytest.mark.parametrize(
    ("logprobs", "score"),
    [
        ({"content": [{"logprob": -0.5}, {"logprob": -1}, {"logprob": -0.25}]}, -1.75),
        ({"content": [{"logprob": -0.5}, {"logprob": -1}]}, -1.5),  # the end of text may miss
        ({"content": [{"logprob": -0.5}]}, None),
        ({"content": [{"logprob": -0.5}, {"logprob": None}, {"logprob": -0.25}]}, None),
        ({"content": [{"logprob": -0.5}, {"token": "a"}, {"logprob": -0.25}]}, None),
        ({"content": [{"logprob": -0.5}, {"logprob": -1e999}, {"logprob": -0.25}]}, None),
        ({"content": []}, None),
        ({"content": None}, None),
        ({"token_logprobs": None}, None),
        (None, None),
        ("none", None),
    ],
)
def test_a_score_that_is_not_of_every_token_is_none(
    server: Server, logprobs: Any, score: float | None
) -> None:
    def say(number: int, body: dict[str, Any]) -> Reply:
        answer = completion("Norland.", body)
        answer["choices"][0]["logprobs"] = logprobs
        return 200, {}, answer

    server.say = say
    (found,) = reader(server, log_probability=True).generate(requests(1))
    assert (found.text, found.score) == ("Norland", score)


def test_a_slow_answer_is_a_timeout(server: Server) -> None:
    def late(number: int, body: dict[str, Any]) -> Reply:
        time.sleep(0.6 if number == 0 else 0)
        return good(number, body)

    server.say = late
    generator = reader(server, timeout=0.2)
    assert generator.generate(requests(1))[0].text == "Land 0"
    server.bodies.clear()
    with pytest.raises(GenerationError, match=r"no answer within 0\.2 seconds") as caught:
        reader(server, timeout=0.2, max_retries=0).generate(requests(1))
    assert caught.value.retryable


def test_an_endpoint_that_is_down_is_an_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    generator = OpenAICompatibleGenerator(
        f"http://user:{KEY}@127.0.0.1:{port}/v1", "tiny", max_retries=1
    )
    with pytest.raises(GenerationError, match=r"cannot be reached .* is the server running") as e:
        generator.generate(requests(2))
    assert e.value.retryable
    assert KEY not in str(e.value)


def test_options_change_the_body_and_the_fingerprint(server: Server) -> None:
    generator = reader(server, options={"max_tokens": None, "max_completion_tokens": 9, "seed": 1})
    generator.generate(requests(1))
    body = server.bodies[0]
    assert "max_tokens" not in body
    assert (body["max_completion_tokens"], body["seed"]) == (9, 1)
    others = [
        reader(server),
        reader(server, api_key="x"),
        reader(server, concurrency=2),
        reader(server, template="standard"),
        reader(server, log_probability=True),
        reader(server, max_prompt_tokens=500),
        # The same words and settings, written and read in another way.
        reader(server, template={"type": "citation", "instruction": "", "answer_cue": ":"}),
        reader(server, template="compact"),
    ]
    prints = [generator.fingerprint, *(o.fingerprint for o in others)]
    assert prints[1] == prints[2] == prints[3], "neither the key nor the pace is a setting"
    assert len(set(prints)) == len(prints) - 2


def test_draws_ask_once_each_at_a_temperature_and_with_a_seed(server: Server) -> None:
    server.say = lambda _, body: (200, {}, completion(f"{body['seed']}", body))
    generator = reader(server, options={"top_p": 0.9})
    drawn = generator.sample(requests(2), 3, temperature=0.7, seed=5)
    assert [[one.text for one in each] for each in drawn] == [["5", "6", "7"]] * 2
    assert {body["temperature"] for body in server.bodies} == {0.7}
    assert {body["top_p"] for body in server.bodies} == {0.9} and len(server.bodies) == 6
    assert generator.usage.calls == 6 and generator.settings.options == {"top_p": 0.9}


def test_prompts_are_packed_under_a_budget(server: Server) -> None:
    documents = tuple(Document(f"d{i}", f"Land {i} consult B.") for i in range(50))
    request = GenerationRequest(Query("q", "what does A visit ?"), documents)
    generator = reader(server, max_prompt_tokens=200, template="standard")
    (prompt,) = generator.prompts([request])
    assert prompt.kept
    assert prompt.dropped
    assert len(prompt.text) <= 600
    with pytest.raises(GenerationError, match="without any document"):
        reader(server, max_prompt_tokens=10).generate([request])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "song"}, "api"),
        ({"concurrency": 0}, "concurrency"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"timeout": 0}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"base_url": "localhost:8000"}, "http://"),
    ],
)
def test_wrong_settings_are_errors(options: dict[str, Any], message: str) -> None:
    given = {"base_url": "http://127.0.0.1:1/v1", "model": "m", **options}
    with pytest.raises(ConfigError, match=message):
        OpenAICompatibleGenerator(**given)
