"""The endpoint reader over real HTTP: a local server that answers well, late, wrongly or not."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from rulerag.errors import (
    ConfigError,
    CutCompletionError,
    EmptyCompletionError,
    GenerationError,
    RefusedCompletionError,
)
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.generation.openai_compatible.answers import Reply
from rulerag.types import Document, GenerationRequest, Query
from tests.endpoints import (
    Reply as Response,
    Server,
    completion,
    failure,
    good,
    prompt_of,
    wait_until,
)

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
    def slowly(number: int, body: dict[str, Any]) -> Response:
        time.sleep(0.02)
        return good(number, body)

    server.say = slowly
    generator = reader(server, api=api, log_probability=True, concurrency=3)
    asked = requests(12)
    answers = generator.generate([*asked, asked[0]])
    assert [a.text for a in answers] == [f"Land {i}" for i in range(12)] + ["Land 0"]
    assert answers[0].score == pytest.approx(-0.75 if api == "chat" else -1.5)
    assert len(server.bodies) == 12, "equal prompts are asked once"
    assert server.most_at_once == 3
    place = "/v1/chat/completions" if api == "chat" else "/v1/completions"
    assert set(server.paths) == {place} and set(server.keys) == {f"Bearer {KEY}"}
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("tiny", 0, 32)
    assert "A consult B." in prompt_of(body)
    assert generator.generate([]) == []


def test_a_passing_failure_is_tried_again_and_the_key_is_never_shown(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    server.say = lambda n, body: failure(401 if n else 503, f"Incorrect API key: {KEY}", **SOON)
    generator = reader(server, api_key=None, api_key_env="MY_KEY")
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(
            GenerationError, match=r"401: Incorrect API key: \*\*\*.*check the"
        ) as caught,
    ):
        generator.generate(requests(1))
    assert server.keys == [f"Bearer {KEY}"] * 2
    shown = "".join(traceback.format_exception(caught.value))
    log = [record.getMessage() for record in caplog.records]
    for text in (shown, repr(generator), generator.fingerprint, *log):
        assert KEY not in text
    with pytest.raises(ConfigError, match="cannot be sent") as wrong:
        reader(server, api_key=f"{KEY}\nä")
    assert KEY not in str(wrong.value)


def said(text: Any, reason: str = "stop") -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A completion in the form of the api that was asked."""
    return lambda body: completion(text, body, finish_reason=reason)


FILTERED = {"error": {"message": "filtered", "type": "t", "code": "content_filter"}}
REFUSED = completion(None, {"messages": []}, refusal="I cannot help with that.")
EMPTY, CUT, REFUSAL = EmptyCompletionError, CutCompletionError, RefusedCompletionError


