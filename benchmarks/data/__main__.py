"""Gets public data sets: ``python -m benchmarks.data fetch`` is ``rulerag data fetch``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.forwarding import forward


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of ``rulerag data``; the exit status."""
    return forward("data", argv)


if __name__ == "__main__":
    sys.exit(main())
