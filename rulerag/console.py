"""What every command shares: readable errors and the exit codes of the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from rulerag.errors import RuleRAGError

__all__ = ["AGAIN", "EXIT_BAD_INPUT", "EXIT_INTERRUPTED", "guarded"]

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

AGAIN = "interrupted; no half-written file was left, run the same command again"
"""What is said after Ctrl-C in a command that does not resume."""


def guarded(command: Callable[[], object], *, interrupted: str = AGAIN) -> int:
    """Run a command: 0 on success, 2 and one message on bad input, 130 when interrupted.

    Args:
        command: the work; an error of rulerag's own is shown without a traceback, any other
            exception is a fault of the program and passes through.
        interrupted: what to say after Ctrl-C: what stands, and what to do next.
    """
    try:
        command()
        sys.stdout.flush()
    except RuleRAGError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        # A progress bar or ^C may stand on the line.
        sys.stderr.write(("\n" if sys.stderr.isatty() else "") + interrupted + "\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe (head, less) has what it wanted; that is success. What is still
        # buffered must go nowhere, or the interpreter complains when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
