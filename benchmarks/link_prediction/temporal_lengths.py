"""How long the bodies of temporal rules should be, by validation queries.

TLogic's rules of lengths 1, of 1 and 2, and of 1 to 3 are mined from the training facts of each
graph and applied by ``benchmarks.link_prediction`` to its first validation facts, both directions,
on one thread; test queries are never used. A row whose ``GRAPH-LENGTHS.json`` is there is kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.common.folders import shared_folder
from rulerag.console import guarded
from rulerag.evaluation.link_prediction import LinkPredictionSettings, evaluate_links
from rulerag.io import prepare_folder, read_json, write_json, write_text

GRAPHS = ("icews14_forecasting", "yago", "wiki")
LENGTHS = ("1", "1,2", "1,2,3")
LIMIT = 5000
_METRICS = ("mrr", "hits@1", "hits@10", "reached")

Row = dict[str, Any]


def measure(graph: str, lengths: str, **more: Any) -> Row:
    """One row: what ``rulerag link-prediction`` writes into ``metrics.json``.

    Args:
        graph: a graph folder's name.
        lengths: body lengths, comma-separated.
        more: further settings.
    """
    counts = tuple(int(length) for length in lengths.split(","))
    settings = LinkPredictionSettings(
        **{"lengths": counts, "split": "valid", "limit": LIMIT, **more}
    )
    row = evaluate_links(shared_folder("data", graph), miner="tlogic", settings=settings)
    # The peak is the whole process's, and other rows have run in it.
    del row["peak_memory_mb"]
    return row


def table(rows: Sequence[tuple[str, str, Row]]) -> str:
    """The table in Markdown, per cent, of rows by graph and lengths."""
    lines = [
        "# Body lengths of temporal rules, on validation queries",
        "",
        "`python -m benchmarks.link_prediction.temporal_lengths --out "
        "benchmarks/results/temporal-lengths`:",
        f"the first {LIMIT:,} validation facts at most, both directions, time-aware filter, ties",
        "averaged, per cent; one thread, kernels loaded. `rulerag mine` mines lengths 1,2,3 unless",
        "told otherwise.",
        "",
        "| graph | lengths | rules | MRR | Hits@1 | Hits@10 | reached | mining, CPU s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for graph, lengths, row in rows:
        cells = [graph, lengths, f"{row['num_rules']:,}"]
        cells += [f"{100 * row['metrics'][name]:.2f}" for name in _METRICS]
        cells += [f"{row['cpu_seconds']['rules']:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.link_prediction.temporal_lengths",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.link_prediction.temporal_lengths "
        "--out benchmarks/results/temporal-lengths",
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder for table.md and rows")
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, metavar="GRAPH", help="these alone")
    parser.add_argument(
        "--lengths", nargs="+", default=LENGTHS, metavar="LENGTHS", help="body lengths, as 1,2,3"
    )
    parser.add_argument("--again", action="store_true", help="measure rows that are there, too")
    arguments = parser.parse_args(argv)
    return guarded(
        lambda: _main(
            prepare_folder(arguments.out), arguments.graphs, arguments.lengths, arguments.again
        )
    )


def _main(out: Path, graphs: Sequence[str], lengths: Sequence[str], again: bool) -> None:
    tasks = [(graph, one) for graph in graphs for one in lengths]
    files = {task: out / f"{task[0]}-{task[1].replace(',', '_')}.json" for task in tasks}
    missing = [task for task in tasks if again or not files[task].exists()]
    if missing:
        # Compiled kernels are loaded once: by no row, or the first would be the slowest.
        measure(missing[0][0], max(lengths, key=len), limit=1, num_walks=1)
    for task in tqdm(missing, "rows", unit="row", disable=not missing):
        write_json(files[task], measure(*task))
    text = table([(*task, read_json(files[task])) for task in tasks])
    write_text(out / "table.md", text)
    sys.stdout.write(text)


if __name__ == "__main__":
    sys.exit(main())
