"""The command line: thin commands, each a few library calls."""

from __future__ import annotations

import functools
import logging
import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar

from rulerag.console import AGAIN, guarded

__all__ = ["command_line", "main"]

_RESUMES = "interrupted; answered queries are kept, the same command goes on from there"

_WORDS: ContextVar[Sequence[str]] = ContextVar("words", default=())


def command_line() -> str:
    """The command that runs, as a shell takes it; for what it writes about itself."""
    return shlex.join(["rulerag", *_WORDS.get()])


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 bad input, 130 interrupted.

    Args:
        argv: the arguments; those of the process when None.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    # The library logs what a person may want to know, such as how much of a run is done already.
    notes = logging.StreamHandler()
    logger = logging.getLogger("rulerag")
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        interrupted = _RESUMES if words[:1] == ["evaluate"] else AGAIN
        sys.exit(guarded(functools.partial(_run, words), interrupted=interrupted))
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)


def _run(words: Sequence[str]) -> None:
    # Imported here: Ctrl-C while the commands load must end as readably as later on.
    from rulerag.cli.app import parse

    _WORDS.set(words)
    parse(words)()