@pytest.mark.parametrize(
    ("status", "answer", "kind", "message"),
    [
        (400, {"message": "no such key", "object": "error"}, None, "status 400: no such key"),
        (400, {"detail": [{"msg": "wrong"}]}, None, "{'detail': [{'msg': 'wrong'}]}"),
        (400, "<html>\n no such\nkey</html>", None, "<html> no such key</html>"),
        (400, {"error": {"message": "x" * 999}}, None, "x" * 300),
        (404, {"detail": "gone"}, None, "gone — check base_url (it usually ends in /v1), the mod"),
        (429, {"error": {"message": "wait"}}, None, "wait — lower concurrency=, or try again lat"),
        (500, {"error": {"message": "out of memory", "code": 7}}, None, "500: out of memory"),
        (400, FILTERED, REFUSAL, "refused the question: status 400: filtered — take another model"),
        # Nonsense.
        (200, '{"choices": [{"mess', None, "something that is no completion"),
        (200, "<html>Welcome</html>", None, "is no completion: '<html>Welcome</html>' — check bas"),
        (200, '{"choices": "none"}', None, "is no completion"),
        (200, '{"choices": [{"message": "hello"}]}', None, "without a text — check api="),
        (200, '{"choices": [7]}', None, "a completion without a text"),
        # What says nothing is an error of its own kind.
        (200, REFUSED, REFUSAL, "refused to answer query 'q0': 'I cannot help with that.'"),
        (200, said(""), EMPTY, "query 'q0' with an empty text"),
        (200, said("Answer:"), EMPTY, "in which no answer stands"),
        (200, said("<think>hm</think>"), EMPTY, "in which no answer stands"),
        (200, said("Ivo Mar", "length"), CUT, "query 'q0' was cut after 'Ivo Mar' (finish_reason"),
        (200, said(None, "max_tokens"), CUT, "was cut before it wrote a text"),
        (200, said("<think>The rule", "length"), CUT, "was cut"),
        (200, said("Ivo", "content_filter"), REFUSAL, "a content filter kept it back"),
        (200, said("Ivo", "abort"), None, "broke off the answer to query 'q0' after 'Ivo'"),
    ],
)
def test_every_fault_says_what_is_wrong_and_whether_to_try_later(
    server: Server, status: int, answer: Any, kind: type[GenerationError] | None, message: str
) -> None:
    server.say = lambda n, body: (status, {}, answer(body) if callable(answer) else answer)
    for calls, api in enumerate(("chat", "completions") if callable(answer) else ("chat",), 1):
        with pytest.raises(GenerationError) as caught:
            reader(server, max_retries=0, concurrency=1, api=api).generate(requests(9))
        assert type(caught.value) is (kind or GenerationError)
        assert message in str(caught.value) and "x" * 301 not in str(caught.value)
        assert caught.value.provider == server.url
        assert caught.value.retryable == (status in (429, 500) or "broke off" in message)
        assert len(server.bodies) == calls, "the other calls are not made"


def test_what_stands_around_an_answer_is_not_read(server: Server) -> None:
    thought = {"type": "thinking", "text": "Sudavia?", "thinking": [{"type": "text", "text": "?"}]}
    parts = [thought, {"type": "text", "text": "Nor"}, {"type": "text", "text": "land."}]
    for text, reason, template in (
        (parts, "stop", "rule-guided"),
        ("<think>Sudavia?</think>Norland", "stop", "compact"),
        ("Answer:\nNorland.\nIt was visited by the pol", "length", "rule-guided"),
    ):
        server.say = lambda n, body, text=text, reason=reason: (  # type: ignore[misc]
            200,
            {},
            completion(text, body, finish_reason=reason),
        )
        assert reader(server, template=template).generate(requests(1))[0].text == "Norland"


@pytest.mark.parametrize(
    ("logprobs", "score"),
    [
        ({"content": [{"logprob": -0.5}, {"logprob": -1}, {"logprob": -0.25}]}, -1.75),
        ({"content": [{"logprob": -0.5}, {"logprob": -1}]}, -1.5),  # the end of text may miss
        ({"content": [{"logprob": -0.5}]}, None),
        ({"content": [{"logprob": -0.5}, {"logprob": None}, {"logprob": -0.25}]}, None),
        ({"token_logprobs": None}, None),
        ("none", None),
    ],
)
def test_a_score_that_is_not_of_every_token_is_none(logprobs: Any, score: float | None) -> None:
    whole, pieces = Reply(chat=True), Reply(chat=True)
    usage = {"completion_tokens": 3}
    choice = {"message": {"content": "Norland."}, "logprobs": logprobs}
    whole.add({"choices": [choice], "usage": usage})
    pieces.add({"choices": [{"delta": {"content": "Norland."}, "logprobs": logprobs}]})
    pieces.add({"choices": [], "usage": usage})
    assert whole.score == pieces.score == score


def test_answers_stream_as_they_arrive_and_survive_a_failure(server: Server) -> None:
    begun, held = threading.Event(), threading.Event()

    def say(number: int, body: dict[str, Any]) -> Response:
        if "Land 3 " in prompt_of(body):
            begun.set()
            held.wait(10)  # under way while the other fails
        if "Land 2 " in prompt_of(body):
            begun.wait(10)
            return failure(400)
        return 200, {}, completion("A.", body, system="fp_1")

    server.say = say
    generator = reader(server, concurrency=2)
    stream = generator.stream(requests(30))
    seen = [next(stream), next(stream)]
    assert sorted(arrival.place for arrival in seen) == [0, 1], "while others are still asked"
    threading.Timer(0.3, held.set).start()
    with pytest.raises(GenerationError, match="status 400"):
        seen.extend(stream)
    assert seen[-1].place == 3, "what was under way is handed out before the failure is raised"
    assert len(server.bodies) < 10, "the other calls are not made"
    assert {arrival.system for arrival in seen} == {generator.system_fingerprint} == {"fp_1"}


