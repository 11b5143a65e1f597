"""Tables of the retrieval experiments from their records: ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.published import NOT_PUBLIC, paper_note, paper_recall
from benchmarks.common.results import (
    TEN,
    UNION,
    Result,
    difference_table,
    load_result,
    percent,
)
from benchmarks.experiments.matrix.rows import (
    CONTROLS,
    FINE_TUNING,
    FUSIONS,
    LEARNED,
    PAIRS,
    PAPER_BEST,
    ROWS,
)
from rulerag.evaluation import markdown_table, paired_randomization_test
from rulerag.ruleqa import CEILINGS

ENTITY = "entity_recall@10"
COMPARED: dict[str, tuple[tuple[str, str, str], ...]] = {
    "What rules add at equal budget": tuple((*pair, TEN) for pair in PAIRS),
    "What learned merging adds": tuple((f"{name}-learned", name, TEN) for name in LEARNED),
    "What fine-tuning adds": FINE_TUNING,
}
"""What tables compare, by title: a row, what it is compared with, the measure. The pairs of the
first share everything but the rules; the untrimmed unions of the last are longer with rules."""
_PROTOCOLS = {UNION: "untrimmed union", TEN: "ten documents"}


def results_of(folder: Path) -> dict[str, Result]:
    """Every finished row, in the order of the tables, the fused ones last."""
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
        ceilings: the fraction of queries that a retriever could answer at best, by the keys of
            :data:`rulerag.ruleqa.CEILINGS`; empty where it was not measured.
    """
    papers = {row.name: row.paper for row in ROWS}
    queries = next(iter(results.values())).records[0]["num_queries"]
    heading = f"## {name.replace('ruleqa', 'RuleQA').upper().replace('RULEQA', 'RuleQA')}"
    titles = [
        *("method", "R@1", "R@2", "R@5", "R@10", "R@10 entity", "paper", "R@10 union", "docs"),
        *("qrels R@10", "best step", "CPU s", "MB"),
    ]
    rows = []
    for result in results.values():
        cells = [result.called]
        cells += [percent(result.mean(f"answer_recall@{k}")) for k in (1, 2, 5)]
        cells += [
            result.cell(TEN),
            percent(result.mean(ENTITY)),
            percent(paper_recall(papers.get(result.name), name)),
            result.cell(UNION),
            f"{result.mean('documents@10_union'):.1f}",
            percent(result.mean("recall@10")),
            result.steps(),
            f"{result.cpu_seconds:.0f}",
            f"{result.memory_mb:,}",
        ]
        rows.append(cells)
    lines = [f"{heading}, {queries:,} queries\n", markdown_table(titles, rows)]
    lines += [f"{_best(results)} Paper's best retriever: {percent(PAPER_BEST[name])}."]
    lines.append(paper_note(name, ceilings.get("same_subject"), answers=False))
    if ceilings:
        shares = ", ".join(
            f"{what} {percent(ceilings[key])}" for key, what in CEILINGS.items() if key in ceilings
        )
        lines.append(f"Ceilings (share of queries with an answer in …): {shares}.")
    lines.append(f"The untrained encoder saw before: {saw}.")
    return "\n".join(lines) + "\n"


def comparison_table(
    benchmarks: Mapping[str, Mapping[str, Result]], compared: Sequence[tuple[str, str, str]]
) -> tuple[str, list[Any]]:
    """Pairs of rows: differences and paired tests.

    The p-values are of a paired randomization test over queries (each the mean over the seeds),
    Holm-adjusted over the whole table.

    Args:
        benchmarks: the rows by benchmark.
        compared: a row, the row it is compared with, and the measure.
    """
    rows: list[dict[str, Any]] = []
    for name, results in benchmarks.items():
        for ours, other, measure in compared:
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
                    "value": rgft.mean(measure),
                    "other": against.mean(measure),
                    "p": paired_randomization_test(left, right, samples=5000),
                    "seeds_ahead": _ahead(rgft, against, measure),
                }
            )
    described = ("benchmark", "ours", "against", "protocol")
    text = difference_table(
        rows, described, "ours", ours="value", called="better", more=["seeds_ahead"]
    )
    return text.replace("seeds_ahead", "seeds ahead", 1), rows


def against_paper(benchmarks: Mapping[str, Mapping[str, Result]]) -> str:
    """Markdown: the best of ours beside the paper's best, ten documents in all.

    Args:
        benchmarks: the rows by benchmark.
    """
    titles = ["benchmark", "paper's best", "best that searches vectors", "best of all"]
    rows = []
    for name, results in benchmarks.items():
        bests = []
        for group in (_learned(results), results):
            if not group:
                bests.append(("–", 0.0))
                continue
            best = max(group.values(), key=lambda result: result.mean(TEN))
            bests.append((f"{percent(best.mean(TEN))} ({best.title})", best.mean(TEN)))
        above = " and ".join(
            what
            for what, (_, value) in zip(("vectors", "all"), bests, strict=True)
            if value >= PAPER_BEST[name]
        )
        seen = "not comparable" if name in NOT_PUBLIC else above or "neither"
        rows.append([name, percent(PAPER_BEST[name]), bests[0][0], bests[1][0], seen])
    return markdown_table([*titles, "above the paper"], rows, "lrlll")


def _learned(results: Mapping[str, Result]) -> dict[str, Result]:
    """The rows that search vectors, alone or fused with one another."""
    return {
        name: result
        for name, result in results.items()
        if all(part.startswith("dense") for part in name.split("+"))
    }


def _ahead(one: Result, other: Result, measure: str) -> str:
    mine = [record["metrics"][measure] for record in one.records]
    theirs = [record["metrics"][measure] for record in other.records]
    if len(theirs) != len(mine):
        theirs = [float(np.mean(theirs))] * len(mine)
    return f"{sum(a > b for a, b in zip(mine, theirs, strict=True))} of {len(mine)}"


def _best(results: Mapping[str, Result]) -> str:
    """Which row is best of all, and which of those that search vectors."""
    parts = []
    groups = (("Best of all with ten documents", results), ("best learned", _learned(results)))
    for what, group in groups:
        if group:
            best = max(group.values(), key=lambda result: result.mean(TEN))
            parts.append(f"{what}: {best.title}, {percent(best.mean(TEN))}")
    return "; ".join(parts) + "."


def recall_table(results: Sequence[Result], cutoffs: Sequence[int]) -> str:
    """Markdown: answer recall by k, among the k best and in the union of every search's k best."""
    within = [k for k in cutoffs if k <= 10]
    columns = {f"R@{k}": f"answer_recall@{k}" for k in cutoffs}
    columns |= {f"R@{k} entity": f"entity_recall@{k}" for k in within if k == 10}
    columns |= {f"R@{k} union": f"answer_recall@{k}_union" for k in within}
    rows = [
        [result.called, *(percent(result.mean(name)) for name in columns.values())]
        for result in results
    ]
    return markdown_table(["method", *columns], rows)
