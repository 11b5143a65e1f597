"""Table 1 of Fragkathoulas and Chlapanis 2024 with other models (:mod:`.study`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.self_explanations import study
from rulerag.console import guarded


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.self_explanations",
        description=study.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.self_explanations smollm2-135m-instruct "
        "--questions 300 --sweep --out benchmarks/results/self-explanations",
    )
    parser.add_argument("model", help="a folder or name, or the name at an endpoint")
    parser.add_argument("--endpoint", help="the address of an OpenAI-compatible endpoint")
    parser.add_argument("--questions", type=int, default=300, help="the first so many (300)")
    parser.add_argument(
        "--sweep", action="store_true", help="other numbers of parts and groups, too"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("runs/self-explanations.sqlite"),
        help="the file that keeps answers; a run goes on from it",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/self-explanations"), help="the folder of the figures"
    )
    return guarded(lambda: study.run(parser.parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
