"""What every training command shares: its arguments, the folder that it begins, its model card."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rulerag.errors import MissingDependencyError
from rulerag.io import read_text
from training.common.checkpoint import RunFolder
from training.common.processes import Processes
from training.common.settings import TrainingSettings


def training_parser(program: str, description: str, example: str) -> argparse.ArgumentParser:
    """The arguments ``CONFIG [key=value …] [--quiet]``, to be parsed with options between them.

    Args:
        program: how the program is called.
        description: what it does.
        example: a command that works.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, epilog=f"example: {example}"
    )
    parser.add_argument("config", type=Path, help="the YAML file")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="changes of it")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def print_outcome(metrics: Mapping[str, Any], measure: str, out: str) -> None:
    """One line about a finished training, from the first of its processes.

    Args:
        metrics: with ``before``, ``best``, ``best_step`` and ``steps``.
        measure: the one to show.
        out: the folder that was written.
    """
    if os.environ.get("RANK", "0") == "0":
        sys.stdout.write(
            f"{measure}: {metrics['before'][measure]:.4f} before, {metrics['best'][measure]:.4f} "
            f"at step {metrics['best_step']} of {metrics['steps']}; written to {out}\n"
        )


def begin_run(
    settings: TrainingSettings, processes: Processes, *, fixed_processes: bool = False
) -> RunFolder:
    """The folder of a run, in every one of its processes.

    Args:
        settings: of the run.
        processes: where it runs.
        fixed_processes: an interrupted run goes on in as many processes as it began in.

    Raises:
        ConfigError: the folder belongs to other settings or to another number of processes.
        MissingDependencyError: a package of the training extra or a tracker is not installed.
        OutputError: the folder cannot be written, or another process trains in it.
    """
    for package in ("datasets", *settings.report_to):
        if importlib.util.find_spec(package) is None:
            extra = None if package in settings.report_to else "train"
            raise MissingDependencyError(package, extra)
    world = f"{processes.world} sharding" if processes.sharded else processes.world
    return processes.first(partial(RunFolder.begun, settings, world if fixed_processes else None))


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
