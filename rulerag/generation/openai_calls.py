"""Calls to an OpenAI-compatible endpoint: what is tried again, when, and what failures say."""

from __future__ import annotations

import email.utils
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit, urlunsplit

from rulerag.errors import (
    ConfigError,
    GenerationError,
    MissingDependencyError,
    RefusedCompletionError,
)

__all__ = ["Endpoint", "Stopped", "in_parallel", "public_url"]

Task = TypeVar("Task")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_RETRYABLE = frozenset({408, 409, 425, 429})
_FINAL_5XX = frozenset({501, 505})
_FILTERED = frozenset({"content_filter", "content_policy_violation"})
_LONGEST_BACKOFF = 30.0
_HINTS = {
    401: "check the API key: api_key=, or the variable that api_key_env names",
    403: "the API key may not use this model",
    404: "check base_url (it usually ends in /v1), the model's name and api=",
    429: "lower concurrency=, or try again later",
}


class Stopped(Exception):
    """Another call failed for good, so this one is not made."""


def in_parallel(
    tasks: Iterable[Task], call: Callable[[Task, threading.Event], Result], threads: int
) -> Iterator[tuple[Task, Result]]:
    """Calls in threads; each task with its result as soon as it is there, in any order.

    When a call fails, or the user interrupts, no further one begins and those under way are told to
    stop; those that end well all the same are handed out before the failure is raised.

    Args:
        tasks: what to call for.
        call: takes a task, and an event that is set when its result is no longer wanted.
        threads: the most calls at a time.

    Raises:
        Exception: what the first failing call raised; :class:`Stopped` is no failure.
        KeyboardInterrupt: the user interrupted; at once when that is the second time.
    """
    stop = threading.Event()
    ready: SimpleQueue[Future[Result]] = SimpleQueue()
    failure: BaseException | None = None
    with ThreadPoolExecutor(max_workers=threads) as pool:

        def end() -> None:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

        try:
            owners = {pool.submit(call, task, stop): task for task in tasks}
            for future in owners:
                future.add_done_callback(ready.put)
            while owners:
                try:
                    future = ready.get() if failure is None else next(iter(owners))
                    error = None if future.cancelled() else future.exception()
                except KeyboardInterrupt as interrupt:
                    if isinstance(failure, KeyboardInterrupt):
                        raise
                    failure = interrupt
                    end()
                    continue
                task = owners.pop(future)
                if error is not None:
                    failure = failure or (None if isinstance(error, Stopped) else error)
                    end()
                elif not future.cancelled():
                    yield task, future.result()
        finally:
            end()  # also where nobody wants the rest
    if failure is not None:
        raise failure


