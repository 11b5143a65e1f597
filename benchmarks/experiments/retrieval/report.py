"""Reports of the retrieval experiments: tables, results, plots of finished runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.banks import crossed_results, gain_table, gains_of, mean_gains
from benchmarks.common.plotting import plot_map, plot_recall
from benchmarks.common.report_folder import report_each
from benchmarks.common.results import TEN, UNION, Result
from benchmarks.experiments.matrix.rows import NOTES
from benchmarks.experiments.matrix.tables import RETRIEVAL, RetrievalTable
from benchmarks.experiments.retrieval.tables import (
    COMPARED,
    against_paper,
    benchmark_table,
    comparison_table,
    recall_table,
    results_of,
)
from rulerag.errors import DataError
from rulerag.io import write_json
from rulerag.ruleqa import GRAPHS


def has_rows(folder: Path) -> bool:
    """Whether a folder holds finished rows of a retrieval experiment."""
    return any((folder / "rows").glob("*/*/*.json"))


def report_retrieval(
    folder: Path,
    save: Path | None = None,
    only: str = "",
    *,
    tables: Mapping[str, RetrievalTable] = RETRIEVAL,
) -> str:
    """Markdown of every experiment that has rows; results files and plots beside it.

    Args:
        folder: the folder of the runs.
        save: where tables, results files and plots go, a folder for each experiment.
        only: the name of one experiment.
        tables: the experiments.

    Raises:
        DataError: there is no finished row.
    """
    if not has_rows(folder):
        raise DataError(
            "holds no finished row of a retrieval experiment",
            path=folder,
            hint="python -m benchmarks.experiments run table2-retrieval --out DIR",
        )

    def made(name: str, target: Path | None) -> tuple[str, dict[str, Any]]:
        table = tables[name]
        found = _benchmarks(folder, table)
        if not found:
            return "", {}
        if table.banks:
            return _banks(folder, table, found, target), {}
        if table.fusions:
            return _table2(found, target), {}
        return _by_cutoff(name, table, found, target), {}

    titles = [(name, experiment.title) for name, experiment in tables.items()]
    return report_each(titles, made, save, only=only)


def _benchmarks(folder: Path, experiment: RetrievalTable) -> dict[str, dict[str, Result]]:
    found = {
        name: results_of(folder / "rows" / name / experiment.query_set)
        for name in experiment.benchmarks or GRAPHS
    }
    return {name: results for name, results in found.items() if results}


def _table2(found: Mapping[str, Mapping[str, Result]], target: Path | None) -> str:
    parts, comparisons = [NOTES["retrieval"]], {}
    for title, pairs in COMPARED.items():
        text, comparisons[title] = comparison_table(found, pairs)
        parts.append(f"## {title}\n\n{text}")
    for benchmark, results in found.items():
        about = next(iter(results.values())).records[0].get("about", {})
        ceilings, saw = about.get("ceilings", {}), about.get("encoder_saw", "")
        parts.append(benchmark_table(benchmark, results, saw, ceilings))
    parts.append(f"## Beside the paper's best\n\n{against_paper(found)}")
    if target is not None:
        kept = {
            benchmark: {name: result.summary() for name, result in results.items()}
            for benchmark, results in found.items()
        }
        write_json(target / "results.json", {"rows": kept, "comparisons": comparisons})
    return "\n".join(parts)


def _by_cutoff(
    name: str,
    table: RetrievalTable,
    found: Mapping[str, Mapping[str, Result]],
    target: Path | None,
) -> str:
    parts = []
    for benchmark, results in found.items():
        shown = [results[row] for row in table.shown if row in results]
        if not shown:
            continue
        cutoffs = (1, 2, 5, 10, 50)
        parts.append(f"## {benchmark}\n\n{recall_table(shown, cutoffs)}")
        if target is not None:
            if name == "figure3":
                plot_recall(shown, target / f"{benchmark}.png", f"{benchmark}, answer recall")
            kept = {result.name: result.summary() for result in shown}
            write_json(target / f"{benchmark}.json", kept)
    return "\n".join(parts)


def _banks(
    folder: Path,
    table: RetrievalTable,
    found: Mapping[str, Mapping[str, Result]],
    target: Path | None,
) -> str:
    parts = []
    for benchmark, results in found.items():
        plain = results.get(table.shown[0])
        crossed = crossed_results(
            folder / "rows" / benchmark / "balanced", table.banked, table.banks
        )
        if plain is None or not crossed:
            continue
        kept: dict[str, Any] = {"plain": {m: plain.mean(m) for m in (TEN, UNION)}}
        for measure, words in ((TEN, "ten documents in all"), (UNION, "untrimmed union")):
            before = plain.mean(measure)
            gains = gains_of(
                crossed,
                table.banks,
                lambda one, m=measure, b=before: one.mean(m) - b,  # type: ignore[misc]
            )
            seen, unseen = mean_gains(gains)
            parts.append(
                f"## {benchmark}, gain in answer recall@10 over plain retrieval, {words}\n\n"
                f"{gain_table(100 * gains, table.banks)}\nMean gain with the bank of fine-tuning "
                f"{100 * seen:+.1f}, with another {100 * unseen:+.1f}. Plain: {100 * before:.1f}.\n"
            )
            kept[measure] = {"gains": gains.round(5).tolist(), "seen": seen, "unseen": unseen}
            if target is not None and measure == TEN:
                plot_map(
                    100 * gains,
                    table.banks,
                    target / f"{benchmark}.png",
                    title="Gain over plain retrieval, ten documents in all",
                    across="asked with",
                    down="fine-tuned with",
                    label="gain in answer recall@10, points",
                )
        if target is not None:
            write_json(target / f"{benchmark}.json", kept)
    return "\n".join(parts)
