"""``python -m benchmarks.link_prediction`` is ``rulerag link-prediction``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.forwarding import forward


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    return forward("link-prediction", argv)


if __name__ == "__main__":
    sys.exit(main())
