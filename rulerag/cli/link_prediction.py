"""The command ``link-prediction``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.cli.common import QuietOption, say, show_progress, with_settings
from rulerag.composition import parse_override
from rulerag.errors import ConfigError
from rulerag.evaluation import markdown_table
from rulerag.evaluation.link_prediction import LinkPredictionSettings, evaluate_links
from rulerag.io import write_json
from rulerag.output_folder import output_folder


@with_settings(LinkPredictionSettings)
def link_prediction(
    kg: Annotated[Path, typer.Argument(help="a graph folder with splits")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="changed settings")
    ] = None,
    miner: Annotated[
        str | None, typer.Option(help="amie (static) or tlogic (temporal): rules of this graph")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="a rule file in any format, in place of a miner")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="only the first N facts, 2 N queries")] = None,
    out: Annotated[Path | None, typer.Option(help="the folder for metrics.json")] = None,
    quiet: QuietOption = False,
) -> None:
    """Filtered MRR and Hits@1, 3 and 10 of a rule bank, both directions of every test fact."""
    values: dict[str, Any] = {}
    for change in changes or ():
        key, value = parse_override(change)
        if key in values:
            raise ConfigError("is given twice", key=key)
        values[key] = value
    if limit is not None:
        values["limit"] = limit
    settings = LinkPredictionSettings.read(values)
    # Made before anything costly is done; a run that fails leaves none behind.
    with output_folder(out) if out is not None else nullcontext() as folder:
        result = evaluate_links(
            kg, miner=miner, rules=rules, settings=settings, progress=show_progress(quiet)
        )
        if folder is not None:
            write_json(folder / "metrics.json", result)
    _tell(result)


def _tell(result: dict[str, Any]) -> None:
    found = result["metrics"]
    say(f"{result['benchmark']}: {result['num_queries']:,} queries, {result['num_rules']:,} rules")
    titles = ("ties", "MRR", "Hits@1", "Hits@3", "Hits@10")
    rows = []
    for kind in ("", "_rounded_down", "_best", "_worst"):
        name = kind.strip("_").replace("_", " ") or "mean"
        rows.append([name, *(f"{100 * found[f'{one.lower()}{kind}']:.2f}" for one in titles[1:])])
    say(markdown_table(titles, rows).rstrip())
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in result["cpu_seconds"].items())
    say(f"CPU seconds: {seconds}; peak memory {result['peak_memory_mb']:.0f} MB")
