"""The command line: thin commands, each a few library calls."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from rulerag.console import AGAIN, guarded

__all__ = ["main"]

_RESUMES = "interrupted; answered queries are kept, the same command goes on from there"


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
        sys.exit(guarded(lambda: _run(words), interrupted=interrupted))
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)


def _run(words: Sequence[str]) -> None:
    # Imported here: Ctrl-C while the commands load must end as readably as later on.
    from rulerag.cli.app import parse

    work = parse(words)
    if work is not None:
        from rulerag.cli.common import remember_command

        remember_command(words)
        work()
