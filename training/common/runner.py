"""How every training runs: its command line, its folder and processes, its model card."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rulerag.composition import load_config
from rulerag.console import guarded
from rulerag.io import read_text
from training.common.checkpoint import RunFolder
from training.common.processes import Processes, first_process
from training.common.settings import TrainingSettings
from training.common.trackers import check_trackers

S = TypeVar("S", bound=TrainingSettings)


def run_training(
    argv: Sequence[str] | None,
    kind: type[S],
    train: Callable[..., dict[str, Any]],
    *,
    measure: Callable[[S], str],
    program: str,
    description: str,
    example: str,
) -> int:
    """Read ``CONFIG [key=value …] [--quiet]``, train, and say what came of it.

    Args:
        argv: the arguments; those of the process when None.
        kind: the settings that the configuration holds.
        train: trains by them, with ``progress`` or without; returns the metrics.
        measure: the name of the measure that is reported.
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
        config = load_config(arguments.config, arguments.overrides, keys=kind.keys)
        settings = kind.from_config(config)
        metrics = train(settings, progress=not arguments.quiet)
        if first_process():
            name = measure(settings)
            sys.stdout.write(
                f"{name}: {metrics['before'][name]:.4f} before, {metrics['best'][name]:.4f} at "
                f"step {metrics['best_step']} of {metrics['steps']}; written to {settings.out}\n"
            )

    return guarded(work)


def train_in_folder(
    settings: TrainingSettings,
    work: Callable[[Processes, RunFolder], dict[str, Any]],
    processes: Processes,
    *,
    fixed_processes: bool = False,
) -> dict[str, Any]:
    """Train unless the folder of the settings holds a finished run; return the metrics.

    Args:
        settings: of the run.
        work: trains in the folder, and returns the metrics. What it leaves alive would be alive
            when the group of processes ends: a wrapped model that outlives its group hangs.
        processes: where it runs; they end with the training.
        fixed_processes: an interrupted run goes on in as many processes as it began in.

    Raises:
        ConfigError: the folder belongs to other settings or to another number of processes.
        MissingDependencyError: a tracker is not installed.
    """
    check_trackers(settings.report_to)
    world = processes.world if fixed_processes else None
    folder = processes.first(lambda: RunFolder.begun(settings, world))
    metrics = processes.first(lambda: folder.finished)
    if metrics is None:
        metrics = work(processes, folder)
        gc.collect()
    processes.end()
    return metrics


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
