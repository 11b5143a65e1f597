"""The page ``docs/what-rules-add.md``: one table and one picture from the committed tables.

Every figure is a difference between two rows that share everything but what the line names; it is
read from ``results.json`` of Table 2 and of its retrieval half, which hold the paired tests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from benchmarks.common.plotting import COLORS, pyplot
from benchmarks.experiments.matrix.rows import MATRIX, NOTES, row
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.evaluation import LEVEL, markdown_table
from rulerag.io import prepare_folder, read_json, write_text
from rulerag.ruleqa import GRAPHS

_BEST = "best row"
BENCHMARKS = tuple(GRAPHS)


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Args:
        title: what is added.
        measure: answer recall at ten (``R@10``) or exact match (``EM``).
        table: where the comparison is.
        ours: the row with it.
        other: the row without it.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: str
    measure: str
    table: str
    ours: str
    other: str = ""


LINES = TypeAdapter(tuple[Line, ...]).validate_python(MATRIX["what_rules_add"])
"""What the table shows: rules at equal budget first, then the baselines, then merging."""


def page(retrieval: Mapping[str, Any], reading: Mapping[str, Any]) -> tuple[str, list[list[Any]]]:
    """Markdown of the page, and its cells: for each line and benchmark difference and p, or None.

    Args:
        retrieval: ``results.json`` of ``table2-retrieval``.
        reading: ``results.json`` of ``table2``.

    Raises:
        DataError: a file holds no comparison of the lines.
    """
    cells = [[_cell(line, name, retrieval, reading) for name in BENCHMARKS] for line in LINES]
    if not any(cell for line in cells for cell in line):
        raise DataError(
            "the results hold none of the page's comparisons",
            hint="python -m benchmarks.experiments report DIR --save benchmarks/results",
        )
    heads = [name.rpartition("-")[2].upper() for name in BENCHMARKS]
    rows = [
        [line.title, line.measure, *map(_shown, found)]
        for line, found in zip(LINES, cells, strict=True)
    ]
    table = markdown_table(["what is added", "measure", *heads], rows, "ll" + "r" * len(heads))
    text = NOTES["rules_add_head"] + table + NOTES["rules_add_tail"]
    return text, cells


def _cell(
    line: Line, benchmark: str, retrieval: Mapping[str, Any], reading: Mapping[str, Any]
) -> tuple[float, float] | None:
    """Difference in points and corrected p-value; None where the rows were not run."""
    if line.measure == "R@10":
        found = [
            one
            for one in retrieval.get("comparisons", {}).get(line.table, ())
            if (one["ours"], one["against"]) == (row(line.ours).title, row(line.other).title)
        ]
        ours = "value"
    else:
        ours = "ours"
        rows = reading.get(line.table, ())
        if line.ours == _BEST:
            found = [one for one in rows if one["row"].startswith(_BEST)]
        else:
            found = [one for one in rows if one["names"] == [line.ours, line.other]]
    for one in found:
        if one["benchmark"] == benchmark:
            return 100 * (one[ours] - one["other"]), float(one["p_holm"])
    return None


def _shown(cell: tuple[float, float] | None) -> str:
    if cell is None:
        return "–"
    text = f"{cell[0]:+.1f}"
    return f"**{text}**" if cell[1] < LEVEL else text


def _plot(cells: Sequence[Sequence[tuple[float, float] | None]], path: Path) -> None:
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(9, 5), layout="constrained")
    for number, name in enumerate(BENCHMARKS):
        color, label = COLORS[number], name.replace("ruleqa-", "RuleQA-").upper()
        for place, line in enumerate(cells):
            if (cell := line[number]) is not None:
                axis.plot(
                    cell[0],
                    len(cells) - place + 0.24 - 0.12 * number,
                    "o",
                    color=color,
                    markerfacecolor=color if cell[1] < LEVEL else "white",
                    markersize=6,
                )
        axis.plot([], [], "o", color=color, label=label.replace("RULEQA", "RuleQA"))
    axis.axvline(0, color="#444444", linewidth=0.8)
    titles = [f"{line.title} ({line.measure})" for line in LINES]
    axis.set_yticks(range(len(LINES), 0, -1), titles, fontsize=8)
    axis.set_xlabel("difference in percentage points; filled: beyond chance")
    axis.grid(axis="x", alpha=0.3)
    axis.legend(fontsize=8, loc="best")
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def _main(arguments: argparse.Namespace) -> None:
    tables = [
        read_json(arguments.results / name / "results.json")
        for name in ("table2-retrieval", "table2")
    ]
    text, cells = page(*tables)
    out = prepare_folder(arguments.out)
    write_text(out / "what-rules-add.md", text)
    _plot(cells, out / "what-rules-add.png")
    sys.stdout.write(text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments.what_rules_add",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.experiments.what_rules_add "
        "--results benchmarks/results --out docs",
    )
    parser.add_argument("--results", required=True, type=Path, help="holds table2/results.json …")
    parser.add_argument("--out", required=True, type=Path, help="where page and picture go")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _main(arguments))


if __name__ == "__main__":
    sys.exit(main())
