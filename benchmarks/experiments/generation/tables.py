"""Tables of the generator experiments from their records: ours beside the paper's."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common.published import NOT_PUBLIC, Paper, paper_note, paper_value
from benchmarks.common.results import Result, difference_table, load_result, percent
from benchmarks.experiments.matrix.rows import (
    FT,
    LANGUAGE_MODELS,
    OTHERS,
    PAPER_BEST_EM,
    READING,
    READING_PAIRS,
    ReadingRow,
    reading_row,
)
from benchmarks.stages.answers import CHARACTERS, EM, F1, LENIENT
from rulerag.evaluation import markdown_table, paired_randomization_test


def readings_of(folder: Path, tag: str = "") -> dict[str, Result]:
    """Every finished row in a folder of records, in the order of the tables."""
    found = {}
    for row in (*READING, *OTHERS):
        if result := load_result(folder, row.name, row.title, tag):
            found[row.name] = result
    return found


def reading_table(
    benchmark: str,
    results: Mapping[str, Result],
    names: Sequence[str],
    papers: Mapping[str, Paper] | None = None,
    baselines: Mapping[str, Result] | None = None,
) -> str:
    """Markdown: rows of one benchmark, ours beside the paper's.

    Args:
        benchmark: its name.
        results: its rows.
        names: which of them.
        papers: the paper's rows beside them; those of Table 2 when None.
        baselines: rows that need no system, which come first, on the queries of the others.
    """
    titles = [
        *("method", "answer in docs", "entity in docs", "EM", "EM, lenient", "T-F1", "char-F1"),
        *("paper EM", "paper T-F1", "best step", "queries", "ms a query"),
    ]
    shown = {name: results[name] for name in names if name in results}
    rows = [
        _cells(benchmark, _asked_as(baseline, shown), searches=True, paper=None)
        for baseline in (baselines or {}).values()
    ]
    undone = False
    for name, result in shown.items():
        row = reading_row(name)
        cells = _cells(
            benchmark,
            result,
            searches=bool(row.sample) or row.retriever == "none",
            paper=row.paper if papers is None else papers.get(name),
        )
        if _cannot(row, result):
            cells[3:7], undone = ["n/a"] * 4, True
        rows.append(cells)
    notes = [] if not undone else ["n/a: this reader cannot do that method; no answer was right."]
    if any((reading_row(n).paper if papers is None else papers.get(n)) for n in shown):
        notes.append(paper_note(benchmark, _reachable(shown)))
    note = "\n" + "\n".join(notes) + "\n" if notes else ""
    return markdown_table(titles, rows) + note


def _cells(benchmark: str, result: Result, *, searches: bool, paper: Paper | None) -> list[str]:
    record = result.records[0]
    kept = {half: result.steps(half) for half in ("retriever", "reader") if result.trained(half)}
    return [
        result.called,
        "–" if searches else percent(result.mean("in_documents")),
        "–" if searches else percent(result.mean("entity_in_documents")),
        result.cell(EM),
        percent(result.mean(LENIENT)),
        percent(result.mean(F1)),
        percent(result.mean(CHARACTERS)),
        percent(paper_value(paper, benchmark, "em")),
        percent(paper_value(paper, benchmark, F1)),
        "; ".join(f"{half} {steps}" for half, steps in kept.items()) or "–",
        f"{record['num_queries']:,}",
        f"{1e3 * record['cpu_seconds']['read'] / max(1, record['num_queries']):.0f}",
    ]


def _cannot(row: ReadingRow, result: Result) -> bool:
    """Whether a method that asks a model for more than reading gets no answer right from it."""
    return (bool(row.sample) or row.retriever == "none") and result.mean(EM) == 0


def _reachable(results: Mapping[str, Result]) -> float | None:
    """Test queries with an answer in any document about the subject, a fraction; if measured."""
    record = next(iter(results.values())).records[0]
    share = record.get("ceilings", {}).get("same_subject")
    return None if share is None or record.get("variant") else float(share)


def _asked_as(baseline: Result, results: Mapping[str, Result]) -> Result:
    """A baseline on the queries that a table's rows read; samples of single rows do not count."""
    read = [r for n, r in results.items() if not reading_row(n).sample]
    mine = baseline.values[0]["places"].astype(int)
    if not read:
        return baseline
    asked = np.isin(mine, np.concatenate([r.values[0]["places"].astype(int) for r in read]))
    if asked.all():
        return baseline
    values = {name: column[asked] for name, column in baseline.values[0].items()}
    metrics = {name: float(values[name].mean()) for name in baseline.records[0]["metrics"]}
    changes = {"metrics": metrics, "num_queries": int(asked.sum())}
    return Result(baseline.name, baseline.title, [{**baseline.records[0], **changes}], [values])


