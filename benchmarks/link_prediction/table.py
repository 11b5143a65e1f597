"""The table of link prediction: every rule set and aggregation, ours beside the published ones.

Each row is one run of ``rulerag link-prediction`` in a fresh process on one thread, so that its
seconds and its peak memory are its own; compiled kernels come from numba's cache. A row whose
``metrics.json`` is there is not run again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tqdm import tqdm

from benchmarks.common.folders import shared_folder
from rulerag.console import guarded
from rulerag.errors import ConfigError, did_you_mean
from rulerag.evaluation import markdown_table
from rulerag.io import prepare_folder, read_json, write_text


class LinkRow(BaseModel, extra="forbid", frozen=True):
    """One line of the table.

    Args:
        name: of its folder.
        graph: a graph folder's name.
        rules: whose rules, and how they are applied, in words.
        arguments: of ``rulerag link-prediction``.
        imported: the rule file among the reference outputs, in place of a miner.
    """

    name: str
    graph: str
    rules: str
    arguments: tuple[str, ...]
    imported: str | None = None


_TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("table.toml").read_text(encoding="utf-8")
)
ROWS = tuple(LinkRow(**row) for row in _TABLE["rows"])
"""The lines of the table, in order."""

_MEASURES = ("mrr", "hits@1", "hits@3", "hits@10")
_COLUMNS = (
    *("graph", "rules", "number", "MRR", "H@1", "H@3", "H@10"),
    *("best MRR", "H@1", "H@3", "H@10", "down MRR", "worst MRR"),
    *("rules CPU s", "applied", "wall s", "MB"),
)


def _run(row: LinkRow, folder: Path) -> None:
    """Measure one row in a fresh process, after a first short one that fills numba's cache."""
    graph = shared_folder("data", row.graph)
    command = [sys.executable, "-m", "benchmarks.link_prediction", str(graph)]
    command.append("--quiet")
    if row.imported is not None:
        folder_name, file = row.imported.split("/")
        command += ["--rules", str(shared_folder("reference", folder_name) / file)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for extra in ([*row.arguments, "--limit", "1"], [*row.arguments, "--out", str(folder)]):
        done = subprocess.run(
            [*command, *extra], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ConfigError(f"the run failed: {done.stderr.strip()[-500:]}", key=row.name)


def table(rows: Sequence[tuple[LinkRow, dict[str, Any]]]) -> str:
    """The table in Markdown: per cent, seconds of processor time, megabytes."""
    lines = []
    for row, result in rows:
        found, cpu = result["metrics"], result["cpu_seconds"]
        cells = [row.graph, row.rules, f"{result['num_rules']:,}"]
        cells += [f"{100 * found[name + tie]:.2f}" for tie in ("", "_best") for name in _MEASURES]
        cells += [f"{100 * found[name]:.2f}" for name in ("mrr_rounded_down", "mrr_worst")]
        cells += [f"{cpu['rules']:.1f}", f"{cpu['index'] + cpu['apply']:.1f}"]
        cells += [f"{sum(result['seconds'].values()):.0f}", f"{result['peak_memory_mb']:.0f}"]
        lines.append(cells)
    for other in _TABLE["published"]:
        best = [f"{value:.2f}" for value in other["best"]]
        lines.append([other["graph"], f"*{other['rules']}*", *[""] * 5, *best, *[""] * 6])
    shown = markdown_table(_COLUMNS, lines, "ll" + "r" * (len(_COLUMNS) - 2))
    notes = _TABLE["notes"]
    return f"{notes['above']}{shown}{notes['below']}"


def main(argv: Sequence[str] | None = None, *, rows: Sequence[LinkRow] = ROWS) -> int:
    """The command line, over some rows."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.link_prediction.table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.link_prediction.table "
        "--out benchmarks/results/link-prediction",
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder for table.md and rows")
    parser.add_argument("--rows", nargs="*", metavar="ROW", help="measure only these rows")
    parser.add_argument("--again", action="store_true", help="measure rows that are there, too")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _main(arguments, rows))


def _main(arguments: argparse.Namespace, rows: Sequence[LinkRow]) -> None:
    names = [row.name for row in rows]
    for name in arguments.rows or ():
        if name not in names:
            hint = did_you_mean(name, names)
            raise ConfigError(f"no row is called {name!r}", key="rows", hint=hint)
    wanted = arguments.rows or names
    prepare_folder(arguments.out)
    for row in tqdm([row for row in rows if row.name in wanted], "rows", unit="row"):
        if arguments.again or not (arguments.out / row.name / "metrics.json").exists():
            _run(row, arguments.out / row.name)
    there = [row for row in rows if (arguments.out / row.name / "metrics.json").exists()]
    measured = [(row, read_json(arguments.out / row.name / "metrics.json")) for row in there]
    text = table(measured)
    write_text(arguments.out / "table.md", text)
    sys.stdout.write(text)


if __name__ == "__main__":
    sys.exit(main())
