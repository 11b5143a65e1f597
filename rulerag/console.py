"""What every command shares: readable errors, a Ctrl-C that holds, and the exit codes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rulerag.errors import RuleRAGError

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

AGAIN = "interrupted; no half-written file was left, run the same command again"
"""What is said after Ctrl-C in a command that does not resume."""

_INSIST_SECONDS = 0.3


def guarded(command: Callable[[], object], *, interrupted: str = AGAIN) -> int:
    """Run a command: 0 on success, 2 and one message on bad input, 130 when interrupted.

    Ctrl-C counts wherever it falls. Python drops the ``KeyboardInterrupt`` that comes while it
    runs a destructor or a callback, and compiled code turns it into a ``SystemError``: the first
    is raised again, the second is taken for what it is.

    Args:
        command: the work; an error of rulerag's own is shown without a traceback, any other
            exception is a fault of the program and passes through.
        interrupted: what to say after Ctrl-C: what stands, and what to do next.
    """
    heard: list[bool] = []
    try:
        with _insistent_ctrl_c(heard):
            command()
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of a pipe (head, less) has what it wanted; that is success. What is still
        # buffered must go nowhere, or the interpreter complains when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Exception, KeyboardInterrupt) as error:
        # Compiled modules that it meets while they are imported say that they cannot be.
        if _came_of_ctrl_c(error) or (heard and isinstance(error, ImportError)):
            # A progress bar or ^C may stand on the line.
            sys.stderr.write(("\n" if sys.stderr.isatty() else "") + interrupted + "\n")
            return EXIT_INTERRUPTED
        if isinstance(error, RuleRAGError):
            sys.stderr.write(f"error: {error}\n")
            return EXIT_BAD_INPUT
        raise
    return 0


@contextmanager
def _insistent_ctrl_c(heard: list[bool]) -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` again while an earlier one shows no effect; note that it came."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or getattr(signal, "SIGALRM", None) is None
        or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
    ):
        yield  # another program's business, or a system without timers
        return

    def stop(_signal: int, _frame: object) -> None:
        heard.append(True)
        signal.setitimer(signal.ITIMER_REAL, _INSIST_SECONDS, _INSIST_SECONDS)
        raise KeyboardInterrupt

    def insist(_signal: int, _frame: object) -> None:
        # While it is being handled (files closed, workers joined) it has not been dropped.
        handled = sys.exc_info()[1]
        while handled is not None and not isinstance(handled, KeyboardInterrupt):
            handled = handled.__context__
        if handled is None:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGALRM, insist)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _came_of_ctrl_c(error: BaseException | None) -> bool:
    """Whether an exception is ``KeyboardInterrupt``, or what others made of one.

    Only what was raised *from* it: an error of the work that follows a Ctrl-C, such as a file that
    cannot be put away, is an error, and reported as one.
    """
    seen = set[int]()  # there are libraries that raise an error from itself
    while error is not None and not isinstance(error, KeyboardInterrupt) and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)
