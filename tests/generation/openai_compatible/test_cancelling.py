"""Requests that nobody waits for any longer: they end soon, and the server can see it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tqdm import tqdm

from rulerag.errors import GenerationError
from rulerag.generation.openai_compatible import OpenAICompatibleGenerator
from rulerag.types import Document, GenerationRequest, Query
from tests.endpoints import Reply, Server, chunk, failure, good, prompt_of, wait_until


def requests(number: int) -> list[GenerationRequest]:
    documents = (Document("d", "A consult B."),)
    return [
        GenerationRequest(Query(f"q{i}", f"what does Land {i} visit ?"), documents)
        for i in range(number)
    ]


def reader(server: Server, **options: Any) -> OpenAICompatibleGenerator:
    given = {"timeout": 30.0, "concurrency": 3, **options}
    return OpenAICompatibleGenerator(server.url, "tiny", **given)


class Stuck:
    """Answers about one land, and works on every other question until its client leaves."""

    def __init__(self, server: Server, answered: str = "Land 0 ") -> None:
        self.server, self.answered = server, answered
        self.left: dict[int, bool] = {}
        server.say = self

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        if self.answered not in prompt_of(body):
            self.left[number] = self.server.left(number)
        return good(number, body)

    def seen(self, number: int) -> list[bool]:
        """Of some calls, whether each client left."""
        wait_until(lambda: len(self.left) == number)
        return list(self.left.values())


@pytest.fixture(autouse=True)
def no_thread_is_left(server: Server) -> Iterator[None]:
    """What a test begins must have ended with it: threads of its own, and those of the server."""
    tqdm(disable=True).close()  # tqdm keeps one thread for all bars of the process
    before = threading.active_count()
    yield
    wait_until(lambda: threading.active_count() <= before)
    assert threading.active_count() <= before, threading.enumerate()


def begun(server: Server, number: int) -> None:
    wait_until(lambda: len(server.bodies) >= number)


def test_closing_an_iterator_drops_the_calls_under_way(server: Server) -> None:
    stuck, generator = Stuck(server), reader(server)
    stream = generator.stream(requests(30))
    assert next(stream).completion.text == "Land 0"
    begun(server, 4)
    started = time.monotonic()
    stream.close()
    assert time.monotonic() - started < 2
    assert stuck.seen(3) == [True] * 3
    assert len(server.bodies) == 4, "no further call begins"
    stuck.answered = "Land"
    assert generator.generate(requests(4))[3].text == "Land 3", "it may be asked again"


def test_an_iterator_that_is_forgotten_is_closed(server: Server) -> None:
    stuck = Stuck(server)
    for arrival in reader(server).stream(requests(30)):
        assert arrival.completion.text == "Land 0"
        begun(server, 4)
        break
    assert stuck.seen(3) == [True] * 3


def test_closing_a_text_that_is_written_closes_its_connection(server: Server) -> None:
    left: list[bool] = []

    def endless(body: dict[str, Any]) -> Iterator[str]:
        yield chunk("Ivo", body)
        left.append(server.left(0))

    server.say = lambda n, body: (200, {}, endless(body))
    stream = reader(server).stream_text(requests(1)[0])
    assert next(stream) == "Ivo"
    started = time.monotonic()
    stream.close()
    assert time.monotonic() - started < 2
    wait_until(lambda: bool(left))
    assert left == [True]


def interrupt_after(server: Server, number: int, seconds: float = 0.2) -> threading.Thread:
    """Press Ctrl-C a while after some calls have begun."""
    main = threading.get_ident()

    def press() -> None:
        begun(server, number)
        time.sleep(seconds)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_an_interrupt_waits_for_what_is_under_way_as_long_as_a_call_may_take(
    server: Server,
) -> None:
    go_on = threading.Event()

    def say(number: int, body: dict[str, Any]) -> Reply:
        if "Land 1 " in prompt_of(body):
            go_on.wait(10)
        elif "Land 0 " not in prompt_of(body):
            left.append(server.left(number))
        return good(number, body)

    left: list[bool] = []
    server.say = say
    seen, pressed = [], interrupt_after(server, 4)
    threading.Timer(0.6, go_on.set).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for arrival in reader(server, timeout=1.5).stream(requests(30)):
            seen.append(arrival.place)
    assert 0.5 < time.monotonic() - started < 6
    assert seen == [0, 1], "what came in time is handed out, the rest is dropped"
    wait_until(lambda: len(left) == 2)
    assert left == [True, True] and len(server.bodies) == 4
    pressed.join()


def test_a_second_interrupt_waits_for_nothing(server: Server) -> None:
    stuck = Stuck(server)
    pressed = [interrupt_after(server, 4, 0.2), interrupt_after(server, 4, 0.7)]
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        reader(server).generate(requests(30))
    assert 0.5 < time.monotonic() - started < 6
    assert stuck.seen(3) == [True] * 3
    for thread in pressed:
        thread.join()


def test_an_interrupt_ends_a_text_that_is_written(server: Server) -> None:
    left: list[bool] = []

    def endless(body: dict[str, Any]) -> Iterator[str]:
        yield chunk("Ivo", body)
        left.append(server.left(0))

    server.say = lambda n, body: (200, {}, endless(body))
    pressed = interrupt_after(server, 1)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(reader(server).stream_text(requests(1)[0]))
    assert time.monotonic() - started < 4
    wait_until(lambda: bool(left))
    assert left == [True]
    pressed.join()


def test_a_call_that_takes_too_long_is_dropped(server: Server) -> None:
    stuck = Stuck(server)
    started = time.monotonic()
    with pytest.raises(GenerationError, match=r"no answer within 0\.3 seconds"):
        reader(server, timeout=0.3, max_retries=0).generate(requests(30))
    assert time.monotonic() - started < 4
    seen = stuck.seen(3)
    assert seen[:2] == [True, True] and all(seen), "on the server's side too"


def test_a_failure_does_not_wait_for_calls_that_are_tried_again(server: Server) -> None:
    def say(number: int, body: dict[str, Any]) -> Reply:
        if "Land 1 " in prompt_of(body):
            begun(server, 2)
            return failure(400, "no such thing")
        return failure(429, Retry_After="60") if "Land 0 " in prompt_of(body) else good(0, body)

    server.say = say
    started = time.monotonic()
    with pytest.raises(GenerationError, match="no such thing"):
        reader(server, timeout=0.5, concurrency=2).generate(requests(2))
    assert time.monotonic() - started < 4, "not a minute"
