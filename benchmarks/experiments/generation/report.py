"""Reports of the generator experiments: tables, results, plots of finished runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.baselines.runs import baselines_of
from benchmarks.common.report_folder import report_each
from benchmarks.common.results import Result
from benchmarks.experiments.generation.errors import error_table
from benchmarks.experiments.generation.figures import figure3, figure5, growth
from benchmarks.experiments.generation.tables import (
    against_baselines,
    against_learned,
    best_table,
    orderings,
    pairs_table,
    reading_table,
    readings_of,
    summary,
)
from benchmarks.experiments.matrix.rows import FT, LANGUAGE_MODELS, NOTES, reading_row
from benchmarks.experiments.matrix.tables import READINGS, RETRIEVAL, ReadingTable
from rulerag.errors import DataError
from rulerag.io import read_json
from rulerag.ruleqa import GRAPHS

ERROR_ROWS = (FT, "dense-guided-rgft-learned__symbolic", "bm25-guided-learned__candidate")
"""The rows whose wrong answers are sorted into classes."""


def has_readings(folder: Path) -> bool:
    """Whether a folder holds finished rows of a generator experiment."""
    return any((folder / "reading").glob("*/*/*.json"))


def report_generation(
    folder: Path,
    save: Path | None = None,
    only: str = "",
    *,
    tables: Mapping[str, ReadingTable] = READINGS,
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
    if not has_readings(folder):
        raise DataError(
            "holds no finished row of a generator experiment",
            path=folder,
            hint="python -m benchmarks.experiments run table2 --out DIR",
        )

    def made(name: str, target: Path | None) -> tuple[str, dict[str, Any]]:
        text, kept = _made(folder, name, tables[name], target)
        note = f"{tables[name].note}\n\n" if tables[name].note else ""
        file = "reading.json" if name in RETRIEVAL else "results.json"
        return (f"{note}{text}" if text else ""), {file: kept}

    titles = [(name, experiment.title) for name, experiment in tables.items()]
    # Where the retrieval half has a table of its own, the two are side by side.
    return report_each(
        titles, made, save, only=only, stem=lambda n: "reading" if n in RETRIEVAL else "table"
    )


def _made(
    folder: Path, name: str, experiment: ReadingTable, target: Path | None
) -> tuple[str, dict[str, Any]]:
    benchmarks = experiment.benchmarks or tuple(GRAPHS)
    reading = folder / "reading"
    if name == "table2":
        return _table2(reading, experiment)
    if name in ("figure3", "figure5"):
        make = figure3 if name == "figure3" else figure5
        return make(experiment, reading / benchmarks[0] / experiment.query_set, target)
    if name in ("figure4", "figure6"):
        runs = {
            label if name == "figure4" else f"{label}, {base}": place
            for label in benchmarks
            for base, place in _trained(folder, label, several=name == "figure6").items()
        }
        return growth(runs, target, experiment.title)
    return _rows(reading, experiment, benchmarks)


def _trained(folder: Path, benchmark: str, *, several: bool) -> dict[str, Path]:
    """The RGFT runs of a benchmark by their base: that of Table 2's record, or all."""
    record = folder / "reading" / benchmark / "balanced" / f"{FT}-0.json"
    main = ""
    if record.exists():
        main = Path(read_json(record)["config"]["generator"]["adapter"]).parent.parent.name
    bases = sorted(
        place.parent.parent.name for place in folder.glob(f"readers/*/{benchmark}/rgft-0")
    )
    if not several:
        bases = [base for base in bases if base == main] or bases[:1]
    labels = _labels(folder, benchmark)
    return {
        labels.get(base, base): folder / "readers" / base / benchmark / "rgft-0" for base in bases
    }


def _labels(folder: Path, benchmark: str) -> dict[str, str]:
    """What tables call a base, from the records of the rows that were read with it."""
    found = {}
    for record in (folder / "reading" / benchmark / "balanced").glob(f"{FT}*-0.json"):
        result = read_json(record)
        if "-R" not in record.stem:
            base = Path(result["config"]["generator"]["adapter"]).parent.parent.name
            found[base] = result["reader"]
    return found


