"""Baselines that need no system, on the built RuleQA benchmarks: counts of the corpus's facts.

They answer in the form of every other row: a record and one value a query of each measure, under
``reading/<benchmark>/<query set>/`` of a run folder, so that paired tests can be made.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.baselines.counts import BASELINES, Baseline, CountedFacts, best_and_tied
from benchmarks.common.bench import Bench, tell
from benchmarks.common.results import Result, load_result
from benchmarks.experiments.matrix.rows import NOTES
from benchmarks.stages.answers import EM, F1, Columns, answer_columns, entity_names
from benchmarks.stages.records import RunRecord
from rulerag.console import guarded
from rulerag.errors import DataError
from rulerag.evaluation import markdown_table, versions
from rulerag.io import (
    fingerprint_object,
    prepare_folder,
    write_json,
    write_text,
)
from rulerag.ruleqa import GRAPHS, known_settings
from rulerag.text import NameFinder, exact_match

TOP = 10
RECALL = f"candidate_recall@{TOP}"
TIES = {"worst": "match_worst_tie", "random": "match_random_tie", "best": "match_best_tie"}
SETS = ("balanced", "full")
_VERSION = 1
"""Of what the baselines are; another number computes them again."""


def run_baselines(bench: Bench, query_set: str) -> list[dict[str, Any]]:
    """Answer every query of a set by every baseline, unless the records are there; return these.

    Args:
        bench: the benchmark.
        query_set: ``balanced``, ``full`` or a split.

    Raises:
        EmptyDataError: the set holds no query.
    """
    identity = fingerprint_object([_VERSION, bench.dataset.fingerprint, query_set, bench.sample])
    dated = any(document.timestamp is not None for document in bench.dataset.corpus)
    wanted = [one for one in BASELINES if dated or not one.needs_time]
    runs = {one.name: RunRecord(bench.reading(one.name, query_set), identity) for one in wanted}
    made = {name: record for name, run in runs.items() if (record := run.finished()) is not None}
    missing = [one for one in wanted if one.name not in made]
    if missing:
        facts, names = CountedFacts(bench.dataset.corpus), entity_names(bench.dataset)
    for one in missing:
        record, values = _answer(one, facts, names, bench, query_set)
        places = np.arange(len(record["answers"]))
        made[one.name] = runs[one.name].write(record, values, places=places)
    return [made[one.name] for one in wanted]


def _answer(
    one: Baseline, facts: CountedFacts, names: NameFinder, bench: Bench, query_set: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A baseline's record, but for its identity, and one value a query of each measure."""
    queries = bench.queries(query_set)
    started = time.process_time()
    predicted = list(_predictions(one, facts, bench, query_set))
    seconds = round(time.process_time() - started, 2)
    texts = [best[0] if best else "" for best, _ in predicted]
    values: dict[str, Any] = dict(answer_columns(queries, texts, names))
    values |= _of_candidates([query.answers for query in queries], predicted)
    tell(
        f"{bench.name} {bench.variant or query_set} {one.name}: "
        f"EM {100 * float(values[EM].mean()):.1f}"
    )
    record = {
        "benchmark": bench.name,
        "row": one.name,
        "title": one.title,
        "query_set": query_set,
        "seed": 0,
        "num_queries": len(queries),
        "of_queries": len(queries),
        "cpu_seconds": {"read": seconds},
        "training": {},
        "reader": "none",
        "ceilings": bench.dataset.statistics.get("ceilings", {}).get(query_set, {}),
        "answers": texts,
        "versions": versions(),
    }
    return record, values


def _predictions(
    one: Baseline, facts: CountedFacts, bench: Bench, query_set: str
) -> Iterator[tuple[list[str], list[str]]]:
    """For each query the best candidates, and those that tie with the first."""
    labels = bench.dataset.labels["entities"]
    quiet = not sys.stderr.isatty()
    for query in tqdm(bench.queries(query_set), f"{bench.name} {one.name}", disable=quiet):
        yield best_and_tied(one.candidates(facts, query), TOP, labels)


def _of_candidates(
    answers: Sequence[Sequence[str]], predicted: Sequence[tuple[list[str], list[str]]]
) -> Columns:
    """Recall of the ranked candidates; exact match if ties fell worst, at random, and best."""
    recall, hits = [], []
    for wanted, (best, tied) in zip(answers, predicted, strict=True):
        recall.append(float(any(exact_match(text, wanted) for text in best)))
        right = [exact_match(text, wanted) for text in tied] or [0.0]
        hits.append((min(right), sum(right) / len(right), max(right)))
    columns = np.array(hits).T
    ties = {name: columns[n] for n, name in enumerate(TIES.values())}
    return {RECALL: np.array(recall), **ties}


