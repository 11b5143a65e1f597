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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.common.folders import shared_folder
from rulerag.console import guarded
from rulerag.errors import ConfigError, did_you_mean
from rulerag.io import prepare_folder, read_json, write_text


@dataclass(frozen=True)
class Row:
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


def _static(graph: str, aggregate: str, imported: bool) -> Row:
    whose = "AMIE 3.5's rules, imported" if imported else "AmieMiner's rules"
    return Row(
        f"{graph}-{'imported' if imported else 'amie'}-{aggregate}",
        graph,
        f"{whose}, {aggregate}",
        (*(() if imported else ("--miner", "amie")), f"aggregate={aggregate}"),
        f"amie/{graph}.tsv" if imported else None,
    )


def _temporal(graph: str, file: str | None, *more: str) -> Row:
    whose = "TLogic's rules, imported" if file else "TLogicMiner's rules"
    return Row(
        f"{graph}-{'imported' if file else 'tlogic'}-noisy-or",
        graph,
        f"{whose}, TLogic's score, noisy-or",
        (*(() if file else ("--miner", "tlogic")), *more),
        f"tlogic/{file}" if file else None,
    )


_ICEWS, _YAGO = "icews14_r123_n200_exp_s12_rules.json", "yago_r123_n200_exp_s12_rules.json"
_STATIC = {"fb15k237": (False,), "nell995": (True, False)}
ROWS = (
    _temporal("icews14_forecasting", _ICEWS, "relation_ids=sorted"),
    _temporal("icews14_forecasting", None),
    _temporal("yago", _YAGO),
    _temporal("yago", None),
    *(
        _static(graph, aggregate, imported)
        for graph, sources in _STATIC.items()
        for aggregate in ("max", "noisy-or")
        for imported in sources
    ),
)
"""The lines of the table, in order."""

PUBLISHED = (
    ("icews14_forecasting", "TLogic's paper", 43.04, 33.56, 48.27, 61.23),
    ("icews14_forecasting", "TLogic's rules, applied by a peer", 43.13, 33.72, 48.20, 61.24),
    ("yago", "TLogic's rules, applied by a peer", 93.24, 92.97, 93.26, 93.97),
)
"""Figures of others, in per cent, ties by best rank: MRR and Hits at 1, 3 and 10."""

_MEASURES = ("mrr", "hits@1", "hits@3", "hits@10")
_COLUMNS = (
    *("graph", "rules", "number", "MRR", "H@1", "H@3", "H@10"),
    *("best MRR", "H@1", "H@3", "H@10", "down MRR", "worst MRR"),
    *("rules CPU s", "applied", "wall s", "MB"),
)

_COSTS = """
TLogic (Python, two processes, a like machine) learned its ICEWS14 rules in 797 CPU s and 128 MB and
would apply them to all queries in about 5,570 CPU s and 426 MB; on YAGO it learned in 19 CPU s and
failed to apply (a join of 24.6 GiB). AMIE 3.5 (two threads) mined FB15k-237 in 48.1 CPU s and
2,574 MB, NELL-995 in 21.8 CPU s and 2,755 MB, without standard confidence.

MRR and hits: tied candidates share their mean rank; *best* and *worst*: the answer stands before or
behind all its ties; *down*: the mean rank rounded down, which is what TLogic's code calls average.
CPU seconds on one thread: *rules* mined or read, *applied* to all queries. Wall seconds and the
peak of memory are the whole run's.
"""


def _run(row: Row, folder: Path) -> None:
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


def table(rows: Sequence[tuple[Row, dict[str, Any]]]) -> str:
    """The table in Markdown: per cent, seconds of processor time, megabytes."""
    lines = [
        "# Link prediction with rules",
        "",
        "All test queries in both directions, filtered (temporal graphs: at the same time), in per",
        "cent. Made by `python -m benchmarks.link_prediction.table --out DIR`.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "| --- | --- |" + " ---: |" * (len(_COLUMNS) - 2),
    ]
    for row, result in rows:
        found, cpu = result["metrics"], result["cpu_seconds"]
        cells = [row.graph, row.rules, f"{result['num_rules']:,}"]
        cells += [f"{100 * found[name + tie]:.2f}" for tie in ("", "_best") for name in _MEASURES]
        cells += [f"{100 * found[name]:.2f}" for name in ("mrr_rounded_down", "mrr_worst")]
        cells += [f"{cpu['rules']:.1f}", f"{cpu['index'] + cpu['apply']:.1f}"]
        cells += [f"{sum(result['seconds'].values()):.0f}", f"{result['peak_memory_mb']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    for graph, words, *best in PUBLISHED:
        cells = [graph, f"*{words}*", *[""] * 5, *(f"{value:.2f}" for value in best), *[""] * 6]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n" + _COSTS


def main(argv: Sequence[str] | None = None, *, rows: Sequence[Row] = ROWS) -> int:
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


def _main(arguments: argparse.Namespace, rows: Sequence[Row]) -> None:
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
