"""Reports of the retrieval experiments: tables, results, plots of finished runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.report_folder import report_each
from benchmarks.common.results import TEN, UNION, Result, load_result
from benchmarks.experiments.matrix.tables import RETRIEVAL, RetrievalTable
from benchmarks.experiments.retrieval.plots import plot_banks, plot_recall
from benchmarks.experiments.retrieval.tables import (
    COMPARED,
    against_paper,
    benchmark_table,
    comparison_table,
    recall_table,
    results_of,
    summary,
)
from rulerag.errors import DataError
from rulerag.io import write_json

_NOTES = """R@k: an answer stands in the text of the k best documents, an equal budget for every
row. R@10 entity: one of the ten states a fact whose subject or object is an answer; the string also
stands inside longer names ("China" in "Citizen (China)"). R@10 union: the whole, untrimmed union of
every search's ten best; docs is its mean size. The paper's tables use ten documents in all, so its
figures stand beside R@10. In brackets 95 % bootstrap intervals: over queries and seeds where a row
has several seeds, over the queries alone where it has one; behind ± the deviation over the seeds.
"better" needs a corrected p below 0.05, else the difference is within chance. CPU s and MB are of
building the index and of all searches, each row in a process of its own (the vectors of a corpus
are encoded once, by the first row that needs them; the dataset itself is part of the MB).

Fine-tuned rows: configs/training/retriever-nano.yaml, at most 2,048 queries of F_R; the checkpoint
with the best answer recall on 200 queries of F_G is kept, and the start is one of the candidates
(best step 0: fine-tuning did not help; one step for each seed).
RGFT learns from query∘rule and from plain queries, and its searches are those of the rules and the
plain one; so are those of the untrained rule-guided row. "As the paper writes it": q∘r for each
rule, no plain search, fine-tuned on q∘r alone; the ten documents are taken from the per-rule top
tens in turns. Each control ("pooled") is its rule-guided row without the rules: the plain search
looks as deep as all nine searches together (1,800 documents) and is merged alike. How searches are
merged was chosen on F_G (merging-*.md); the rows with learned merging give the ten places to
candidate answers, weighed as learned on the validation variant (configs/merging), without
the queries that a fine-tuned encoder was trained on. On RuleQA-Y and -W only the latest
statement of each fact is indexed as a vector (retriever.latest): the corpus repeats lasting facts
every year.

The baselines that need no system rank entities, not documents: no recall of theirs can stand here.
They are in benchmarks/results/baselines and first in the tables of exact match.
"""


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
    names = sorted(place.name for place in (folder / "rows").iterdir())
    order = [name for name in (experiment.benchmarks or _ORDER) if name in names]
    found = {}
    for name in order:
        results = results_of(folder / "rows" / name / experiment.query_set)
        if results:
            found[name] = results
    return found


_ORDER = ("ruleqa-i", "ruleqa-y", "ruleqa-w", "ruleqa-f", "ruleqa-n")


def _table2(found: Mapping[str, Mapping[str, Result]], target: Path | None) -> str:
    parts, comparisons = [_NOTES], {}
    for title, pairs in COMPARED.items():
        text, comparisons[title] = comparison_table(found, pairs)
        parts.append(f"## {title}\n\n{text}")
    for benchmark, results in found.items():
        about = next(iter(results.values())).records[0].get("about", {})
        ceilings, saw = about.get("ceilings", {}), about.get("encoder_saw", "")
        parts.append(benchmark_table(benchmark, results, saw, ceilings))
    parts.append(f"## Beside the paper's best\n\n{against_paper(found)}")
    if target is not None:
        kept = {benchmark: summary(results) for benchmark, results in found.items()}
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
    banks = table.banks
    parts = []
    for benchmark, results in found.items():
        plain = results.get(table.shown[0])
        place = folder / "rows" / benchmark / "balanced"
        cells = {
            (i, j): load_result(place, table.banked, "RGFT", f"-{i}-{j}")
            for i in banks
            for j in banks
        }
        if plain is None or any(cell is None for cell in cells.values()):
            continue
        kept: dict[str, Any] = {"plain": {m: plain.mean(m) for m in (TEN, UNION)}}
        for measure, words in ((TEN, "ten documents in all"), (UNION, "untrimmed union")):
            gains = np.array(
                [[_gain(cells[i, j], plain, measure) for j in banks] for i in banks], dtype=float
            )
            lines = [f"| trained on | {' | '.join(f'asked with {bank}' for bank in banks)} |"]
            lines.append("| --- |" + " ---: |" * len(banks))
            lines += [
                f"| {bank} | {' | '.join(f'{100 * value:+.1f}' for value in row)} |"
                for bank, row in zip(banks, gains, strict=True)
            ]
            seen = float(np.diag(gains).mean())
            unseen = float(gains[~np.eye(len(banks), dtype=bool)].mean())
            text = "\n".join(lines)
            parts.append(
                f"## {benchmark}, gain in answer recall@10 over plain retrieval, {words}\n\n"
                f"{text}\n\nMean gain with the bank of fine-tuning {100 * seen:+.1f}, with "
                f"another {100 * unseen:+.1f}. Plain: {100 * plain.mean(measure):.1f}.\n"
            )
            kept[measure] = {"gains": gains.round(5).tolist(), "seen": seen, "unseen": unseen}
            if target is not None and measure == TEN:
                plot_banks(gains, banks, target / f"{benchmark}.png")
        if target is not None:
            write_json(target / f"{benchmark}.json", kept)
    return "\n".join(parts)


def _gain(cell: Result | None, plain: Result, measure: str) -> float:
    return (cell.mean(measure) if cell is not None else np.nan) - plain.mean(measure)
