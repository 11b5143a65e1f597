"""What the training programs share: model cards and the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rulerag.composition import Config, known_keys, load_config
from rulerag.console import guarded
from rulerag.io import read_text

__all__ = ["run_training", "write_card"]


def write_card(file: Path, metrics: Mapping[str, Any], **facts: Any) -> str:
    """A model card: Markdown whose fields in braces are filled in.

    Args:
        file: the Markdown; ``{rows}`` is a table of the measures before and after training.
        metrics: with the measures ``before`` and ``best``.
        facts: further fields.
    """
    rows = "\n".join(
        f"| {name} | {metrics['before'][name]:.4f} | {value:.4f} |"
        for name, value in metrics["best"].items()
    )
    return read_text(file).format(metrics=metrics, rows=rows, **facts)


def run_training(
    argv: Sequence[str] | None,
    train: Callable[[Config, bool], str],
    *,
    program: str,
    description: str,
    example: str,
) -> int:
    """Read ``CONFIG [key=value …] [--quiet]``, train, and say what came of it.

    Args:
        argv: the arguments; those of the process when None.
        train: trains by a configuration, with or without progress bars; returns the line to print,
            empty for none.
        program: how the program is called.
        description: what it does.
        example: a command that works.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, epilog=f"example: {example}"
    )
    parser.add_argument("config", type=Path, help="the YAML file")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="changes of it")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    arguments = parser.parse_intermixed_args(argv)

    def work() -> None:
        config = load_config(arguments.config, arguments.overrides, keys=known_keys)
        line = train(config, not arguments.quiet)
        if line:
            sys.stdout.write(f"{line}\n")

    return guarded(work)
