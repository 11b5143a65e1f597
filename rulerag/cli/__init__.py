"""The command line: thin commands, each a few library calls."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from rulerag.console import guarded

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 bad input, 130 interrupted.

    Args:
        argv: the arguments; those of the process when None.
    """
    # The library logs what a person may want to know, such as how much of a run stands already.
    notes = logging.StreamHandler()
    logger = logging.getLogger("rulerag")
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        # Imported inside: Ctrl-C while the commands load must end as readably as later on.
        sys.exit(guarded(lambda: _run(argv)))
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)


def _run(argv: Sequence[str] | None) -> None:
    from rulerag.cli.app import app

    app(args=argv)
