"""The board as Markdown tables: a summary, and a table for each model and dataset."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.explanation.board import SHOWN, TESTED, measure
from benchmarks.explanation.measures import MEASURES
from rulerag.evaluation import LEVEL, markdown_table
from rulerag.io import prepare_folder, write_json, write_text

SHORT = (
    "exact rules",
    "guided",
    "kernel",
    "ContextCite",
    "leave-one-out",
    "similarity, encoder",
    "judged citations",
    "holds the answer",
)
"""The rows of the short table in ``docs/leaderboard.md``."""

_DATASETS = {"hotpotqa": "HotpotQA", "nq": "NQ", "world": "generated world"}


def write(
    files: list[Path], *, out: Path = Path("runs/leaderboard"), more: Path | None = None
) -> None:
    """Measure every explainer on some tables.

    Args:
        files: of tables; readings beside them are passed over.
        out: the folder of ``leaderboard.json``, ``leaderboard.md`` and ``summary.md``.
        more: a Python file with explainers to add.
    """
    if more is not None:
        runpy.run_path(str(more))
    result = measure([file for file in files if ".readings" not in file.name])
    write_json(prepare_folder(out) / "leaderboard.json", result)
    write_views(result, out)


def write_views(result: Mapping[str, Any], out: Path) -> None:
    """Write the tables of figures that are measured already."""
    text = markdown(result)
    write_text(out / "leaderboard.md", text)
    write_text(out / "summary.md", short_table(result))
    sys.stdout.write(text)


def dataset_name(key: str) -> str:
    """A dataset as people call it."""
    return _DATASETS.get(key, key.replace("ruleqa", "RuleQA").replace("-i", "-I"))


def shown(result: Mapping[str, Any], table: str | None = None) -> list[dict[str, Any]]:
    """The rows that stand side by side: at ``SHOWN`` calls, or at an explainer's own cost."""
    return [
        row
        for row in result["rows"]
        if row["budget"] in (None, SHOWN) and table in (None, row["table"])
    ]


def datasets(result: Mapping[str, Any]) -> list[str]:
    """The datasets, each once."""
    return list(dict.fromkeys(one["dataset"] for one in result["tables"].values()))


