"""A run in a process of its own: it gives back all memory that it takes, and its peak is known."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection

from rulerag.errors import RetrievalError, RuleRAGError


def in_own_process(work: Callable[[], None]) -> None:
    """Do some work in a fork, which shares what is loaded; in this process where none can be made.

    Raises:
        RetrievalError: the work failed; says why.
    """
    if not hasattr(os, "fork"):
        work()
        return
    gc.collect()
    gc.freeze()  # or the collector would copy every page that the two share
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_errors, args=(work, sender))
    process.start()
    sender.close()
    try:
        failure = receiver.recv()
    except EOFError:
        failure = "it was killed"
    finally:
        process.join()
        gc.unfreeze()
    if failure is not None:
        raise RetrievalError(f"a run failed: {failure}", hint="start again: finished runs are kept")


def _send_errors(work: Callable[[], None], sender: Connection) -> None:
    try:
        work()
        sender.send(None)
    except (RuleRAGError, OSError, MemoryError) as error:
        sender.send(str(error))
    except Exception as error:  # a fault of the code: its place goes to stderr, its name on
        sender.send(f"{type(error).__name__}: {error}")
        raise
    sender.close()
