"""One OpenAI-compatible server: many calls at a time, or one that streams, and what failures mean.

Waiting, trying again and limits are the openai client's own. Calls side by side run in a thread
with an event loop, which lives as long as an iteration: a loop can let go of a call at any moment,
and the client then closes its connection, by which servers know that nobody waits any longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
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
from rulerag.generation.openai_compatible.transport import clients

Key = TypeVar("Key")
Result = TypeVar("Result")

_HINTS = {
    401: "check the API key: api_key=, or the variable that api_key_env names",
    403: "the API key may not use this model",
    404: "check base_url (it usually ends in /v1), the model's name and api=",
    429: "lower concurrency=, or try again later",
}
# How servers say that a prompt is too long: OpenAI, vLLM and Ollama, llama.cpp.
_TOO_LONG = ("context length", "context size", "context window")
_OPENAI = "api.openai.com"
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

    Attributes:
        resolve: from a host and a port to the address that is called, once it is known that it may
            be; None for every address.

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
        self.timeout, self._key = timeout, key
        self.resolve: Callable[[str, int], str] | None = None
        self._known: dict[str, dict[str, Any]] = {}
        self._options: dict[str, Any] = {
            "base_url": base_url,
            "api_key": key or "none",
            "timeout": timeout,
            "max_retries": max_retries,
        }

    def in_parallel(
        self,
        path: str,
        bodies: Mapping[Key, Mapping[str, Any]],
        read: Callable[[Key, Any], Result],
        at_once: int,
    ) -> Generator[tuple[Key, Result], None, None]:
        """Calls at the same time; the result of each as soon as it is there, in any order.

        When a call fails, or the user interrupts, no further one begins; those under way that end
        well are handed out before the failure is raised. When the iterator is closed they are
        dropped, and their connections closed.

        Args:
            path: where the calls go.
            bodies: what is sent, by a key of each call.
            read: makes a result of a key and the answer to its call, as JSON.
            at_once: the most calls at a time.

        Raises:
            Exception: what the first failing call or reading raised.
            KeyboardInterrupt: the user interrupted; at once when that is the second time.
        """
        import openai
        from anyio.from_thread import start_blocking_portal

        arrived: SimpleQueue[tuple[Key, Result] | None] = SimpleQueue()
        failures: list[BaseException] = []
        places = asyncio.Semaphore(at_once)

        async def one(client: Any, key: Key) -> None:
            async with places:
                if failures:
                    return
                try:
                    answer = await self._answer(client, path, bodies[key])
                    arrived.put((key, read(key, answer)))
                except Exception as error:  # noqa: BLE001 (raised where the results are read)
                    failures.append(error)

        async def run() -> None:
            http = self._clients[1]()
            try:
                async with openai.AsyncOpenAI(**self._options, http_client=http) as client:
                    self._sign(client)
                    await asyncio.gather(*(one(client, key) for key in bodies))
            finally:
                arrived.put(None)

        # Left by an exception, also that of a closed iterator, the portal cancels what runs.
        with start_blocking_portal() as portal:
            running = portal.start_task_soon(run)
            while True:
                try:
                    result = arrived.get()
                except KeyboardInterrupt as interrupt:
                    if any(isinstance(failure, KeyboardInterrupt) for failure in failures):
                        raise
                    failures.insert(0, interrupt)
                    continue
                if result is None:
                    break
                yield result
            running.result()
        for failure in failures:
            raise failure

    async def _answer(self, client: Any, path: str, body: Mapping[str, Any]) -> Any:
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
        import openai

        begun = False
        try:
            with (
                openai.OpenAI(**self._options, http_client=self._clients[0]()) as client,
                self._sign(client).post(
                    path, cast_to=object, body=body, stream=True, stream_cls=openai.Stream[object]
                ) as stream,
            ):
                kind = stream.response.headers.get("content-type", "")
                if not kind.startswith("text/event-stream"):
                    raise self.error(
                        f"answered {kind or 'something'!r}, not a stream of events",
                        "this server does not stream: ask it by generate",
                    )
                for event in stream:
                    if not isinstance(at(event, "choices"), list):
                        raise self._nonsense(event)
                    begun = True
                    yield event
        except openai.APIError as error:
            raise self._failure(error, begun=begun) from None
        except ValueError as error:  # no JSON
            raise self._nonsense(getattr(error, "doc", "")) from None

    def about(self, model: str) -> dict[str, Any]:
        """What the server says of a model and of itself, asked once; nothing where it is silent."""
        if model in self._known:
            return self._known[model]
        import openai

        client = openai.OpenAI(**self._options | {"max_retries": 0}, http_client=self._clients[0]())
        found: dict[str, Any] = {}
        with self._sign(client):
            root = self._options["base_url"].rstrip("/").removesuffix("/v1")
            with suppress(openai.OpenAIError, ValueError):
                served = (one.to_dict() for one in client.models.list())
                found["served"] = next((one for one in served if one["id"] == model), None)
            for name, place in {"version": "version", "flags": "server_info"}.items():
                with suppress(openai.OpenAIError, ValueError):
                    found[name] = client.get(f"{root}/{place}", cast_to=object)
        if "flags" in found:  # beside them stands its environment, which is nobody's business
            found["flags"] = at(found["flags"], "vllm_config")
        self._known[model] = found
        return found

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

    @property
    def _clients(self) -> tuple[Callable[[], Any], Callable[[], Any]]:
        """What makes connections; none sends a key on to wherever an answer points."""
        import openai

        if self.resolve is not None:
            return clients(self.resolve, self._certificates)
        options: dict[str, Any] = {"verify": self._certificates, "follow_redirects": False}
        return (
            lambda: openai.DefaultHttpxClient(**options),
            lambda: openai.DefaultAsyncHttpxClient(**options),
        )

    def _sign(self, client: Any) -> Any:
        """A client that names its organisation and project to OpenAI alone."""
        if urlsplit(self.address).hostname != _OPENAI:
            client.organization = client.project = None
        return client

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
        passing = not status or status in (408, 409, 429) or status >= 500
        retryable = passing and code != "insufficient_quota"
        return self.error(message, _HINTS.get(status), retryable=retryable)


def _reason(error: Any) -> str:
    """What a server says of a failure, in the words of its body."""
    body = error.body
    for key in ("message", "detail"):  # OpenAI, vLLM, Ollama and llama.cpp; transformers
        if isinstance(text := at(body, key), str) and text.strip():
            body = text
            break
    return " ".join(str(body or error.message).split())[:300]


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
