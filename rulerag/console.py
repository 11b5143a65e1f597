"""What every command shares: readable errors and the exit codes of the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rulerag.errors import RuleRAGError

__all__ = ["EXIT_BAD_INPUT", "EXIT_INTERRUPTED", "guarded"]

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def guarded(command: Callable[[], object]) -> int:
    """Run a command: 0 on success, 2 and one message on bad input, 130 when interrupted.

    Args:
        command: the work; an error of rulerag's own is shown without a traceback, any other
            exception is a fault of the program and passes through.
    """
    try:
        command()
    except RuleRAGError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; finished work is kept, the same command goes on from it\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe (head, less) has what it wanted; that is success.
        sys.stderr.close()
    return 0
