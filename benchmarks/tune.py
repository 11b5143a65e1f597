"""Chooses settings on the validation twin of a benchmark; test queries are never asked.

Every row is one change from the preset of a retriever; the preset is what won. Written beside the
table: the twin's counts, so that anyone can see what was asked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.ruleqa import build
from benchmarks.validation import validation_graph
from rulerag.build import make_pipeline
from rulerag.config import Config
from rulerag.console import guarded
from rulerag.dataset import RuleQADataset
from rulerag.evaluation.metrics import AnswerMatcher, answer_metrics, mean_metrics
from rulerag.io import write_json, write_text
from rulerag.kg.graph import KnowledgeGraph
from rulerag.presets import preset

__all__ = ["CHANGES", "main", "tune"]

Change = dict[str, Any]

_GUIDED: list[Change] = [
    {"guided.compose": "append"},
    {"guided.include_plain": True},
    {"guided.include_plain": True, "guided.plain_weight": 0.3},
    {"guided.merge": "rank"},
    {"guided.merge": "score"},
    {"guided.merge": "confidence"},
    {"guided.merge": "calibrated"},
    {"guided.merge": "noisy-or"},
    {"guided.pool": 50},
    {"guided.power": 4.0},
    {"guided.power": 16.0},
    {"selector.rank_by": "confidence"},
    {"selector.rank_by": "product"},
    {"selector.max_rules": 3},
    {"selector.max_rules": 5},
    {"selector.max_rules": 12},
    {"time_aware.order": "decay", "time_aware.decay": 0.002},
    {"time_aware.order": "decay", "time_aware.decay": 0.01},
    {"retriever.dates": "split"},
    {"time_aware.distinct_facts": False},
]
_READING: list[Change] = [
    {"evidence.prior": 0},
    {"evidence.prior": 5},
    {"evidence.sharpness": 1.0},
    {"evidence.sharpness": 2.0},
    {"evidence.decay": 0.002},
    {"generator.rank_discount": 0.0},
    {"generator.rank_discount": 0.5},
]
CHANGES: dict[tuple[str, str], list[Change]] = {
    ("bm25", "none"): [
        {"retriever.k1": 0.9, "retriever.b": 0.4},
        {"retriever.dates": "token"},
        {"retriever.dates": "drop"},
        {"time_aware.order": "recent"},
        {"time_aware.order": "recent", "time_aware.distinct_facts": True},
        {"time_aware.order": "recent", "pooled.pool": 200},
        {"retriever.dates": "token", "time_aware.order": "recent", "pooled.pool": 200},
    ],
    ("bm25", "guided"): _GUIDED + _READING,
    ("symbolic", "guided"): _READING,
}
"""Changes tried, by retriever and rules."""

_COLUMNS = (
    "answer_recall@10",
    "answer_recall@10_union",
    "documents_per_query_union",
    "exact_match",
)


def tune(dataset: RuleQADataset, query_set: str = "balanced") -> Iterator[dict[str, Any]]:
    """Run the presets and every change of them; yield one row of measures each."""
    queries = dataset.query_set(query_set)
    runs = [(key, change) for key, changes in CHANGES.items() for change in ({}, *changes)]
    matcher = AnswerMatcher()
    for (retriever, rules), change in tqdm(runs, "settings", unit="run"):
        settings = preset("twin", retriever=retriever, rules=rules).to_dict()
        for path, value in change.items():
            section, _, key = path.partition(".")
            settings[section] = {**settings.get(section, {}), key: value}
        started = time.perf_counter()
        answers = make_pipeline(Config(settings), dataset).answer(queries)
        means = mean_metrics([answer_metrics(answer, matcher=matcher) for answer in answers])
        yield {
            "retriever": retriever,
            "rules": rules,
            "change": ", ".join(f"{k}={v}" for k, v in change.items()) or "(preset)",
            **{name: means.get(name) for name in _COLUMNS},
            "seconds": round(time.perf_counter() - started, 1),
        }


def _table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| retriever | rules | change from the preset | R@10 | R@10 union | documents | EM |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        cells = [row["retriever"], row["rules"], row["change"]]
        cells += [_cell(name, row[name]) for name in _COLUMNS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if name.startswith("documents") else f"{100 * value:.1f}"


def _run(arguments: argparse.Namespace) -> None:
    graph = KnowledgeGraph.load(arguments.kg)
    twin = build(arguments.name, validation_graph(graph))
    rows = list(tune(twin, arguments.query_set))
    write_json(arguments.out / "tune.json", {"twin": twin.manifest["counts"], "rows": rows})
    write_text(arguments.out / "tune.md", _table(rows))
    sys.stdout.write(_table(rows))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.tune --name ruleqa-i --kg ../shared/data/icews14 "
        "--out benchmarks/results/ruleqa-i",
    )
    parser.add_argument("--name", required=True, help="the benchmark")
    parser.add_argument("--kg", required=True, type=Path, help="its graph folder")
    parser.add_argument("--out", required=True, type=Path, help="the folder of tune.json, tune.md")
    parser.add_argument("--query-set", default="balanced", help="balanced or full")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())
