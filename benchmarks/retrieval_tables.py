"""Tables of the retrieval experiments from their records: ours beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.retrieval_rows import CONTROLS, FUSIONS, PAPER_BEST, ROWS, Row, paper_values
from rulerag.evaluation.significance import (
    bootstrap_interval,
    holm,
    paired_randomization_test,
)
from rulerag.io import read_json

__all__ = [
    "Result",
    "bars_table",
    "benchmark_table",
    "comparison_table",
    "load_result",
    "recall_table",
    "results_of",
    "summary",
]

Floats = npt.NDArray[np.float64]
TEN, UNION = "answer_recall@10", "answer_recall@10_union"
_COMPARED = (
    ("dense-guided-rgft", "dense-ssft", UNION),
    ("dense-guided-rgft", "dense-guided", UNION),
    ("dense-ssft+dense-guided-rgft", "dense-guided", UNION),
    ("dense-guided-rgft", "dense-ssft", TEN),
    ("dense-guided-rgft", "dense-guided", TEN),
    ("dense-guided-rgft-learned", "dense-guided-rgft", TEN),
    ("dense-guided-rgft-learned", "dense-ssft", TEN),
    ("dense-guided-rgft-learned", "dense-pooled-ssft-learned", TEN),
    ("dense-guided-rgft-learned", "dense-guided-learned", TEN),
)
_PROTOCOLS = {UNION: "paper's protocol", TEN: "equal budget"}


@dataclass(frozen=True)
class Result:
    """The records of one row, one a seed.

    Args:
        name: of the row.
        title: what the table calls it.
        records: what :func:`benchmarks.retrieval_runs.run_row` wrote.
        values: for each record one value a query of each measure.
    """

    name: str
    title: str
    records: list[dict[str, Any]]
    values: list[dict[str, Floats]]

    def column(self, measure: str) -> Floats:
        """One value a query, the mean over the seeds."""
        column: Floats = np.mean([values[measure] for values in self.values], axis=0)
        return column

    def mean(self, measure: str) -> float:
        """The mean over queries and seeds."""
        return float(np.mean([record["metrics"][measure] for record in self.records]))

    def spread(self, measure: str) -> float:
        """The standard deviation over the seeds; 0 for one."""
        found = [record["metrics"][measure] for record in self.records]
        return float(np.std(found, ddof=1)) if len(found) > 1 else 0.0

    @property
    def cpu_seconds(self) -> float:
        """To build the index and to search for all queries, the mean over the seeds."""
        return float(np.mean([sum(record["cpu_seconds"].values()) for record in self.records]))

    @property
    def memory_mb(self) -> int:
        """Peak memory of the worst run."""
        return max(int(record["memory_mb"]) for record in self.records)

    def summary(self) -> dict[str, Any]:
        """What results files keep: means, spreads over the seeds, bootstrap intervals."""
        measures = list(self.records[0]["metrics"])
        return {
            "title": self.title,
            "seeds": [record["seed"] for record in self.records],
            "num_queries": self.records[0]["num_queries"],
            "metrics": {name: round(self.mean(name), 5) for name in measures},
            "spread": {name: round(self.spread(name), 5) for name in (TEN, UNION)},
            "interval": {name: self.interval(name) for name in (TEN, UNION)},
            "cpu_seconds": round(self.cpu_seconds, 1),
            "memory_mb": self.memory_mb,
        }

    def interval(self, measure: str) -> list[float]:
        """The bootstrap interval of the mean over queries, 95 %."""
        low, high = bootstrap_interval(self.column(measure).tolist(), samples=2000)
        return [round(low, 4), round(high, 4)]


def load_result(folder: Path, row: str, title: str, tag: str = "") -> Result | None:
    """All seeds of a row, from the folder of a benchmark and query set; None without any."""
    places = sorted(
        (place for place in folder.glob(f"{row}{tag}-*.json") if _is_seed(place, f"{row}{tag}")),
        key=lambda place: int(place.stem.rpartition("-")[2]),
    )
    if not places:
        return None
    values = []
    for place in places:
        with np.load(place.parent / f"{place.stem}.values.npz") as held:
            values.append({name: held[name] for name in held.files})
    return Result(row, title, [read_json(place) for place in places], values)


def _is_seed(place: Path, start: str) -> bool:
    return place.stem.removeprefix(f"{start}-").isdigit()


def results_of(folder: Path) -> dict[str, Result]:
    """Every row that stands, in the order of the tables, the fused ones last."""
    titles = {row.name: row.title for row in (*ROWS, *CONTROLS)}
    for members in FUSIONS:
        titles["+".join(members)] = "fusion: " + " + ".join(titles[name] for name in members)
    found = {name: load_result(folder, name, title) for name, title in titles.items()}
    return {name: result for name, result in found.items() if result is not None}


def benchmark_table(
    name: str, results: Mapping[str, Result], saw: str, ceilings: Mapping[str, float]
) -> str:
    """Markdown: every row of one benchmark, ours beside the paper's.

    Args:
        name: the benchmark.
        results: its rows.
        saw: what the untrained encoder saw before.
        ceilings: the share of queries that a retriever could answer at best, by what limits it.
    """
    known = {row.name: row for row in (*ROWS, *CONTROLS)}
    queries = next(iter(results.values())).records[0]["num_queries"]
    lines = [
        f"## {name.replace('ruleqa', 'RuleQA').upper().replace('RULEQA', 'RuleQA')}, "
        f"{queries:,} queries",
        "",
        "| method | R@1 | R@2 | R@5 | R@10 | R@10 union | docs | paper | qrels R@10 | CPU s | MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for result in results.values():
        cells = [_title(result)]
        cells += [_percent(result.mean(f"answer_recall@{k}")) for k in (1, 2, 5)]
        cells += [_with_interval(result, TEN), _with_interval(result, UNION)]
        cells += [
            f"{result.mean('documents@10_union'):.1f}",
            _published(known.get(result.name), name),
            _percent(result.mean("recall@10")),
            f"{result.cpu_seconds:.0f}",
            f"{result.memory_mb:,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"Paper's best retriever: {_percent(PAPER_BEST[name])}. {_best(results)}"]
    if ceilings:
        told = ", ".join(f"{what} {_percent(share)}" for what, share in ceilings.items())
        lines.append(f"Ceilings (share of queries with an answer in …): {told}.")
    lines.append(f"The untrained encoder saw before: {saw}.")
    return "\n".join(lines) + "\n"


def comparison_table(benchmarks: Mapping[str, Mapping[str, Result]]) -> tuple[str, list[Any]]:
    """RGFT against SSFT and against rules without fine-tuning: differences and paired tests.

    The learned merging is compared with what it merges, and with the same without rules. The
    p-values are of a paired randomization test over queries (each the mean over the seeds),
    Holm-adjusted over the whole table.

    Args:
        benchmarks: the rows by benchmark.
    """
    rows: list[dict[str, Any]] = []
    for name, results in benchmarks.items():
        for ours, other, measure in _COMPARED:
            if ours not in results or other not in results:
                continue
            rgft, against = results[ours], results[other]
            left, right = rgft.column(measure).tolist(), against.column(measure).tolist()
            rows.append(
                {
                    "benchmark": name,
                    "ours": rgft.title,
                    "against": against.title,
                    "protocol": _PROTOCOLS[measure],
                    "rgft": rgft.mean(measure),
                    "other": against.mean(measure),
                    "p": paired_randomization_test(left, right, samples=5000),
                    "seeds_ahead": _ahead(rgft, against, measure),
                }
            )
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
    lines = [
        "| benchmark | ours | against | protocol | ours | other | difference | p (Holm) | "
        "seeds ahead |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {r['benchmark']} | {r['ours']} | {r['against']} | {r['protocol']} | "
        f"{_percent(r['rgft'])} | "
        f"{_percent(r['other'])} | {100 * (r['rgft'] - r['other']):+.1f} | {r['p_holm']:.4f} | "
        f"{r['seeds_ahead']} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n", rows


def bars_table(benchmarks: Mapping[str, Mapping[str, Result]]) -> str:
    """Markdown: the best of ours beside the paper's best, by the paper's protocol.

    Args:
        benchmarks: the rows by benchmark.
    """
    lines = [
        "| benchmark | paper's best | best that searches vectors | best of all | above the paper |",
        "| --- | ---: | --- | --- | --- |",
    ]
    for name, results in benchmarks.items():
        told = []
        for group in (_learned(results), results):
            if not group:
                told.append(("–", 0.0))
                continue
            best = max(group.values(), key=lambda result: result.mean(UNION))
            documents = best.mean("documents@10_union")
            words = f"{_percent(best.mean(UNION))} ({best.title}, {documents:.0f} documents)"
            told.append((words, best.mean(UNION)))
        above = " and ".join(
            what
            for what, (_, value) in zip(("vectors", "all"), told, strict=True)
            if value >= PAPER_BEST[name]
        )
        cells = [name, _percent(PAPER_BEST[name]), told[0][0], told[1][0], above or "neither"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _learned(results: Mapping[str, Result]) -> dict[str, Result]:
    """The rows that search vectors, alone or fused with one another."""
    return {
        name: result
        for name, result in results.items()
        if all(part.startswith("dense") for part in name.split("+"))
    }


def summary(results: Mapping[str, Result]) -> dict[str, Any]:
    """The rows of one benchmark as the results file keeps them."""
    return {name: result.summary() for name, result in results.items()}


def _ahead(one: Result, other: Result, measure: str) -> str:
    mine = [record["metrics"][measure] for record in one.records]
    theirs = [record["metrics"][measure] for record in other.records]
    if len(theirs) != len(mine):
        theirs = [float(np.mean(theirs))] * len(mine)
    return f"{sum(a > b for a, b in zip(mine, theirs, strict=True))} of {len(mine)}"


def _best(results: Mapping[str, Result]) -> str:
    """Which row is best of all, and which of those that search vectors."""
    parts = []
    groups = (("Best of all by its protocol", results), ("best learned", _learned(results)))
    for what, group in groups:
        if group:
            best = max(group.values(), key=lambda result: result.mean(UNION))
            parts.append(f"{what}: {best.title}, {_percent(best.mean(UNION))}")
    return "; ".join(parts) + "."


def _title(result: Result) -> str:
    count = len(result.records)
    return result.title + (f" ({count} seeds)" if count > 1 else "")


def _with_interval(result: Result, measure: str) -> str:
    low, high = result.interval(measure)
    spread = f" ±{100 * result.spread(measure):.1f}" if len(result.records) > 1 else ""
    return f"{_percent(result.mean(measure))}{spread} [{100 * low:.1f}, {100 * high:.1f}]"


def _published(row: Row | None, benchmark: str) -> str:
    if row is None or row.paper is None:
        return "–"
    value = paper_values(*row.paper).get(benchmark)
    return "–" if value is None else _percent(value)


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def recall_table(results: Sequence[Result], cutoffs: Sequence[int]) -> str:
    """Markdown: answer recall by k, among the k best and in the union of every search's k best."""
    heads = [f"R@{k}" for k in cutoffs]
    unions = [f"R@{k} union" for k in cutoffs if k <= 10]
    lines = [f"| method | {' | '.join([*heads, *unions])} |"]
    lines.append("| --- |" + " ---: |" * len([*heads, *unions]))
    for result in results:
        cells = [_percent(result.mean(f"answer_recall@{k}")) for k in cutoffs]
        cells += [_percent(result.mean(f"answer_recall@{k}_union")) for k in cutoffs if k <= 10]
        lines.append(f"| {_title(result)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
