"""Gets public data sets: ``python -m benchmarks.data fetch`` is ``rulerag data fetch``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rulerag.cli import main as rulerag


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of ``rulerag data``; the exit status."""
    try:
        rulerag(["data", *(sys.argv[1:] if argv is None else argv)])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
