"""``python -m benchmarks.models speed|steps``: fetched models on this machine, one command each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rulerag.console import guarded

MODELS = "smollm2-135m-instruct", "gemma-3-270m"
"""The language models that are measured unless others are named; see `rulerag models list`."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models",
        description=__doc__,
        epilog="example: python -m benchmarks.models speed --dataset runs/ruleqa-i --out "
        "benchmarks/results/models",
    )
    parser.add_argument("what", choices=("speed", "steps"), help="what is measured")
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="NAME")
    parser.add_argument(
        "--datasets", type=Path, nargs="+", required=True, metavar="DIR", help="built datasets"
    )
    parser.add_argument("--out", type=Path, help="the folder of the figures")
    parser.add_argument("--queries", type=int, default=0, help="queries of each (speed 24, all)")
    parser.add_argument("--tuned", type=int, default=64, help="queries to choose prompts by (64)")
    parser.add_argument(
        "--adapters",
        nargs="*",
        default=[],
        metavar="MODEL:BENCHMARK=DIR",
        help="steps: fine-tuned adapters",
    )
    arguments = parser.parse_args(argv)

    def work() -> None:
        if arguments.what == "speed":
            from benchmarks.models.speed import measure_models

            measure_models(
                arguments.models, arguments.datasets[0], arguments.out, arguments.queries or 24
            )
        else:
            from benchmarks.models.steps import run_steps

            run_steps(
                arguments.models,
                arguments.datasets,
                arguments.out,
                sample=arguments.queries,
                tuned=arguments.tuned,
                adapters=arguments.adapters,
            )

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