def _table2(reading: Path, table: ReadingTable) -> tuple[str, dict[str, Any]]:
    found = {name: readings_of(reading / name / "balanced") for name in GRAPHS}
    found = {name: results for name, results in found.items() if results}
    full = {name: readings_of(reading / name / "full") for name in found}
    if not found:
        return "", {}
    names = table.shown()
    bases = {name: baselines_of(reading / name / "balanced") for name in found}
    parts = [NOTES["measures"], NOTES["readers"], NOTES["baselines"]]
    shown = {
        name: {n: r for n, r in results.items() if n in names} for name, results in found.items()
    }
    added, rules = pairs_table(shown)
    parts.append(f"## What rules add, everything else equal\n\n{added}")
    for name, results in found.items():
        text = reading_table(name, results, names, baselines=bases[name])
        parts.append(f"## {name}\n\n{text}")
        if missing := [reading_row(row).title for row in names if row not in results]:
            parts.append(f"Not run: {'; '.join(missing)}.\n")
    base, based = against_baselines(shown, bases)
    parts.append(f"## Against the best baseline that needs no system\n\n{base}\n{NOTES['picked']}")
    learned, compared = against_learned(shown)
    parts.append(f"## The bars: RGFT + RGFT against every learned row\n\n{learned}")
    order, ordered = orderings(shown)
    parts.append(f"## The orderings of the paper's rows\n\n{order}")
    parts.append(f"## The best pipeline of any kind\n\n{best_table(shown, full)}\n{NOTES['best']}")
    errors, classes = error_table(shown, ERROR_ROWS)
    parts.append(f"## Errors, by the classes of appendix A.8\n\n{errors}")
    kept = {
        "rows": _summaries(shown),
        "baselines": _summaries(bases),
        "against_baselines": based,
        "rules_add": rules,
        "bars": compared,
        "orderings": ordered,
        "errors": classes,
        "learned": LANGUAGE_MODELS,
        "weights": {
            name: {
                place.stem: read_json(place)
                for place in sorted((reading / name / "weights").glob("*.json"))
            }
            for name in found
        },
    }
    return "\n".join(parts), kept


def _summaries(benchmarks: Mapping[str, Mapping[str, Result]]) -> dict[str, dict[str, Any]]:
    return {
        name: {row: summary(one) for row, one in results.items()}
        for name, results in benchmarks.items()
    }


def _rows(
    reading: Path, experiment: ReadingTable, benchmarks: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    parts = [NOTES["measures"], NOTES["baselines"]]
    found: dict[str, dict[str, Result]] = {}
    bases: dict[str, dict[str, Result]] = {}
    for benchmark in benchmarks:
        folder = reading / benchmark / experiment.query_set
        for label in _tags(folder, experiment):
            rows = experiment.shown(others=bool(label))
            results: dict[str, Result] = readings_of(folder, label)
            shown = {row: results[row] for row in rows if row in results}
            if not shown:
                continue
            called = f", reader {label.removeprefix('@')}" if label else ""
            bases[benchmark] = baselines_of(folder)
            table = reading_table(benchmark, shown, rows, experiment.papers, bases[benchmark])
            parts.append(f"## {benchmark}{called}\n\n{table}")
            found[f"{benchmark}{label}"] = shown
    if not found:
        return "", {}
    kept: dict[str, Any] = {**_summaries(found), "baselines": _summaries(bases)}
    if experiment.query_set == "full":
        text, kept["against_baselines"] = against_baselines(found, bases)
        parts.append(
            f"## Against the best baseline that needs no system\n\n{text}\n{NOTES['picked']}"
        )
    return "\n".join(parts), kept


def _tags(folder: Path, experiment: ReadingTable) -> list[str]:
    """The readers of a table: the one that is installed, and further ones."""
    if not experiment.has_others:
        return [""]
    found = {place.stem.partition("@")[2].rpartition("-")[0] for place in folder.glob("*@*.json")}
    return ["", *(f"@{label}" for label in sorted(found) if label)]
