"""A real HTTP server that speaks OpenAI's language: answers well, late, wrongly or not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Answers each call by a function of its number (from 0) and its body.

    The function gives (status, headers, body); a body that is no text is written as JSON.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.say: Callable[[int, dict[str, Any]], tuple[int, dict[str, str], Any]] = good
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str] = []
        self.times: list[float] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


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
            self.server.times.append(time.monotonic())
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        status, headers, answer = self.server.say(number, body)
        with self.server.lock:  # before the client can react to the answer
            self.server.at_once -= 1
        data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
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
        choice = {"text": text, "logprobs": {"token_logprobs": [None, -0.5, -1.0]}}
    choices = [{"index": 0, "finish_reason": finish_reason, **choice}]
    return {
        "id": "1",
        "object": "x",
        "choices": choices,
        "usage": usage,
        "system_fingerprint": system,
    }


def good(_: int, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    """Names the subject that the query asks about."""
    subject = prompt_of(body).rsplit("what does ", 1)[1].split(" visit")[0]
    return 200, {}, completion(f" {subject}.", body)


def failure(status: int, message: str = "no", **headers: str) -> tuple[int, dict[str, str], Any]:
    """An error in OpenAI's form."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named, {"error": {"message": message, "type": "t", "code": None}}


@contextmanager
def serving() -> Iterator[Server]:
    """A server at work; it ends with the block."""
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()