def paired(one: Result, other: Result, measure: str) -> tuple[list[float], list[float]]:
    """The values of two rows over the queries that both read."""
    mine, theirs = one.values[0]["places"].astype(int), other.values[0]["places"].astype(int)
    both = np.intersect1d(mine, theirs)
    left: npt.NDArray[np.float64] = one.column(measure)[np.isin(mine, both)]
    right: npt.NDArray[np.float64] = other.column(measure)[np.isin(theirs, both)]
    return left.tolist(), right.tolist()


def pairs_table(
    benchmarks: Mapping[str, Mapping[str, Result]],
) -> tuple[str, list[dict[str, Any]]]:
    """What rules add to exact match: each pair of rows shares everything but the rules.

    Args:
        benchmarks: the rows by benchmark.
    """
    rows: list[dict[str, Any]] = []
    for name, results in benchmarks.items():
        for ours, other, part in READING_PAIRS:
            if ours in results and other in results:
                labels = {"row": results[ours].title, "bar": f"rules removed from the {part}"}
                if part == "both":
                    labels["bar"] = "rules removed from both"
                compare = compared(results[ours], results[other])
                rows.append({"benchmark": name, "names": [ours, other], **labels, **compare})
    return _differences(rows, "rules add"), rows


def against_learned(
    benchmarks: Mapping[str, Mapping[str, Result]],
) -> tuple[str, list[dict[str, Any]]]:
    """RGFT + RGFT against every other learned row: differences and paired tests.

    Rows of a method that the reader cannot do are left out. ``met`` needs a corrected p-value below
    0.05, else the difference is within chance. The p-values are of a paired randomization test over
    queries, Holm-adjusted over the table.

    Args:
        benchmarks: the rows by benchmark.
    """
    rows: list[dict[str, Any]] = []
    for name, results in benchmarks.items():
        for other in (n for n in LANGUAGE_MODELS if n != FT and n in results):
            if FT not in results or _cannot(reading_row(other), results[other]):
                continue
            labels = {"bar": "best learned row", "row": "RGFT + RGFT"}
            rows.append({"benchmark": name, **labels, **compared(results[FT], results[other])})
    return _differences(rows, "met"), rows


def compared(one: Result, other: Result) -> dict[str, Any]:
    """Exact match of two rows over the queries that both read, and the p-value."""
    left, right = paired(one, other, EM)
    return {
        "against": other.title,
        "ours": float(np.mean(left)),
        "other": float(np.mean(right)),
        "queries": len(left),
        "p": paired_randomization_test(left, right, samples=5000),
    }


def _differences(rows: list[dict[str, Any]], called: str) -> str:
    return difference_table(rows, ("benchmark", "row", "against", "bar"), "EM", called=called)


def against_baselines(
    benchmarks: Mapping[str, Mapping[str, Result]], baselines: Mapping[str, Mapping[str, Result]]
) -> tuple[str, list[dict[str, Any]]]:
    """RGFT + RGFT and the best row of any kind against the best baseline that needs no system.

    Best row and best baseline are picked on these very queries.

    Args:
        benchmarks: the rows by benchmark.
        baselines: the baselines by benchmark, on the same queries or more.
    """
    rows: list[dict[str, Any]] = []
    for name, results in benchmarks.items():
        if not baselines.get(name):
            continue
        best = best_of(results)
        strongest = max(
            (_asked_as(one, results) for one in baselines[name].values()),
            key=lambda one: one.mean(EM),
        )
        known = {"RGFT + RGFT": results.get(FT), f"best row: {best.title}": best}
        rows += [
            {"benchmark": name, "row": called, "bar": "best baseline", **compared(one, strongest)}
            for called, one in known.items()
            if one is not None
        ]
    return _differences(rows, "beats it"), rows


