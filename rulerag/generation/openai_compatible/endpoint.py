"""One OpenAI-compatible server: many calls at a time, or one that streams, and what failures mean.

Calls run in a thread with an event loop of its own, which lives as long as an iteration: a loop can
let go of a call at any moment, and then closes its connection, by which servers know that nobody
waits any longer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from rulerag.errors import (
    ConfigError,
    GenerationError,
    MissingDependencyError,
    RefusedCompletionError,
)
from rulerag.generation.openai_compatible.answers import FILTERED, at

Task = TypeVar("Task")
Result = TypeVar("Result")

_MOST_CONNECTIONS = 1_000
"""More take the client longer to look through than they gain."""

_NO_QUOTA = "insufficient_quota"
_RETRYABLE = frozenset({408, 409, 425, 429})
_FINAL_5XX = frozenset({501, 505})
_HINTS = {
    401: "check the API key: api_key=, or the variable that api_key_env names",
    403: "the API key may not use this model",
    404: "check base_url (it usually ends in /v1), the model's name and api=",
    429: "lower concurrency=, or try again later",
}
# How servers say that a prompt is too long: OpenAI, vLLM and Ollama, llama.cpp.
_TOO_LONG = ("context length", "context size", "context window")
_SHORTEN = (
    "lower max_prompt_tokens= (documents that do not fit are left out), or start the server with a "
    "longer context"
)


class Endpoint:
    """The server at an address.

    Args:
        base_url: the address, for example ``http://localhost:8000/v1``.
        key: the API key; may be empty. No message shows it.
        timeout: seconds that the server may be silent.
        max_retries: how often one call is tried again.

    Raises:
        ConfigError: it is no address, or the key cannot be sent.
        MissingDependencyError: the openai package is not installed.
    """

    def __init__(self, base_url: str, key: str, *, timeout: float, max_retries: int) -> None:
        try:
            import openai  # noqa: F401 (what is missing is told before the first call)
        except ImportError:
            raise MissingDependencyError("openai", "openai") from None
        if not (key.isascii() and key.isprintable()):
            raise ConfigError("the API key holds characters that cannot be sent", key="api_key")
        self.address = _public_address(base_url)
        self.timeout, self.max_retries = timeout, max_retries
        self.retries = 0
        self._url, self._key = base_url, key
        self._lock = threading.Lock()

    def in_parallel(
        self,
        tasks: Sequence[Task],
        call: Callable[[Any, Task], Awaitable[Result]],
        at_once: int,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Calls at the same time; each task with its result as soon as it is there, in any order.

        When a call fails, or the user interrupts, no further one begins; those under way that end
        well within the time that a server may be silent are handed out before the failure is
        raised. When the iterator is closed they are dropped, and their connections closed.

        Args:
            tasks: what is called for.
            call: takes a client, for :meth:`post`, and a task.
            at_once: the most calls at a time; never more than 1,000.

        Raises:
            Exception: what the first failing call raised.
            KeyboardInterrupt: the user interrupted; at once when that is the second time.
        """
        import anyio
        from anyio.from_thread import start_blocking_portal

        at_once = min(at_once, _MOST_CONNECTIONS)
        arrived: SimpleQueue[tuple[Task, Result] | None] = SimpleQueue()
        failures: list[BaseException] = []
        places, group = asyncio.Semaphore(at_once), list[Any]()

        async def end_soon(failure: BaseException) -> None:
            failures.append(failure)
            for scope in group:
                scope.deadline = min(scope.deadline, anyio.current_time() + self.timeout)

        async def one(client: Any, task: Task) -> None:
            async with places:
                if failures:
                    return
                try:
                    arrived.put((task, await call(client, task)))
                except Exception as error:  # noqa: BLE001 (raised where the results are read)
                    await end_soon(error)

        async def run() -> None:
            try:
                async with self._client(at_once) as client, anyio.create_task_group() as tasks_of:
                    group.append(tasks_of.cancel_scope)
                    for task in tasks:
                        tasks_of.start_soon(one, client, task)
            finally:
                arrived.put(None)

        interrupts = list[KeyboardInterrupt]()
        # Left by an exception, also that of a closed iterator, the portal cancels what runs.
        with start_blocking_portal() as portal:
            running = portal.start_task_soon(run)
            while True:
                try:
                    found = arrived.get()
                except KeyboardInterrupt as interrupt:
                    if interrupts:
                        raise
                    interrupts.append(interrupt)
                    portal.start_task_soon(end_soon, interrupt)
                    continue
                if found is None:
                    break
                yield found
            running.result()
        for failure in [*interrupts, *failures]:
            raise failure

    async def post(self, client: Any, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to one call, as JSON that has ``choices``.

        Raises:
            GenerationError: the call failed for good, or something else came back.
        """
        import openai

        try:
            answer = await client.post(path, cast_to=object, body=body)
        except openai.APIError as error:
            raise self._failure(error) from None
        except ValueError as error:  # no JSON
            answer = getattr(error, "doc", "")
        if not isinstance(at(answer, "choices"), list):
            raise self._nonsense(answer)
        return answer

    def events(self, path: str, body: Mapping[str, Any]) -> Generator[Any, None, None]:
        """The server-sent events of one call, each as JSON that has ``choices``.

        Raises:
            GenerationError: the call failed, before its first event or later; one that has begun is
                not tried again.
        """
        from anyio.from_thread import start_blocking_portal

        arrived: SimpleQueue[Any] = SimpleQueue()

        async def run() -> None:
            try:
                await self._receive(path, body, arrived.put)
            finally:
                arrived.put(None)

        with start_blocking_portal() as portal:
            running = portal.start_task_soon(run)
            while (event := arrived.get()) is not None:
                yield event
            running.result()

    async def _receive(
        self, path: str, body: Mapping[str, Any], put: Callable[[Any], None]
    ) -> None:
        import openai

        begun = False
        try:
            async with self._client() as client:
                stream = await client.post(
                    path,
                    cast_to=object,
                    body=body,
                    stream=True,
                    stream_cls=openai.AsyncStream[object],
                )
                async with stream:
                    kind = stream.response.headers.get("content-type", "")
                    if not kind.startswith("text/event-stream"):
                        raise self.error(
                            f"answered {kind or 'something'!r}, not a stream of events",
                            "this server does not stream: ask it by generate",
                        )
                    async for event in stream:
                        if not isinstance(at(event, "choices"), list):
                            raise self._nonsense(event)
                        put(event)
                        begun = True
        except openai.APIError as error:
            raise self._failure(error, begun=begun) from None
        except ValueError as error:  # no JSON
            raise self._nonsense(getattr(error, "doc", "")) from None

    def error(
        self,
        message: str,
        hint: str | None = None,
        kind: type[GenerationError] = GenerationError,
        *,
        retryable: bool = False,
    ) -> GenerationError:
        """An error of this endpoint, without the key."""
        safe = message.replace(self._key, "***") if self._key else message
        return kind(safe, provider=self.address, retryable=retryable, hint=hint)

    @asynccontextmanager
    async def _client(self, at_once: int = 1) -> AsyncIterator[Any]:
        """A client; hooks count its retries and say which failures it should try again.

        Args:
            at_once: so many connections may be open; all of them are used again.
        """
        import httpx2
        import openai

        async def count(request: Any) -> None:
            if request.headers.get("x-stainless-retry-count", "0") != "0":
                with self._lock:
                    self.retries += 1

        hooks: dict[str, list[Callable[..., Any]]] = {"request": [count], "response": [_mark_retry]}
        limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        http = openai.DefaultAsyncHttpxClient(
            event_hooks=hooks, verify=self._certificates, limits=limits
        )
        async with openai.AsyncOpenAI(
            base_url=self._url,
            api_key=self._key or "none",
            timeout=self.timeout,
            max_retries=self.max_retries,
            http_client=http,
        ) as client:
            yield client

    @cached_property
    def _certificates(self) -> Any:
        """Whom to trust, read once: that takes longer than all else about a client."""
        import httpx2

        return httpx2.create_ssl_context()

    def _nonsense(self, answer: Any) -> GenerationError:
        start = " ".join(str(answer).split())[:120]
        return self.error(
            f"answered something that is no completion: {start!r}",
            "check base_url (it usually ends in /v1) and api=",
        )

    def _failure(self, error: Any, *, begun: bool = False) -> GenerationError:
        """What a failed call means, before anything was answered or after it had begun."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            message = f"no answer within {self.timeout:g} seconds"
            return self.error(message, "raise timeout=, or lower concurrency=", retryable=True)
        if isinstance(error, openai.APIConnectionError):
            cause = str(error.__cause__ or error) or "no connection"
            what = "broke off its answer" if begun else "cannot be reached"
            hint = "is the server running at this address?"
            return self.error(f"{what} ({cause})", hint, retryable=True)
        status, code = getattr(error, "status_code", 0), getattr(error, "code", None)
        reason = _reason(error)
        message = f"status {status}: {reason}" if status else reason
        if code in FILTERED:
            hint = "take another model, or leave out what its content filter objects to"
            return self.error(f"refused the question: {message}", hint, RefusedCompletionError)
        if any(words in reason.lower() for words in _TOO_LONG):
            return self.error(message, _SHORTEN)
        # Without a status the server gave up in the middle of a stream.
        passing = status in _RETRYABLE or (status >= 500 and status not in _FINAL_5XX)
        retryable = (passing or not status) and code != _NO_QUOTA
        return self.error(message, _HINTS.get(status), retryable=retryable)


def _reason(error: Any) -> str:
    """What a server says of a failure, in the words of its body."""
    body = error.body
    for key in ("message", "detail"):  # OpenAI, vLLM, Ollama and llama.cpp; transformers
        if isinstance(found := at(body, key), str) and found.strip():
            body = found
            break
    return " ".join(str(body or error.message).split())[:300]


async def _mark_retry(response: Any) -> None:
    """Say of a failure whether to try again where the client would decide otherwise by its status.

    The client obeys this header before the status.
    """
    status = response.status_code
    if status == 425:
        response.headers["x-should-retry"] = "true"
    elif status in _FINAL_5XX or (status == 429 and _NO_QUOTA.encode() in await response.aread()):
        response.headers["x-should-retry"] = "false"


def _public_address(url: str) -> str:
    """The address without user name and password.

    Raises:
        ConfigError: it is no address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(
            "expected an address that starts with http:// or https://",
            key="base_url",
            hint="for example http://localhost:8000/v1",
        )
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
