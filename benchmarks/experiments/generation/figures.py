"""Figures 3 to 6 of the generator experiments, from finished runs: tables, results, plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.banks import crossed_results, gain_table, gains_of, mean_gains
from benchmarks.common.folders import PUBLISHED
from benchmarks.common.plotting import plot_lines, plot_map
from benchmarks.common.published import paper_note
from benchmarks.common.results import Result, load_result, percent
from benchmarks.experiments.generation.tables import paired
from benchmarks.experiments.matrix.rows import reading_row
from benchmarks.experiments.matrix.tables import ReadingTable
from benchmarks.stages.answers import EM
from rulerag.evaluation import markdown_table
from rulerag.io import read_json

_PAPER = PUBLISHED / "rulerag_figure5.json"


def figure3(table: ReadingTable, folder: Path, target: Path | None) -> tuple[str, dict[str, Any]]:
    """Exact match and answer recall by the number of documents that the reader sees.

    Args:
        table: the figure.
        folder: the records of one benchmark's queries.
        target: where the plot goes.
    """
    kept: dict[str, Any] = {}
    series: dict[str, tuple[list[float], list[float]]] = {}
    lines = []
    depths = sorted({k for step in table.steps for k in step.top_k})
    for row in map(reading_row, table.shown()):
        name = row.retriever
        found = {
            k: result
            for k in depths
            if (result := load_result(folder, row.name, row.title, f"-top{k}"))
        }
        for k, result in found.items():
            seen, queries = result.mean("in_documents"), result.records[0]["num_queries"]
            lines.append([name, str(k), result.cell(EM), percent(seen), f"{queries:,}"])
        if found:
            ems = [100 * result.mean(EM) for result in found.values()]
            recalls = [100 * result.mean("in_documents") for result in found.values()]
            series[name] = (list(found), ems)
            series[f"{name}, recall"] = (list(found), recalls)
            kept[name] = {"k": list(found), "exact_match": ems, "answer_in_documents": recalls}
    if not kept:
        return "", {}
    if target is not None:
        plot_lines(
            series,
            target / "reading.png",
            title="Exact match of the RGFT reader by the documents that it sees (dotted: recall)",
            across="documents",
            up="per cent",
            dotted=[name for name in series if name.endswith(", recall")],
        )
    return markdown_table(["retriever", "k", "EM", "answer in docs", "queries"], lines), kept


def growth(runs: Mapping[str, Path], target: Path | None, title: str) -> tuple[str, dict[str, Any]]:
    """Exact match of fine-tuned readers after every eighth of their steps.

    Args:
        runs: the folders of finished runs, by what the figure calls them.
        target: where the plot goes.
        title: above the plot.
    """
    kept: dict[str, Any] = {}
    series: dict[str, tuple[list[float], list[float]]] = {}
    titles = ["reader", "before", *(f"{n}/8" for n in range(1, 9)), "best"]
    lines = []
    for name, place in runs.items():
        if not (place / "metrics.json").exists():
            continue
        metrics = read_json(place / "metrics.json")
        values = [row[EM] for row in metrics["history"]]
        best = max(values) or 1.0
        shares = [row["step"] / metrics["steps"] for row in metrics["history"]]
        kept[name] = {
            "share": [round(share, 4) for share in shares],
            "exact_match": [round(value, 4) for value in values],
            "examples": metrics["examples"],
            "queries": metrics["tuning_queries"],
        }
        series[name] = (shares, [100 * value / best for value in values])
        cells = [percent(value) for value in values] + ["–"] * (9 - len(values))
        lines.append([name, *cells, percent(max(values))])
    if not kept:
        return "", {}
    if target is not None:
        plot_lines(
            series,
            target / "reading.png",
            title=title,
            across="share of the fine-tuning steps",
            up="exact match, per cent of the best",
        )
    return markdown_table(titles, lines), kept


def figure5(table: ReadingTable, folder: Path, target: Path | None) -> tuple[str, dict[str, Any]]:
    """Gains in exact match over standard RAG, by the banks of fine-tuning and of asking.

    Args:
        table: the figure.
        folder: the records of one benchmark's queries.
        target: where the plot goes.
    """
    banks = table.banks
    plain = load_result(folder, table.shown()[0], "standard RAG")
    crossed = crossed_results(folder, table.banked, banks)
    if plain is None or not crossed:
        return "", {}
    gains = gains_of(crossed, banks, lambda cell: _gain(cell, plain))
    paper = read_json(_PAPER)["gains"] if len(banks) == 4 else None
    seen, unseen = mean_gains(gains)
    lines = [
        gain_table(gains, banks, paper),
        f"Mean gain with the bank of fine-tuning {seen:+.1f} points, with another {unseen:+.1f}. "
        f"Standard RAG: {percent(plain.mean(EM))}.",
        paper_note("ruleqa-i"),
    ]
    repeats = {bank: _by_repeat([crossed[i, bank] for i in banks]) for bank in banks}
    lines += [
        "",
        "Exact match where a shown rule says that the asked relation repeats itself, and where "
        "none does:",
        "",
        "| asked with | queries with one | EM with | EM without |",
        "| --- | ---: | ---: | ---: |",
    ]
    lines += [f"| {bank} | {' | '.join(map(percent, three))} |" for bank, three in repeats.items()]
    if target is not None:
        plot_map(
            gains,
            banks,
            target / "reading.png",
            title="Gain in exact match over standard RAG, points",
            across="asked with",
            down="fine-tuned with",
        )
    kept = {"plain": plain.mean(EM), "gains": gains.round(3).tolist(), "repeats": repeats}
    return "\n".join(lines) + "\n", {**kept, "seen": seen, "unseen": unseen}


def _by_repeat(cells: Sequence[Result]) -> list[float]:
    """Queries with a rule that repeats the relation, a fraction; exact match with and without."""
    shown = np.concatenate([cell.column("repeat_shown") for cell in cells]) > 0
    right = np.concatenate([cell.column(EM) for cell in cells])
    return [
        float(shown.mean()),
        *(float(right[s].mean()) if s.any() else 0.0 for s in (shown, ~shown)),
    ]


def _gain(cell: Result, plain: Result) -> float:
    left, right = paired(cell, plain, EM)
    return 100 * float(np.mean(left) - np.mean(right))
