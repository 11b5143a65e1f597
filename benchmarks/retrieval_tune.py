"""Chooses how rule-guided dense searches are merged, on queries of F_G; test is never asked.

F_G holds queries about validation facts, none of them in F_R, which fine-tuning reads. Searches are
made once and kept; every setting merges them anew.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.retrieval_experiments import Plan
from benchmarks.retrieval_measures import Found, means
from benchmarks.retrieval_rows import Row, row
from benchmarks.retrieval_runs import Bench, train
from benchmarks.retrieval_searches import Remembered
from benchmarks.ruleqa_settings import GRAPHS
from rulerag.build import make_retriever, make_selector
from rulerag.console import guarded
from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.io import prepare_folder, write_json, write_text
from rulerag.retrieval.corpus import RowSearcher
from rulerag.retrieval.rule_guided import RuleGuidedRetriever

__all__ = ["GRID", "main", "tune_merging"]

GRID: dict[str, tuple[Any, ...]] = {
    "power": (8.0, 16.0, 32.0),
    "include_plain": (False, True),
}
"""Options of the merging; every combination is tried."""

_COLUMNS = ("answer_recall@1", "answer_recall@10", "answer_recall@10_union", "documents@10_union")


def tune_merging(bench: Bench, one: Row, *, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Every setting of :data:`GRID` on the queries of F_G; one row of measures each.

    Args:
        bench: the benchmark, with a ``sample`` of its queries.
        one: a rule-guided row.
        seed: of its fine-tuned encoder.
    """
    config = bench.config(one, seed)
    dataset, queries = bench.dataset, bench.queries("f_g")
    base = make_retriever(config.without("guided", "selector"), dataset, None)
    assert isinstance(base, RowSearcher)  # noqa: S101  (dense retrieval is)
    searches = Remembered(base)
    labels = dataset.labels
    settings = [
        dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())
    ]
    matcher = AnswerMatcher()
    given = config.section("guided").to_dict()
    selector = make_selector(config, dataset.rules)
    assert selector is not None  # noqa: S101  (a rule-guided row has one)
    for setting in tqdm(settings, one.name, unit="setting"):
        retriever = RuleGuidedRetriever(
            searches,
            selector,
            rule_label=lambda name: labels["relations"].get(name, name),
            entity_label=lambda name: labels["entities"].get(name, name),
            **{**given, **setting},
        )
        found = Found.collect(
            retriever.retrieve(queries, 10), retriever.retrieve_union(queries, 10), bench.row_of
        )
        measured = means(found.measure(queries, dataset, matcher))
        yield {**setting, **{name: round(measured[name], 4) for name in _COLUMNS}}


def _table(rows: Sequence[dict[str, Any]]) -> str:
    heads = [*GRID, "R@1", "R@10", "R@10 union", "docs"]
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(GRID) + "| ---: " * 4 + "|"]
    best = max(rows, key=lambda one: one["answer_recall@10"])
    for one in rows:
        cells = [str(one[name]) for name in GRID]
        cells += [f"{100 * one[name]:.1f}" for name in _COLUMNS[:-1]]
        if one is best:
            cells[-2] = f"**{cells[-2]}**"
        lines.append(f"| {' | '.join([*cells, format(one[_COLUMNS[-1]], '.1f')])} |")
    return "\n".join(lines) + "\n"


def _run(arguments: argparse.Namespace) -> None:
    out = prepare_folder(arguments.out)
    plan = Plan(
        out,
        arguments.datasets,
        Path("."),
        encoder=str(arguments.encoder or ""),
        sample=arguments.queries,
    )
    for name in arguments.benchmarks or GRAPHS:
        bench = plan.bench(name)
        one = row(arguments.row)
        if one.training:
            train(bench, one.training, 0)
        rows = list(tune_merging(bench, one))
        place = (arguments.save or out) / f"merging-{name}-{one.name}"
        write_json(place.with_suffix(".json"), {"queries": len(bench.queries("f_g")), "rows": rows})
        text = f"{name}, {one.title}, {len(bench.queries('f_g'))} queries of F_G\n\n{_table(rows)}"
        write_text(place.with_suffix(".md"), text)
        sys.stdout.write(text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.retrieval_tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.retrieval_tune --datasets runs --out runs/retrieval "
        "--benchmarks ruleqa-y",
    )
    parser.add_argument("--out", required=True, type=Path, help="the folder of the runs")
    parser.add_argument("--datasets", required=True, type=Path, help="built datasets")
    parser.add_argument("--benchmarks", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--row", default="dense-guided-rgft", help="the row (dense-guided-rgft)")
    parser.add_argument("--queries", type=int, default=150, help="of F_G at most (150)")
    parser.add_argument("--encoder", type=Path, help="instead of the one that is installed")
    parser.add_argument("--save", type=Path, help="where the tables go (DIR)")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())
