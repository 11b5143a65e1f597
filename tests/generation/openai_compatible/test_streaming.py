"""One answer in pieces over real HTTP: what is shown, and that it ends as a whole answer would."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rulerag.errors import (
    CutCompletionError,
    EmptyCompletionError,
    GenerationError,
    RefusedCompletionError,
)
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator, Usage
from rulerag.protocols import WritingGenerator
from rulerag.types import Completion, Document, GenerationRequest, Query
from tests.endpoints import Reply, Server, chunk, completion, event, failure, usage, wait_until

REQUEST = GenerationRequest(
    Query("q0", "what does Land 0 visit ?"), (Document("d", "A consult B."),)
)
SOON = {"retry_after_ms": "10"}


def reader(server: Server, **options: Any) -> OpenAICompatibleGenerator:
    return OpenAICompatibleGenerator(server.url, "tiny", **{"timeout": 5.0, **options})


def streamed(
    generator: WritingGenerator, request: GenerationRequest = REQUEST
) -> tuple[list[str], Completion]:
    """The pieces of an answer, and the completion that they make."""
    pieces, stream = [], generator.stream_text(request)
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return pieces, end.value


def telling(server: Server, *events: str) -> None:
    """Let the server answer every call by a stream of some events."""
    server.say = lambda n, body: (200, {}, iter(events))


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_pieces_arrive_as_they_are_written_and_make_the_answer(server: Server, api: str) -> None:
    generator = reader(server, api=api)
    seen: list[str] = []

    def slowly(body: dict[str, Any]) -> Iterator[str]:
        for number, piece in enumerate(("Nor", "land", ".\nMore")):
            until = time.monotonic() + 5
            while len(seen) < number and time.monotonic() < until:
                time.sleep(0.01)  # the next piece is written when the one before was seen
            assert len(seen) == number
            yield chunk(piece, body)
        yield chunk("", body, finish_reason="stop") + usage()

    server.say = lambda n, body: (200, {}, slowly(body))
    assert isinstance(generator, WritingGenerator)
    stream = generator.stream_text(REQUEST)
    while True:
        try:
            seen.append(next(stream))
        except StopIteration as end:
            assert end.value == Completion("Norland")
            break
    assert seen == ["Nor", "land", ".\nMore"]
    assert generator.usage == Usage(1, 0, 100, 3) and generator.system_fingerprint == "fp_1"
    body = server.bodies[0]
    assert body["stream"] is True and body["stream_options"] == {"include_usage": True}
    whole = dict(body)
    del whole["stream"], whole["stream_options"]
    server.say = lambda n, body: (200, {}, completion("Norland.", body))
    generator.generate([REQUEST])
    assert server.bodies[1] == whole, "the same question"


def test_keys_of_the_body_may_be_left_out(server: Server) -> None:
    server.say = lambda n, body: (200, {}, iter([chunk("A.", body, finish_reason="stop")]))
    generator = reader(server, options={"stream_options": None})
    assert streamed(generator) == (["A."], Completion("A"))
    assert "stream_options" not in server.bodies[0]
    assert generator.usage == Usage(calls=1), "no tokens are invented"


CHAT = {"messages": []}


def test_thoughts_are_not_shown(server: Server) -> None:
    thought = [chunk(None, CHAT, reasoning="Who"), chunk(None, CHAT, reasoning_content=" is it")]
    rest = [chunk("Ivo.", CHAT), chunk("", CHAT, finish_reason="stop"), usage()]
    telling(server, chunk("", CHAT, role="assistant"), *thought, *rest)
    assert streamed(reader(server)) == (["Ivo."], Completion("Ivo"))
    split = ["\n", "<th", "ink>Who", " is it</thi", "nk>", "\n\n", "Ivo", "."]
    telling(server, *(chunk(text, CHAT) for text in split), *rest[1:])
    assert streamed(reader(server)) == (["Ivo", "."], Completion("Ivo"))
    telling(server, *(chunk(text, CHAT) for text in ("<", "b>Ivo", "</b>")), *rest[1:])
    assert streamed(reader(server)) == (["<b>Ivo", "</b>"], Completion("<b>Ivo</b>"))


def test_a_score_counts_every_token_or_is_none(server: Server) -> None:
    def telling_scores(*scores: float | None, counted: int = 2) -> None:
        chunks = (
            chunk(text, CHAT, logprobs=None if one is None else {"content": [{"logprob": one}]})
            for text, one in zip(("I", "vo", "."), scores, strict=False)
        )
        telling(server, *chunks, chunk("", CHAT, finish_reason="stop"), usage(9, counted))

    telling_scores(-0.5, -0.25)
    assert streamed(reader(server, log_probability=True))[1] == Completion("Ivo", -0.75)
    assert server.bodies[-1]["logprobs"] is True
    telling_scores(-0.5, -0.25, counted=3)
    score = streamed(reader(server, log_probability=True))[1].score
    assert score == -0.75, "the end of text may miss"
    telling_scores(-0.5, None, counted=3)
    assert streamed(reader(server, log_probability=True))[1].score is None
    telling_scores(-0.5, -0.25)
    assert streamed(reader(server))[1].score is None, "nobody asked for it"


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize(
    ("text", "finish", "kind", "message"),
    [
        ("Ivo Mar", "length", CutCompletionError, "query 'q0' was cut after 'Ivo Mar'.*longer"),
        ("", "stop", EmptyCompletionError, "query 'q0' with an empty text"),
        (None, "stop", EmptyCompletionError, "query 'q0' with null"),
        ("Answer:", "stop", EmptyCompletionError, "in which no answer stands"),
        (None, "content_filter", RefusedCompletionError, "a content filter kept it back"),
        ("Ivo", "abort", GenerationError, "broke off the answer to query 'q0' after 'Ivo'"),
    ],
)
def test_a_stream_that_says_nothing_is_the_error_of_a_whole_answer(
    server: Server, api: str, text: Any, finish: str, kind: type[GenerationError], message: str
) -> None:
    server.say = lambda n, body: (
        200,
        {},
        iter([chunk(text, body), chunk(None, body, finish_reason=finish), usage()]),
    )
    generator = reader(server, api=api)
    with pytest.raises(kind, match=message) as one:
        streamed(generator)
    server.say = lambda n, body: (200, {}, completion(text, body, finish_reason=finish))
    with pytest.raises(kind) as other:
        generator.generate([REQUEST])
    assert str(one.value) == str(other.value)
    assert type(one.value) is type(other.value) and one.value.retryable == (finish == "abort")
    assert generator.usage == Usage(2, 0, 200, 6)


def test_a_refusal_comes_in_pieces_too(server: Server) -> None:
    parts = [chunk(None, CHAT, refusal="I can"), chunk(None, CHAT, refusal="not.")]
    telling(server, *parts, chunk(None, CHAT, finish_reason="stop"), usage())
    with pytest.raises(RefusedCompletionError, match=r"'I cannot\.'"):
        streamed(reader(server))


def test_failures_before_the_stream_are_tried_again_as_ever(server: Server) -> None:
    def say(number: int, body: dict[str, Any]) -> Reply:
        if number == 0:
            return failure(503, **SOON)
        return 200, {}, iter([chunk("A.", body, finish_reason="stop"), usage()])

    server.say = say
    generator = reader(server)
    assert streamed(generator)[1].text == "A" and generator.usage == Usage(1, 1, 100, 3)
    server.say = lambda n, body: failure(401)
    with pytest.raises(GenerationError, match=r"status 401.*check the API key"):
        streamed(reader(server))


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("", "ended the stream before the answer to query 'q0'.*try again"),
        (event("[DONE]"), "ended the stream before the answer"),
        (event({"error": {"message": "out of memory", "code": 500}}), "out of memory"),
        (event({"error": "out of memory"}), "out of memory"),
    ],
)
def test_a_stream_that_breaks_off_is_an_error_and_not_an_answer(
    server: Server, end: str, message: str
) -> None:
    telling(server, chunk("Ivo Marek.\n", CHAT), end)
    stream = reader(server).stream_text(REQUEST)
    assert next(stream) == "Ivo Marek.\n"
    with pytest.raises(GenerationError, match=message) as caught:
        next(stream)
    assert caught.value.retryable and caught.value.provider == server.url
    assert len(server.bodies) == 1, "what has begun is not tried again"


def test_a_connection_that_breaks_is_named(server: Server) -> None:
    length = {"Content-Length": "9999"}
    server.say = lambda n, body: (200, length, iter([chunk("Ivo Marek.\n", body)]))
    stream = reader(server).stream_text(REQUEST)
    assert next(stream) == "Ivo Marek.\n"
    with pytest.raises(GenerationError, match=r"broke off its answer \(.*is the server runn") as e:
        next(stream)
    assert e.value.retryable and len(server.bodies) == 1


@pytest.mark.parametrize(
    "bad", ['data: {"choices": [{\n\n', "data: hello\n\n", event({"object": "list"}), event([1])]
)
def test_events_that_are_nonsense_are_an_error(server: Server, bad: str) -> None:
    telling(server, chunk("Ivo", CHAT), bad)
    with pytest.raises(GenerationError, match=r"no completion.*check base_url"):
        streamed(reader(server))


def test_a_server_that_does_not_stream_is_named(server: Server) -> None:
    with pytest.raises(GenerationError, match=r"'application/json', not a stream.*generate"):
        streamed(reader(server))
    assert reader(server).generate([REQUEST])[0].text == "Land 0"


def test_a_stream_may_be_silent_no_longer_than_the_timeout(server: Server) -> None:
    left: list[bool] = []

    def stuck(body: dict[str, Any]) -> Iterator[str]:
        yield chunk("Ivo", body)
        left.append(server.left(0))

    server.say = lambda n, body: (200, {}, stuck(body))
    stream = reader(server, timeout=0.3).stream_text(REQUEST)
    assert next(stream) == "Ivo"
    started = time.monotonic()
    with pytest.raises(GenerationError, match=r"no answer within 0\.3 seconds") as caught:
        next(stream)
    assert caught.value.retryable and time.monotonic() - started < 3
    wait_until(lambda: bool(left))
    assert left == [True], "the connection is closed, so that the server can stop"
    assert len(server.bodies) == 1
