"""One answer in pieces over real HTTP: what is shown, and that it ends as a whole answer would."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rulerag.errors import CutCompletionError, GenerationError, RefusedCompletionError
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.protocols import WritingGenerator
from rulerag.types import Completion, Document, GenerationRequest, Query
from tests.endpoints import Reply, Server, chunk, completion, event, failure, usage, wait_until

REQUEST = GenerationRequest(
    Query("q0", "what does Land 0 visit ?"), (Document("d", "A consult B."),)
)
CHAT: dict[str, Any] = {"messages": []}


def reader(server: Server, **options: Any) -> OpenAICompatibleGenerator:
    return OpenAICompatibleGenerator(server.url, "tiny", **{"timeout": 5.0, **options})


def streamed(
    generator: WritingGenerator,
    seen: list[str] | None = None,
    request: GenerationRequest = REQUEST,
) -> tuple[list[str], Completion]:
    """The pieces of an answer, seen one by one, and the completion that they make."""
    pieces, stream = [] if seen is None else seen, generator.stream_text(request)
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
    seen: list[str] = []

    def slowly(body: dict[str, Any]) -> Iterator[str]:
        for number, piece in enumerate(("Nor", "land", ".\nMore")):
            wait_until(lambda number=number: len(seen) == number, 5)  # type: ignore[misc]
            assert len(seen) == number, "the next piece is written when the one before was seen"
            yield chunk(piece, body)
        yield chunk("", body, finish_reason="stop") + usage()

    def say(number: int, body: dict[str, Any]) -> Reply:
        return (200, {}, slowly(body)) if number else failure(503, retry_after_ms="10")

    server.say = say
    generator = reader(server, api=api)
    assert isinstance(generator, WritingGenerator)
    pieces, answer = streamed(generator, seen)
    assert answer == Completion("Norland") and pieces == ["Nor", "land", ".\nMore"]
    assert generator.system_fingerprint == "fp_1"
    body = dict(server.bodies[1])
    assert body.pop("stream") is True and body.pop("stream_options") == {"include_usage": True}
    server.say = lambda n, body: (200, {}, completion("Norland.", body))
    generator.generate([REQUEST])
    assert server.bodies[2] == body, "the same question"


def test_thoughts_are_not_shown(server: Server) -> None:
    thought = [chunk(None, CHAT, reasoning="Who"), chunk(None, CHAT, reasoning_content=" is it")]
    rest = [chunk("Ivo.", CHAT), chunk("", CHAT, finish_reason="stop"), usage()]
    telling(server, chunk("", CHAT, role="assistant"), *thought, *rest)
    assert streamed(reader(server)) == (["Ivo."], Completion("Ivo"))
    split = ["\n", "<th", "ink>Who", " is it</thi", "nk>", "\n\n", "Ivo", "."]
    telling(server, *(chunk(text, CHAT) for text in split), *rest[1:])
    assert streamed(reader(server)) == (["Ivo", "."], Completion("Ivo"))
    telling(server, *(chunk(text, CHAT) for text in ("<", "b>Ivo", "</b>")), *rest[1:])
    generator = reader(server, options={"stream_options": None})
    assert streamed(generator) == (["<b>Ivo", "</b>"], Completion("<b>Ivo</b>"))
    assert "stream_options" not in server.bodies[-1]


def test_a_stream_that_says_nothing_is_the_error_of_a_whole_answer(server: Server) -> None:
    end = [chunk(None, CHAT, finish_reason="length"), usage()]
    telling(server, chunk("Ivo Mar", CHAT), *end)
    with pytest.raises(CutCompletionError) as one:
        streamed(reader(server))
    server.say = lambda n, body: (200, {}, completion("Ivo Mar", body, finish_reason="length"))
    with pytest.raises(CutCompletionError) as other:
        reader(server).generate([REQUEST])
    assert str(one.value) == str(other.value)
    parts = [chunk(None, CHAT, refusal="I can"), chunk(None, CHAT, refusal="not.")]
    telling(server, *parts, *end)
    with pytest.raises(RefusedCompletionError, match=r"'I cannot\.'"):
        streamed(reader(server))


@pytest.mark.parametrize(
    ("headers", "end", "message", "retryable"),
    [
        ({}, "", "ended the stream before the answer to query 'q0'.*try again", True),
        ({}, event("[DONE]"), "ended the stream before the answer", True),
        ({}, event({"error": {"message": "out of memory", "code": 500}}), "out of memory", True),
        ({}, event({"error": "out of memory"}), "out of memory", True),
        ({"Content-Length": "9999"}, "", r"broke off its answer \(.*is the server run", True),
        ({}, 'data: {"choices": [{\n\n', r"no completion.*check base_url", False),
        ({}, event({"object": "list"}), r"no completion.*check base_url", False),
    ],
)
def test_a_stream_that_breaks_off_is_an_error_and_not_an_answer(
    server: Server, headers: dict[str, str], end: str, message: str, retryable: bool
) -> None:
    server.say = lambda n, _: (200, headers, iter([chunk("Ivo Marek.\n", CHAT), end]))
    stream = reader(server).stream_text(REQUEST)
    assert next(stream) == "Ivo Marek.\n"
    with pytest.raises(GenerationError, match=message) as caught:
        next(stream)
    assert caught.value.retryable == retryable and caught.value.provider == server.url
    assert len(server.bodies) == 1, "what has begun is not tried again"
    server.say = lambda n, body: (200, {}, completion("Ivo", body))
    with pytest.raises(GenerationError, match=r"'application/json', not a stream.*generate"):
        streamed(reader(server))


def test_a_stream_that_is_silent_or_closed_lets_go_of_its_connection(server: Server) -> None:
    left: list[bool] = []

    def stuck(number: int, body: dict[str, Any]) -> Iterator[str]:
        yield chunk("Ivo", body)
        left.append(server.left(number))

    server.say = lambda n, body: (200, {}, stuck(n, body))
    stream = reader(server, timeout=0.3).stream_text(REQUEST)
    assert next(stream) == "Ivo"
    started = time.monotonic()
    with pytest.raises(GenerationError, match=r"no answer within 0\.3 seconds") as caught:
        next(stream)
    assert caught.value.retryable and time.monotonic() - started < 3
    closed = reader(server).stream_text(REQUEST)
    assert next(closed) == "Ivo"
    closed.close()
    wait_until(lambda: len(left) == 2)
    assert left == [True, True], "so that the server can stop"
