"""Commands of the checkout that are commands of the installed library."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rulerag.cli import main as rulerag


def forward(command: str, argv: Sequence[str] | None) -> int:
    """Run a command of the library; the exit status.

    Args:
        command: its name.
        argv: the arguments behind it; those of the process when None.
    """
    try:
        rulerag([command, *(sys.argv[1:] if argv is None else argv)])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
