"""Tables of the generator experiments from their records: ours beside the paper's."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.generation_rows import (
    FT,
    LEARNED,
    OTHERS,
    PAPER_BEST_EM,
    READING,
    Paper,
    paper_value,
    reading_row,
)
from benchmarks.retrieval_tables import Result, load_result
from rulerag.evaluation.significance import holm, paired_randomization_test

__all__ = [
    "BARS",
    "bars_table",
    "best_of",
    "best_table",
    "orderings",
    "reading_table",
    "readings_of",
    "summary",
]

EM, F1 = "exact_match", "token_f1"
BARS = {
    "dense-ssft__llama-rgft": "rules removed from the retriever",
    "dense-guided-rgft-learned__llama-ssft": "rules removed from the reader",
    "dense-ssft__llama-ssft": "rules removed from both",
}
"""What RGFT + RGFT is compared with to see whether rules help."""


def readings_of(folder: Path, tag: str = "") -> dict[str, Result]:
    """Every row that stands in a folder of records, in the order of the tables."""
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
) -> str:
    """Markdown: rows of one benchmark, ours beside the paper's.

    Args:
        benchmark: its name.
        results: its rows.
        names: which of them.
        papers: the paper's rows beside them; those of Table 2 when None.
    """
    lines = [
        "| method | answer in docs | EM | T-F1 | paper EM | paper T-F1 | queries | ms a query |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in (n for n in names if n in results):
        result, row = results[name], reading_row(name)
        record = result.records[0]
        paper = row.paper if papers is None else papers.get(name)
        searches = row.sample or row.finding == "none"
        cells = [
            result.title,
            "–" if searches else percent(result.mean("in_documents")),
            with_interval(result, EM),
            percent(result.mean(F1)),
            percent(paper_value(paper, benchmark, "em")),
            percent(paper_value(paper, benchmark, F1)),
            f"{record['num_queries']:,}",
            f"{1e3 * record['cpu_seconds']['read'] / max(1, record['num_queries']):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def paired(one: Result, other: Result, measure: str) -> tuple[list[float], list[float]]:
    """The values of two rows over the queries that both were asked."""
    mine, theirs = one.values[0]["places"].astype(int), other.values[0]["places"].astype(int)
    both = np.intersect1d(mine, theirs)
    left: npt.NDArray[np.float64] = one.column(measure)[np.isin(mine, both)]
    right: npt.NDArray[np.float64] = other.column(measure)[np.isin(theirs, both)]
    return left.tolist(), right.tolist()


def bars_table(benchmarks: Mapping[str, Mapping[str, Result]]) -> tuple[str, list[dict[str, Any]]]:
    """RGFT + RGFT against every other learned row: differences and paired tests.

    The p-values are of a paired randomization test over queries, Holm-adjusted over the table.

    Args:
        benchmarks: the rows by benchmark.
    """
    rows: list[dict[str, Any]] = []
    for name, results in benchmarks.items():
        for other in (n for n in LEARNED if n != FT and n in results):
            if FT not in results:
                continue
            left, right = paired(results[FT], results[other], EM)
            rows.append(
                {
                    "benchmark": name,
                    "against": results[other].title,
                    "bar": BARS.get(other, "best learned row"),
                    "ours": float(np.mean(left)),
                    "other": float(np.mean(right)),
                    "queries": len(left),
                    "p": paired_randomization_test(left, right, samples=5000),
                }
            )
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
    lines = [
        "| benchmark | against | bar | RGFT + RGFT | other | difference | p (Holm) | met |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| {r['benchmark']} | {r['against']} | {r['bar']} | {percent(r['ours'])} | "
        f"{percent(r['other'])} | {100 * (r['ours'] - r['other']):+.1f} | {r['p_holm']:.4f} | "
        f"{'yes' if r['ours'] > r['other'] else 'tie' if r['ours'] == r['other'] else 'no'} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n", rows


def orderings(benchmarks: Mapping[str, Mapping[str, Result]]) -> tuple[str, dict[str, Any]]:
    """Of all pairs of the paper's rows: which stand here in the same order.

    Args:
        benchmarks: the rows by benchmark.
    """
    told: dict[str, Any] = {}
    lines = [
        "| benchmark | pairs | same order | the other way round |",
        "| --- | ---: | ---: | --- |",
    ]
    for name, results in benchmarks.items():
        known = [n for n in LEARNED if n in results and reading_row(n).paper]
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
        told[name] = {"pairs": pairs, "same": same, "exceptions": exceptions}
        lines.append(f"| {name} | {pairs} | {same} | {'; '.join(exceptions) or '–'} |")
    return "\n".join(lines) + "\n", told


def best_table(
    benchmarks: Mapping[str, Mapping[str, Result]], full: Mapping[str, Mapping[str, Result]]
) -> str:
    """Markdown: the best pipeline of any kind beside the paper's best, with the ceilings.

    Args:
        benchmarks: the rows on the balanced queries, by benchmark.
        full: rows on all queries.
    """
    lines = [
        "| benchmark | paper's best EM | best here | EM | on all queries | a rule leads to an "
        "answer | any document holds one | reached |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, results in benchmarks.items():
        best = best_of(results)
        whole = best_of(full[name]) if full.get(name) else None
        ceilings = best.records[0].get("ceilings", {})
        cells = [
            name,
            percent(PAPER_BEST_EM[name]),
            best.title,
            with_interval(best, EM),
            "–" if whole is None else f"{percent(whole.mean(EM))} ({whole.title})",
            percent(ceilings.get("oracle")),
            percent(ceilings.get("anywhere")),
            "yes" if best.mean(EM) >= PAPER_BEST_EM[name] else "no",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def best_of(results: Mapping[str, Result]) -> Result:
    """The row of the best exact match over the queries that all read; of equals the fullest."""
    asked = {n: r for n, r in results.items() if not reading_row(n).sample}
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
        "cpu_seconds": record["cpu_seconds"]["read"],
    }


def with_interval(result: Result, measure: str) -> str:
    """The mean, its spread over several seeds, its bootstrap interval over queries, per cent."""
    low, high = result.interval(measure)
    spread = f" ±{100 * result.spread(measure):.1f}" if len(result.records) > 1 else ""
    return f"{percent(result.mean(measure))}{spread} [{100 * low:.1f}, {100 * high:.1f}]"


def percent(value: float | None) -> str:
    """A fraction as per cent; a dash for none."""
    return "–" if value is None else f"{100 * value:.1f}"
