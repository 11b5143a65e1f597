"""Commands that run whole experiments: ``evaluate`` and ``demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rulerag.cli.common import (
    IndexOption,
    LimitOption,
    QuietOption,
    choose_queries,
    open_pipeline,
    say,
    show_progress,
    table,
)
from rulerag.config import load_config

__all__ = ["demo", "evaluate"]


def evaluate(
    config: Annotated[Path, typer.Argument(help="an experiment file")],
    out: Annotated[Path, typer.Option(help="the folder of the run")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="changed settings")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="throw away another run in the folder")
    ] = False,
    index: IndexOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run one experiment; a rerun resumes what was interrupted."""
    from rulerag.evaluation.experiment import run_experiment
    from rulerag.evaluation.report import expected_rows, format_value
    from rulerag.io import prepare_folder

    settings = load_config(config, overrides or ())
    prepare_folder(out)
    opened = open_pipeline(settings, index=index, progress=False)
    query_set = settings.read("dataset.query_set", str, "full")
    result = run_experiment(
        opened.pipeline,
        opened.dataset,
        choose_queries(opened.dataset, query_set=query_set, limit=limit),
        out,
        config=settings,
        top_k=settings.read("top_k", int, 10),
        seed=settings.read("seed", int, 0),
        overwrite=overwrite,
        progress=show_progress(quiet),
        load_seconds=opened.load_seconds,
    )
    rows = [(name, format_value(name, value)) for name, value in result["metrics"].items()]
    table(f"{config.stem}, {result['num_queries']:,} queries", ("metric", "value"), rows)
    for row in expected_rows(result):
        say("  ".join(f"{key}: {value}" for key, value in row.items()))
    say(f"written to {out}")


def demo(
    out: Annotated[Path, typer.Option(help="the folder to write")] = Path("demo-out"),
    facts: Annotated[int, typer.Option(help="facts of each world")] = 5000,
    seed: Annotated[int, typer.Option(help="the seed of the worlds")] = 0,
    quiet: QuietOption = False,
) -> None:
    """Mine, retrieve, read and explain on embedded worlds that know their own truth."""
    from rulerag.demo import run_demo

    run_demo(out, num_facts=facts, seed=seed, progress=show_progress(quiet), say=say)