def orderings(benchmarks: Mapping[str, Mapping[str, Result]]) -> tuple[str, dict[str, Any]]:
    """Of all pairs of the paper's rows: which are here in the same order.

    A row without a right answer is left out: that anything else is better says nothing of order.

    Args:
        benchmarks: the rows by benchmark.
    """
    orders: dict[str, Any] = {}
    titles = ["benchmark", "pairs", "same order", "the other way round", "left out"]
    rows = []
    for name, results in benchmarks.items():
        # Two of our rows may be beside one of the paper's: the first counts.
        beside: dict[Paper, str] = {}
        for n in LANGUAGE_MODELS:
            paper = reading_row(n).paper
            if n in results and paper is not None:
                beside.setdefault(paper, n)
        stand = list(beside.values())
        known = [n for n in stand if results[n].mean(EM) > 0]
        out = [results[n].title for n in stand if n not in known]
        same, exceptions, pairs = 0, [], 0
        for one, other in itertools.combinations(known, 2):
            published = [paper_value(reading_row(n).paper, name, "em") or 0.0 for n in (one, other)]
            if published[0] == published[1]:
                continue
            better, worse = (one, other) if published[0] > published[1] else (other, one)
            left, right = paired(results[better], results[worse], EM)
            pairs += 1
            if np.mean(left) > np.mean(right):
                same += 1
            elif np.mean(left) < np.mean(right):
                exceptions.append(f"{results[worse].title} > {results[better].title}")
        orders[name] = {"pairs": pairs, "same": same, "exceptions": exceptions, "left_out": out}
        lists = ("; ".join(exceptions) or "–", "; ".join(out) or "–")
        rows.append([name, str(pairs), str(same), *lists])
    return markdown_table(titles, rows, "lrrll"), orders


def best_table(
    benchmarks: Mapping[str, Mapping[str, Result]], full: Mapping[str, Mapping[str, Result]]
) -> str:
    """Markdown: the best pipeline of any kind beside the paper's best, with the ceilings.

    Args:
        benchmarks: the rows on the balanced queries, by benchmark.
        full: rows on all queries.
    """
    titles = [
        *("benchmark", "paper's best EM", "best here", "EM", "on all queries"),
        *("a rule leads to an answer", "any document holds one", "reached"),
    ]
    rows = []
    for name, results in benchmarks.items():
        best = best_of(results)
        whole = best_of(full[name]) if full.get(name) else None
        ceilings = best.records[0].get("ceilings", {})
        rows.append(
            [
                name,
                percent(PAPER_BEST_EM[name]),
                best.title,
                best.cell(EM),
                "–" if whole is None else f"{percent(whole.mean(EM))} ({whole.title})",
                percent(ceilings.get("oracle")),
                percent(ceilings.get("anywhere")),
                _reached(name, best.mean(EM)),
            ]
        )
    return markdown_table(titles, rows, "lrlrrrrl")


def _reached(benchmark: str, value: float) -> str:
    """Whether the paper's best is reached; no verdict where its queries cannot be ours."""
    if benchmark in NOT_PUBLIC:
        return "not comparable"
    return "yes" if value >= PAPER_BEST_EM[benchmark] else "no"


def best_of(results: Mapping[str, Result]) -> Result:
    """The row of the best exact match over the queries that all read; of equals the fullest."""
    asked = {n: r for n, r in results.items() if not reading_row(n).sample} or results
    places = [result.values[0]["places"].astype(int) for result in asked.values()]
    common = functools.reduce(np.intersect1d, places)

    def merit(result: Result) -> tuple[float, int]:
        mine = result.values[0]["places"].astype(int)
        return float(result.column(EM)[np.isin(mine, common)].mean()), len(mine)

    return max(asked.values(), key=merit)


def summary(result: Result) -> dict[str, Any]:
    """A row as the results file keeps it."""
    record = result.records[0]
    return {
        "title": result.title,
        "reader": record["reader"],
        "num_queries": record["num_queries"],
        "of_queries": record["of_queries"],
        "metrics": {name: round(result.mean(name), 5) for name in record["metrics"]},
        "interval": {name: result.interval(name) for name in (EM, F1)},
        "seeds": len(result.records),
        "spread": {name: round(result.spread(name), 5) for name in (EM, F1)},
        "best_step": {
            half: [one["best_step"] for one in result.trained(half)]
            for half in ("retriever", "reader")
            if result.trained(half)
        },
        "cpu_seconds": record["cpu_seconds"]["read"],
    }