def public_url(url: str) -> str:
    """The address without user name and password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


class Endpoint:
    """One endpoint with its key: JSON calls with retries that all threads share.

    A call is tried again after a failed connection, a timeout and the statuses 408, 409, 425, 429
    and 5xx, waiting ``backoff * 2**n`` seconds with some chance in it. Where the endpoint says how
    long to wait (``Retry-After``), every thread waits that long. The key stands in no message.

    Args:
        base_url: the address, usually ending in ``/v1``.
        api_key: the key; None for endpoints without one.
        timeout: seconds that the endpoint may be silent.
        max_retries: how often one call is tried again.
        backoff: seconds before the first retry.
        max_wait: the longest ``Retry-After`` that is waited for, in seconds.

    Raises:
        ConfigError: an address that is none, a number out of range, or a key that cannot be sent.
        MissingDependencyError: the openai package is not installed.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        timeout: float,
        max_retries: int,
        backoff: float,
        max_wait: float,
    ) -> None:
        if urlsplit(base_url).scheme not in ("http", "https") or not urlsplit(base_url).netloc:
            raise ConfigError(
                "expected an address that starts with http:// or https://",
                key="base_url",
                hint="for example http://localhost:8000/v1",
            )
        if timeout <= 0 or max_retries < 0 or backoff < 0:
            raise ConfigError("timeout must be above 0, max_retries and backoff not below 0")
        key = (api_key or "").strip()
        if key and not (key.isascii() and key.isprintable()):
            raise ConfigError("the API key holds characters that cannot be sent", key="api_key")
        try:
            import openai
        except ImportError:
            raise MissingDependencyError("openai") from None
        self.name = public_url(base_url)
        self.retries = 0
        self.max_retries, self.timeout = max_retries, timeout
        self.backoff, self.max_wait = backoff, max_wait
        self._key = key
        self._lock = threading.Lock()
        self._resume = 0.0
        self._client = openai.OpenAI(
            base_url=base_url, api_key=key or "none", timeout=timeout, max_retries=0
        )

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    def call(
        self, api: str, payload: Mapping[str, Any], stop: threading.Event | None = None
    ) -> dict[str, Any]:
        """The endpoint's answer to one call.

        Args:
            api: ``chat`` or ``completions``.
            payload: the body.
            stop: set when the answer is no longer wanted.

        Raises:
            GenerationError: the call failed for good; says whether a later one may succeed.
            Stopped: ``stop`` was set.
        """
        import openai

        stop = stop or threading.Event()
        for attempt in range(self.max_retries + 1):
            self._wait_for_turn(stop)
            try:
                return self._once(api, payload)
            except openai.APIError as error:
                failure, wait = self._judge(error, attempt)
            if not failure.retryable or attempt == self.max_retries:
                break
            if wait > self.max_wait:
                failure = self._error(f"it asks to wait {wait:.0f} seconds", True, _HINTS[429])
                break
            with self._lock:
                self.retries += 1
            logger.info("%s; trying again in %.1f s", failure.message, wait)
            if stop.wait(wait):
                raise Stopped
        raise failure from None

    def _wait_for_turn(self, stop: threading.Event) -> None:
        with self._lock:
            pause = self._resume - time.monotonic()
        if stop.wait(max(0.0, pause)):
            raise Stopped

    def _once(self, api: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        resource: Any = self._client.chat.completions if api == "chat" else self._client.completions
        create: Callable[..., Any] = resource.with_raw_response.create
        named = {"model", "messages", "prompt"}
        body = {key: value for key, value in payload.items() if key not in named}
        raw = create(**{k: payload[k] for k in named & payload.keys()}, extra_body=body)
        text = raw.http_response.text
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
            self._nonsense(text)
        return answer

    def _nonsense(self, text: str) -> NoReturn:
        start = self._safe(" ".join(text.split())[:120])
        raise self._error(
            f"answered something that is no completion: {start!r}",
            False,
            "check base_url (it usually ends in /v1) and api=",
        )

    def _judge(self, error: Any, attempt: int) -> tuple[GenerationError, float]:
        """A failed call as an error, and how long to wait before the next."""
        import openai

        wait = min(_LONGEST_BACKOFF, self.backoff * 2**attempt) * random.uniform(0.75, 1.25)
        if isinstance(error, openai.APITimeoutError):
            message = f"no answer within {self.timeout:g} seconds"
            return self._error(message, True, "raise timeout=, or lower concurrency="), wait
        if isinstance(error, openai.APIConnectionError):
            cause = self._safe(str(error.__cause__ or error)) or "no connection"
            message = f"cannot be reached ({cause})"
            return self._error(message, True, "is the server running at this address?"), wait
        status = getattr(error, "status_code", None)
        if status is None:
            return self._error(self._safe(str(error)), False, None), wait
        retryable = status in _RETRYABLE or (status >= 500 and status not in _FINAL_5XX)
        if getattr(error, "code", None) == "insufficient_quota":
            retryable = False
        asked = _retry_after(error.response.headers)
        if asked is not None:
            wait = asked
            if retryable and asked <= self.max_wait:
                with self._lock:
                    self._resume = max(self._resume, time.monotonic() + asked)
        reason = self._safe(str(error.message))[:300]
        if getattr(error, "code", None) in _FILTERED:
            hint = "take another model, or leave out what its content filter objects to"
            refusal = f"refused the question: status {status}: {reason}"
            return RefusedCompletionError(refusal, provider=self.name, hint=hint), wait
        return self._error(f"status {status}: {reason}", retryable, _HINTS.get(status)), wait

    def _error(self, message: str, retryable: bool, hint: str | None) -> GenerationError:
        return GenerationError(message, provider=self.name, retryable=retryable, hint=hint)

    def _safe(self, text: str) -> str:
        """A text without the key."""
        return text.replace(self._key, "***") if self._key else text


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks to wait: a number, or the time until a date."""
    value = headers.get("retry-after-ms")
    if value is not None and value.strip().isdigit():
        return int(value) / 1000
    value = (headers.get("retry-after") or "").strip()
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
