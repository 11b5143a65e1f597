"""How items travel to workers, and how outcomes and errors come back."""

from __future__ import annotations

import pickle
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from rulerag.errors import RuleRAGError

Initializer = Callable[..., object]
Outcome = tuple[bool, Any]
"""Whether an item succeeded, and its result or error."""

_AHEAD = 4
"""Items in flight for each worker: enough to keep all busy, few enough to hold memory down."""

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


def run_item(function: Callable[[Any], Any], item: Any) -> Outcome:
    """The outcome of one item in a worker; an error is one that can be pickled."""
    if _failed_start is not None:
        return False, _failed_start
    try:
        return True, function(item)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where map was called
        return False, _portable(error)


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


def in_order(
    submit: Callable[[Any], Callable[[], Outcome]],
    workers: int,
    items: Iterable[Any],
    *,
    lost: type[Exception],
    worker: str,
) -> Iterator[Any]:
    """Results in the order of the items, with a few items ahead of what is consumed.

    Args:
        submit: sends an item to a worker; what it returns waits for the outcome.
        workers: how many items are worked on at a time.
        items: the items.
        lost: the error of a worker that died.
        worker: what a worker is called in messages.

    Raises:
        RuleRAGError: a worker died.
        Exception: the error of an item, its message or notes naming the item.
    """
    waiting: deque[tuple[int, Any, Callable[[], Outcome]]] = deque()
    numbered = enumerate(items)
    try:
        while True:
            for number, item in islice(numbered, workers * _AHEAD - len(waiting)):
                waiting.append((number, item, submit(item)))
            if not waiting:
                return
            number, item, outcome = waiting.popleft()
            yield _result(outcome, lost, number, item)
    except lost as error:
        raise RuleRAGError(
            f"a {worker} died at or after item {number} ({short(item)})",
            hint="it may have run out of memory: try fewer workers",
        ) from error


def _result(outcome: Callable[[], Outcome], lost: type[Exception], number: int, item: Any) -> Any:
    """The result of an item; raises its error, naming the item."""
    try:
        succeeded, value = outcome()
    except lost:
        raise
    except Exception as error:  # noqa: BLE001 - an item or a result that cannot be pickled
        succeeded, value = False, error
    if succeeded:
        return value
    name_item(value, number, item)
    raise value


def name_item(error: Exception, number: int, item: object) -> None:
    """Say in the error which item it comes from: in the message where it is one of ours."""
    place = f"while working on item {number} ({short(item)})"
    if isinstance(error, RuleRAGError):
        error.message = f"{error.message} ({place})"
        error.args = (str(error),)
    else:
        error.add_note(place)


def short(item: object) -> str:
    """An item in a few words, for messages."""
    text = repr(item)
    return text if len(text) <= 80 else f"{text[:79]}…"