def baselines_of(folder: Path) -> dict[str, Result]:
    """The baselines in a folder of records, in the order of the tables."""
    found = {one.name: load_result(folder, one.name, one.title) for one in BASELINES}
    return {name: result for name, result in found.items() if result is not None}


def baselines_table(benchmarks: Mapping[str, Mapping[str, Result]]) -> str:
    """Markdown: every baseline of every benchmark.

    Args:
        benchmarks: the baselines by benchmark.
    """
    titles = ["benchmark", "baseline", "EM", "ties at random", "worst to best tie", "T-F1"]
    rows = []
    for benchmark, results in benchmarks.items():
        for name in (one.name for one in BASELINES):
            if name not in results:
                rows.append([benchmark, name, "no times", *["–"] * 5])
                continue
            one = results[name]
            low, high = one.interval(EM)
            worst, chance, best = (100 * one.mean(measure) for measure in TIES.values())
            cells = [
                benchmark,
                name,
                f"{100 * one.mean(EM):.1f} [{100 * low:.1f}, {100 * high:.1f}]",
                f"{chance:.1f}",
                f"{worst:.1f} to {best:.1f}",
                f"{100 * one.mean(F1):.1f}",
                f"{100 * one.mean(RECALL):.1f}",
                f"{one.records[0]['num_queries']:,}",
            ]
            rows.append(cells)
    return markdown_table([*titles, "recall@10", "queries"], rows, "ll" + "r" * 6)


def _summary(result: Result) -> dict[str, Any]:
    metrics = {name: round(result.mean(name), 5) for name in result.records[0]["metrics"]}
    return {
        "title": result.title,
        "num_queries": result.records[0]["num_queries"],
        "metrics": metrics,
        "interval": {EM: result.interval(EM)},
    }


def _run(arguments: argparse.Namespace) -> None:
    names = arguments.benchmarks or list(GRAPHS)
    for name in names:
        known_settings(name)  # a wrong name is an error before any work
        folder = arguments.datasets / name
        if not (folder / "manifest.json").exists():
            raise DataError(
                "is no built dataset",
                path=folder,
                hint=f"python -m benchmarks.ruleqa build --name {name} --kg DIR --out {folder}; "
                "or name the benchmarks that are here with --benchmarks",
            )
    out = prepare_folder(arguments.out)
    kept: dict[str, dict[str, dict[str, Result]]] = {query_set: {} for query_set in SETS}
    for name in names:
        bench = Bench(name, arguments.datasets / name, out)
        for query_set in SETS:
            run_baselines(bench, query_set)
            kept[query_set][name] = baselines_of(out / "reading" / name / query_set)
    words = {"balanced": "the balanced queries", "full": "all test queries"}
    parts = [
        f"# Baselines that need no system\n\n{NOTES['baselines']}\n{NOTES['baseline_columns']}"
    ]
    parts += [f"## On {words[s]}\n\n{baselines_table(found)}" for s, found in kept.items()]
    text = "\n".join(parts)
    sys.stdout.write(text)
    if arguments.save is not None:
        save = prepare_folder(arguments.save)
        write_text(save / "table.md", text)
        summary = {
            query_set: {
                name: {row: _summary(one) for row, one in results.items()}
                for name, results in found.items()
            }
            for query_set, found in kept.items()
        }
        write_json(save / "results.json", summary)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.baselines",
        description="Answer the built RuleQA benchmarks by counts of the corpus's facts alone: the "
        "most recent object, the most frequent one, the relation's prior.",
        epilog="example: python -m benchmarks.baselines --datasets runs --out runs/baselines "
        "--save benchmarks/results/baselines",
    )
    parser.add_argument(
        "--datasets", required=True, type=Path, metavar="DIR", help="holds DIR/ruleqa-i, …"
    )
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="the folder of the runs; resumes"
    )
    parser.add_argument("--benchmarks", nargs="+", metavar="NAME", help="these alone (all five)")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write table.md and results.json")
    arguments = parser.parse_args(argv)
    return guarded(lambda: _run(arguments))
