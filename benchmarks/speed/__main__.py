"""Speed benchmarks by name; each prints a ratio against a baseline measured in the same run."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from rulerag.console import guarded
from rulerag.errors import ConfigError, did_you_mean

BENCHMARKS = {
    "everyday": "benchmarks.speed.everyday",
    "explanation": "benchmarks.speed.explanation",
    "generation": "benchmarks.speed.generation",
    "grounding": "benchmarks.speed.grounding",
    "lattice": "benchmarks.speed.lattice",
    "mining": "benchmarks.speed.mining",
    "retrieval": "benchmarks.speed.retrieval",
    "thread": "benchmarks.speed.thread",
}
"""Benchmark modules by name; each has ``main(out: Path | None)``."""


def _run(name: str, out: Path | None) -> None:
    if name != "all" and name not in BENCHMARKS:
        raise ConfigError(
            f"no benchmark is called {name!r}", key="NAME", hint=did_you_mean(name, BENCHMARKS)
        )
    for key in BENCHMARKS if name == "all" else (name,):
        sys.stdout.write(f"== {key}\n")
        sys.stdout.flush()
        importlib.import_module(BENCHMARKS[key]).main(out)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed",
        description=__doc__,
        epilog="example: python -m benchmarks.speed thread --out benchmarks/results/speed",
    )
    parser.add_argument("name", metavar="NAME", help=f"all, {', '.join(BENCHMARKS)}")
    parser.add_argument("--out", type=Path, help="a folder for the figures as JSON")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments.name, arguments.out))


if __name__ == "__main__":
    sys.exit(main())
