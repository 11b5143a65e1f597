"""How items travel to workers in chunks, and how outcomes and errors come back."""

from __future__ import annotations

import pickle
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from rulerag.errors import ConfigError, RuleRAGError

T = TypeVar("T")

Initializer = Callable[..., object]
AHEAD = 4
"""Chunks in flight for each worker: enough to keep all busy, few enough to hold memory down."""

# What the initializer of this worker raised. It is raised with the first item: an error here would
# only break the pool, without a word on why.
_failed_start: Exception | None = None


def start_worker(initializer: Initializer | None, initargs: tuple[Any, ...]) -> None:
    """Begin a worker process."""
    # Ctrl-C reaches the whole process group; only the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    initialize(initializer, initargs)


def initialize(initializer: Initializer | None, initargs: tuple[Any, ...]) -> None:
    """Call the initializer of a worker; what it raises is kept for the first item."""
    global _failed_start
    _failed_start = None
    if initializer is not None:
        try:
            initializer(*initargs)
        except Exception as error:  # noqa: BLE001 - raised where map was called
            _failed_start = _portable(error)


def in_order(
    executor: Executor,
    workers: int,
    run: Callable[[list[Any]], list[tuple[bool, Any]]],
    items: Iterable[Any],
    chunk_size: int,
) -> Iterator[Any]:
    """Results in the order of the items, with a few chunks ahead of what is consumed."""
    waiting: deque[tuple[int, list[Any], Future[Any]]] = deque()
    chunks = chunks_of(items, chunk_size)
    try:
        while True:
            for start, chunk in islice(chunks, workers * AHEAD - len(waiting)):
                waiting.append((start, chunk, executor.submit(run, chunk)))
            if not waiting:
                return
            start, chunk, future = waiting.popleft()
            yield from results(_outcomes(future, start, chunk), start, chunk)
    except BrokenProcessPool as error:
        raise RuleRAGError(
            f"a worker process died at or after item {start} ({short(chunk[0])})",
            hint="it may have run out of memory: try fewer workers",
        ) from error


def _outcomes(future: Future[Any], start: int, chunk: list[Any]) -> list[tuple[bool, Any]]:
    try:
        return future.result()  # type: ignore[no-any-return]
    except BrokenProcessPool:
        raise
    except Exception as error:
        name_item(error, start, chunk[0])  # an item or a result that cannot be pickled
        raise


def run_chunk(function: Callable[[Any], Any], chunk: list[Any]) -> list[tuple[bool, Any]]:
    """Outcomes ``(succeeded, result or error)`` up to the first error, all picklable."""
    if _failed_start is not None:
        return [(False, _failed_start)]
    outcomes: list[tuple[bool, Any]] = []
    for item in chunk:
        try:
            outcomes.append((True, function(item)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where map was called
            outcomes.append((False, _portable(error)))
            break
    return outcomes


def _portable(error: Exception) -> Exception:
    """The error with its traceback as a note; a stand-in where it cannot travel."""
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - an exception class may fail to pickle in any way
        stand_in = RuleRAGError(f"{type(error).__name__}: {error}")
        stand_in.__notes__ = error.__notes__
        return stand_in
    return error


def results(outcomes: list[tuple[bool, Any]], start: int, chunk: list[Any]) -> Iterator[Any]:
    """The results of a chunk; raises the error that ends it, naming its item."""
    for offset, (succeeded, value) in enumerate(outcomes):
        if not succeeded:
            name_item(value, start + offset, chunk[offset])
            raise value
        yield value


def name_item(error: Exception, number: int, item: object) -> None:
    """Say in the error which item it comes from: in the message where it is one of ours."""
    place = f"while working on item {number} ({short(item)})"
    if isinstance(error, RuleRAGError):
        error.message = f"{error.message} ({place})"
        error.args = (str(error),)
    else:
        error.add_note(place)


def short(item: object, limit: int = 80) -> str:
    """An item in a few words, for messages."""
    text = repr(item)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def chunks_of(items: Iterable[T], size: int) -> Iterator[tuple[int, list[T]]]:
    """Lists of up to ``size`` items, each with the number of its first.

    Raises:
        ConfigError: a size below 1.
    """
    if size < 1:
        raise ConfigError(f"{size} items in a chunk", key="chunk_size", hint="give 1 or more")
    iterator, start = iter(items), 0
    while chunk := list(islice(iterator, size)):
        yield start, chunk
        start += len(chunk)