def test_a_closed_iterator_and_an_interrupt_leave_no_call(server: Server) -> None:
    """The first Ctrl-C waits for what is under way, the second does not."""
    left: list[bool] = []

    def say(number: int, body: dict[str, Any]) -> Response:
        if "Land 0 " not in prompt_of(body):
            left.append(server.left(number))
        return good(number, body)

    def press() -> None:
        for calls, seconds in ((8, 0.2), (8, 0.5)):
            wait_until(lambda calls=calls: len(server.bodies) >= calls)  # type: ignore[misc]
            time.sleep(seconds)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    server.say = say
    generator = reader(server, timeout=30.0, concurrency=3)
    stream = generator.stream(requests(30))
    assert next(stream).completion.text == "Land 0"
    wait_until(lambda: len(server.bodies) == 4)
    stream.close()  # type: ignore[attr-defined]
    wait_until(lambda: len(left) == 3)
    assert left == [True] * 3 and len(server.bodies) == 4, "no further call begins"
    thread = threading.Thread(target=press)
    thread.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        generator.generate(requests(30))
    assert time.monotonic() - started < 15
    thread.join()
    wait_until(lambda: len(left) == 6)
    assert left == [True] * 6 and len(server.bodies) == 8


def test_a_slow_answer_is_a_timeout_and_a_server_that_is_down_is_named(server: Server) -> None:
    def late(number: int, body: dict[str, Any]) -> Response:
        time.sleep(0.6)
        return good(number, body)

    server.say = late
    with pytest.raises(GenerationError, match=r"no answer within 0\.2 seconds") as caught:
        reader(server, timeout=0.2, max_retries=0).generate(requests(1))
    assert caught.value.retryable
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://user:{KEY}@127.0.0.1:{port}/v1"
    down = OpenAICompatibleGenerator(url, "tiny", max_retries=0)
    with pytest.raises(GenerationError, match=r"cannot be reached .* is the server run") as caught:
        down.generate(requests(2))
    assert caught.value.retryable and KEY not in str(caught.value)


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
    prints = [generator.fingerprint, *(other.fingerprint for other in others)]
    assert prints[1] == prints[2] == prints[3], "neither the key nor the pace is a setting"
    assert len(set(prints)) == len(prints) - 2


def test_draws_ask_once_each_at_a_temperature_and_with_a_seed(server: Server) -> None:
    server.say = lambda _, body: (200, {}, completion(f"{body['seed']}", body))
    generator = reader(server, options={"top_p": 0.9})
    drawn = generator.sample(requests(2), 3, temperature=0.7, seed=5)
    assert [[one.text for one in each] for each in drawn] == [["5", "6", "7"]] * 2
    assert {(body["temperature"], body["top_p"]) for body in server.bodies} == {(0.7, 0.9)}
    assert len(server.bodies) == 6 and generator.settings.options == {"top_p": 0.9}


def test_prompts_are_packed_under_a_budget(server: Server) -> None:
    documents = tuple(Document(f"d{i}", f"Land {i} consult B.") for i in range(50))
    request = GenerationRequest(Query("q", "what does A visit ?"), documents)
    (prompt,) = reader(server, max_prompt_tokens=200, template="standard").prompts([request])
    assert prompt.kept and prompt.dropped and len(prompt.text) <= 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "song"}, "api"),
        ({"concurrency": 1001}, "concurrency"),
        ({"timeout": 0}, "timeout"),
        ({"base_url": "localhost:8000"}, "http://"),
    ],
)
def test_wrong_settings_are_errors(options: dict[str, Any], message: str) -> None:
    given = {"base_url": "http://127.0.0.1:1/v1", "model": "m", **options}
    with pytest.raises(ConfigError, match=message):
        OpenAICompatibleGenerator(**given)
