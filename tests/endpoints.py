"""A real HTTP server that speaks OpenAI's language: well, late, in pieces, wrongly or not."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], Any]
"""Status, headers and body."""


class Server(ThreadingHTTPServer):
    """Answers each call by a function of its number (from 0) and its body.

    The function gives (status, headers, body); a body that is an iterator is written piece by
    piece, one that is no text as JSON.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.say: Callable[[int, dict[str, Any]], Reply] = good
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.times: list[float] = []
        self.connections: list[socket.socket] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def left(self, number: int, seconds: float = 5.0) -> bool:
        """Whether the client of a call closes its connection within some seconds."""
        connection = self.connections[number]
        if connection.fileno() < 0 or not select.select([connection], [], [], seconds)[0]:
            return False
        try:
            return connection.recv(1, socket.MSG_PEEK) == b""
        except ConnectionResetError:
            return True


class Handler(BaseHTTPRequestHandler):
    """Counts calls and hands them to the server's function."""

    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.bodies)
            self.server.bodies.append(body)
            self.server.paths.append(self.path)
            self.server.keys.append(self.headers.get("Authorization", ""))
            self.server.heads.append(dict(self.headers))
            self.server.times.append(time.monotonic())
            self.server.connections.append(self.connection)
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        status, headers, answer = self.server.say(number, body)
        with self.server.lock:  # before the client can react to the answer
            self.server.at_once -= 1
        whole = not isinstance(answer, Iterator)
        kind = "application/json" if whole else "text/event-stream"
        pieces = [answer if isinstance(answer, str) else json.dumps(answer)] if whole else answer
        try:
            self.send_response(status)
            for name, value in {"Content-Type": kind, **headers}.items():
                self.send_header(name, value)
            if whole:
                self.send_header("Content-Length", str(len(pieces[0].encode())))
            self.end_headers()
            for piece in pieces:  # json.dumps writes ASCII
                self.wfile.write(piece.encode())
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client did not wait

    def log_message(self, *_: Any) -> None:
        """Keep test output clean."""


def prompt_of(body: dict[str, Any]) -> str:
    """What was asked, in either api."""
    return str(body["messages"][0]["content"] if "messages" in body else body["prompt"])


def completion(
    text: Any,
    body: dict[str, Any],
    *,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    system: str | None = None,
) -> dict[str, Any]:
    """A well-formed answer in the form of the api that was asked."""
    usage = {"prompt_tokens": 100, "completion_tokens": 3, "total_tokens": 103}
    choice: dict[str, Any]
    if "messages" in body:
        scores = {"content": [{"logprob": -0.5}, {"logprob": -0.25}]}
        message = {"role": "assistant", "content": text, "refusal": refusal}
        choice = {"message": message, "logprobs": scores}
    else:
        choice = {"text": text, "logprobs": {"token_logprobs": [-0.25, -0.5, -0.75]}}
    choices = [{"index": 0, "finish_reason": finish_reason, **choice}]
    return {
        "id": "1",
        "object": "x",
        "choices": choices,
        "usage": usage,
        "system_fingerprint": system,
    }


def event(data: Any) -> str:
    """A server-sent event; what is no text is written as JSON."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


def chunk(
    text: Any,
    body: dict[str, Any],
    *,
    finish_reason: str | None = None,
    logprobs: Any = None,
    **delta: Any,
) -> str:
    """An event of a stream in the form of the api that was asked, with a piece of the text."""
    choice: dict[str, Any] = {"text": text}
    if "messages" in body:
        choice = {"delta": {"content": text, **delta}}
    choice |= {"index": 0, "finish_reason": finish_reason, "logprobs": logprobs}
    return event({"id": "1", "object": "x", "choices": [choice], "system_fingerprint": "fp_1"})


def usage(prompt_tokens: int = 100, completion_tokens: int = 3) -> str:
    """The event that a stream with ``include_usage`` ends with."""
    tokens = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return event({"id": "1", "object": "x", "choices": [], "usage": tokens}) + event("[DONE]")


def good(_: int, body: dict[str, Any]) -> Reply:
    """Names the subject that the query asks about."""
    subject = prompt_of(body).rsplit("what does ", 1)[1].split(" visit")[0]
    return 200, {}, completion(f" {subject}.", body)


def failure(status: int, message: str = "no", **headers: str) -> Reply:
    """An error in OpenAI's form."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named, {"error": {"message": message, "type": "t", "code": None}}


@contextmanager
def serving() -> Iterator[Server]:
    """A server at work; it ends with the block."""
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running
        finally:  # a failed assertion in the block must not leave it running
            running.shutdown()
            thread.join()


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is true, or for some seconds."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
