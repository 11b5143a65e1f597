"""What learning and applying temporal rules costs, beside TLogic's figures.

Each measurement is a fresh process with cached kernels, counted by the operating system from the
interpreter's start to its end. ``learn`` mines rules of lengths 1 to 3 from the training facts;
``apply`` applies the rules that TLogic published to every test query in both directions. TLogic's
figures were measured on a like machine with two processes, once; its application of ICEWS14 is
extrapolated from 2,000 of the 26,444 queries, and on YAGO it fails for want of memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.common.folders import shared_folder
from benchmarks.common.process_cost import in_fresh_process
from rulerag.console import guarded
from rulerag.evaluation.link_prediction import (
    Prior,
    load_rules,
    measures,
    queries_of,
    rank_all,
)
from rulerag.kg import KnowledgeGraph
from rulerag.mining.inference import TemporalInference
from rulerag.mining.temporal import TLogicMiner

TASKS = (("learn", "icews14_forecasting"), ("apply", "icews14_forecasting"), ("apply", "yago"))
TLOGIC: dict[str, dict[str, float | None]] = {
    "learn icews14_forecasting": {"cpu": 797, "wall": 967, "memory_mb": 128},
    "apply icews14_forecasting": {"cpu": 5570, "wall": None, "memory_mb": 426},
    "apply yago": {"cpu": None, "wall": None, "memory_mb": None},
}
"""TLogic on Python 3.10 with two processes; None where it was not measured or fails."""
TARGETS: dict[str, dict[str, float]] = {
    "learn icews14_forecasting": {"cpu": 8.0, "memory_mb": 1536},
    "apply icews14_forecasting": {"cpu": 14.0, "memory_mb": 1536},
    "apply yago": {"memory_mb": 500},
}
"""What a whole process may cost."""

_CHILD = "--child"
# The names of TLogic's rule files, and what the relation ids in them count.
_RULES = {"icews14_forecasting": ("icews14", "sorted"), "yago": ("yago", "graph")}

Row = dict[str, Any]


def _child(task: str, name: str) -> Row:
    graph = KnowledgeGraph.load(shared_folder("data", name))
    started = time.process_time()
    if task == "learn":
        bank = TLogicMiner(lengths=(1, 2, 3)).mine(graph.train)
        return {"rules": len(bank), "task_cpu": time.process_time() - started}
    stem, relation_ids = _RULES[name]
    path = shared_folder("reference", "tlogic") / f"{stem}_r123_n200_exp_s12_rules.json"
    bank = load_rules(path, graph, relation_ids)
    application = TemporalInference(bank, list(graph.splits.values()))
    queries = queries_of(graph.test, list(graph.splits.values()))
    prior = Prior.of(graph.train)
    ranks = rank_all(application, queries, prior, len(graph.entities), where="unreached")
    seconds = time.process_time() - started
    found = {key: round(value, 6) for key, value in measures(ranks).items() if "mrr" in key}
    return {"rules": len(bank), "task_cpu": seconds, "queries": len(queries), **found}


def measure(task: str, name: str) -> Row:
    """Learn from a graph or apply TLogic's rules to it, in a fresh process.

    Args:
        task: ``learn`` or ``apply``.
        name: the graph's folder.

    Returns:
        Seconds and megabytes of the whole process, and what came of it.
    """
    found = in_fresh_process("benchmarks.speed.mining_temporal", _CHILD, task, name)
    return {"task": f"{task} {name}", **found}


def run(repeats: int) -> list[Row]:
    """Measure every task and print it; least times and largest memory of the repeats."""
    rows = []
    for task, name in TASKS:
        tries = [measure(task, name) for _ in range(repeats)]
        least = {key: min(row[key] for row in tries) for key in ("wall", "cpu", "task_cpu")}
        rows.append(tries[0] | least | {"memory_mb": max(row["memory_mb"] for row in tries)})
        _print_row(rows[-1])
    return rows


def _print_row(row: Row) -> None:
    what = f"{row['rules']:,} rules"
    if "queries" in row:
        what += f", {row['queries']:,} queries, MRR {100 * row['mrr']:.2f} with averaged ties"
    print(
        f"{row['task']}: {what}\n  whole process: {row['wall']:.2f} s wall, {row['cpu']:.2f} s "
        f"CPU, {row['memory_mb']:.0f} MB; the task alone: {row['task_cpu']:.2f} s CPU"
    )
    theirs = TLOGIC[row["task"]]["cpu"]
    if theirs is None:
        print("  TLogic: fails (MemoryError)")
    else:
        print(f"  TLogic: {theirs:g} s CPU; ratio TLogic / ours: {theirs / row['cpu']:.0f}×")
    for key, target in TARGETS[row["task"]].items():
        verdict = "met" if row[key] <= target else "MISSED"
        print(f"  target {key} ≤ {target:g}: {verdict} ({row[key]:.2f})")


def _command(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.mining_temporal",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.speed.mining_temporal --repeats 3",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(_CHILD, nargs=2, metavar=("TASK", "GRAPH"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        return guarded(lambda: print(json.dumps(_child(*given.child))))
    return guarded(lambda: run(given.repeats) and None)


if __name__ == "__main__":
    sys.exit(_command())