def summary(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each explainer: its means by dataset over the models that were asked.

    Returns:
        The explainers by the mean of both measures over the datasets, those that were not run on
        every dataset behind the others.
    """
    rows = []
    for name, about in result["explainers"].items():
        mine = [row for row in shown(result) if row["explainer"] == name]
        if not mine:
            continue
        cells: dict[str, dict[str, float]] = {}
        for dataset in datasets(result):
            here = [r for r in mine if result["tables"][r["table"]]["dataset"] == dataset]
            if here:
                cells[dataset] = {key: fmean(row[key] for row in here) for key in TESTED}
        each = [value for cell in cells.values() for value in cell.values()]
        rows.append(
            {
                "explainer": name,
                "kind": about["kind"],
                "calls": fmean(row["calls"] for row in mine),
                "datasets": cells,
                "tables": len(mine),
                "mean": fmean(each),
            }
        )
    return sorted(rows, key=lambda row: (-row["tables"], -row["mean"]))


def short_table(result: Mapping[str, Any]) -> str:
    """The short table: at most eight explainers."""
    return _summary_table(result, [row for row in summary(result) if row["explainer"] in SHORT])


def _summary_table(result: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> str:
    head = ["explainer", "calls"]
    for dataset in datasets(result):
        head += [f"{dataset_name(dataset)}: {MEASURES[key][0]}" for key in TESTED]
    cells = [
        [_named(row), f"{row['calls']:.0f}"]
        + [
            _number(row["datasets"].get(dataset, {}).get(key))
            for dataset in datasets(result)
            for key in TESTED
        ]
        for row in rows
    ]
    return markdown_table(head, cells)


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['explainer']} (baseline)" if row["kind"] == "baseline" else row["explainer"]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def about(result: Mapping[str, Any]) -> str:
    """What stands above the tables, in one paragraph."""
    models = dict.fromkeys(one["model"] for one in result["tables"].values())
    total = sum(one["questions"] for one in result["tables"].values())
    return (
        f"{total} answers of {', '.join(models)}, each with eight documents; the log-probability "
        "of every answer behind all 256 subsets was asked once, so that all explainers explain "
        f"the same numbers. Each asks {SHOWN} distinct subsets at most (the tables below have "
        "other budgets), or has a cost of its own; an answer has changed where it is less than a "
        "tenth as probable as with all documents, and one that stands without any is left out."
    )


def tally(result: Mapping[str, Any]) -> str:
    """How many comparisons are beyond chance, in words."""
    counts = {"above": 0, "below": 0}
    for row in result["rows"]:
        for key, p_value in row.get("p_corrected", {}).items():
            if p_value < LEVEL:
                counts["above" if _above(result, row, key) else "below"] += 1
    return (
        f"Of {result['comparisons']} comparisons with the best baseline of the same questions, "
        f"{counts['above']} are above it and {counts['below']} below it beyond chance (paired "
        "randomization, Holm's correction for all of them); everything else is within chance."
    )


def _above(result: Mapping[str, Any], row: Mapping[str, Any], key: str) -> bool:
    (best,) = (
        one
        for one in result["rows"]
        if one["table"] == row["table"] and one["explainer"] == row["best_baseline"][key]
    )
    return bool(row[key] > best[key])


def mark(result: Mapping[str, Any], row: Mapping[str, Any], key: str) -> str:
    """``+`` for above the best baseline beyond chance, ``-`` for below it, else nothing."""
    if row.get("p_corrected", {}).get(key, 1.0) >= LEVEL:
        return ""
    return "+" if _above(result, row, key) else "-"


def table_rows(result: Mapping[str, Any], table: str) -> list[dict[str, Any]]:
    """The rows of one table: baselines, those with a cost of their own, then by budget."""
    place = {name: number for number, name in enumerate(result["explainers"])}
    rows = [row for row in result["rows"] if row["table"] == table]
    return sorted(rows, key=lambda row: (row["budget"] or 0, place[row["explainer"]]))


def markdown(result: Mapping[str, Any]) -> str:
    """Summary, every table, and agreement."""
    lines = [about(result), "", tally(result), "", _summary_table(result, summary(result))]
    lines += ["", *(f"- {head}: {text}." for head, text in MEASURES.values())]
    for name, one in result["tables"].items():
        lines += ["", f"## {name}", "", table_note(one), ""]
        cells = [
            [str(row["budget"] or "own"), _named(row), f"{row['calls']:.0f}"]
            + [f"{row[key]:.2f}{mark(result, row, key)}" for key in MEASURES]
            for row in table_rows(result, name)
        ]
        head = ["allowed", "explainer", "calls", *(MEASURES[key][0] for key in MEASURES)]
        lines.append(markdown_table(head, cells, "rl" + "r" * (len(head) - 2)))
    lines += ["", "## Do they agree", "", AGREEMENT, "", agreement_table(result)]
    return "\n".join(lines) + "\n"


AGREEMENT = (
    "Above the diagonal Spearman's correlation of the values, below it the share of what either "
    "names that both name; means over all questions that both explained."
)


def table_note(one: Mapping[str, Any]) -> str:
    """What a table holds, in a sentence or two."""
    text = (
        f"{one['questions']} questions, {one['marked']:.1f} of {one['documents']:.0f} documents "
        f"marked on average, {one['least_changing']:.1f} at least to be removed for another "
        f"answer; {one['left_out']} others left out, whose answer stands without any document."
    )
    if one["readings"]:
        text += (
            f" The model's self-explanation comes to the explained answer in {one['same_answer']} "
            f"of {one['readings']}."
        )
    return text + " `+` and `-`: above and below the best baseline beyond chance."


def agreement_table(result: Mapping[str, Any]) -> str:
    """For each two explainers how alike they are, in Markdown."""
    pairs = {(row["one"], row["other"]): row for row in result["agreement"]}
    run = {row["explainer"] for row in shown(result)}
    names = [name for name in result["explainers"] if name in run and name != "random order"]
    cells = []
    for place, name in enumerate(names):
        row = [name]
        for other_place, other in enumerate(names):
            pair = (name, other) if place < other_place else (other, name)
            key = "rank_correlation" if place < other_place else "jaccard"
            found = pairs.get(pair, {}).get(key)
            row.append("" if place == other_place else _number(found))
        cells.append(row)
    return markdown_table(["", *names], cells) if names else ""
