"""Speed of the exact source-rule miners: probes, seconds, memory, against Algorithm 1 in Python.

``main`` measures, on planted answers that cost next to nothing,

* the overhead of one probe without the model, at several lattice sizes;
* the whole lattice of 16 and of 20 sources (every subset valid), in seconds and memory;
* the ratio against ``algorithm_1``, a line-by-line transcription of the published algorithm in
  plain Python, on the same planted answers in the same run, with the results compared.

References:
    Rorseth et al. 2025 (arXiv:2510.22689), Algorithm 1 (Mono Rule Miner).
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rulerag.evaluation import peak_memory_mb
from rulerag.explanation.probing import ProbeEngine
from rulerag.explanation.search import MonoMiner
from rulerag.io import write_json

Formula = tuple[frozenset[int], ...]
Subset = frozenset[int]

CASES: dict[str, Formula] = {
    "all valid": (frozenset(),),
    "{0}": (frozenset({0}),),
    "{0,1} or {2,3}": (frozenset({0, 1}), frozenset({2, 3})),
    "{0,1} or {2,3} or {4,5,6} or {7,8,9}": (
        frozenset({0, 1}),
        frozenset({2, 3}),
        frozenset({4, 5, 6}),
        frozenset({7, 8, 9}),
    ),
    "{0,1,2,3,4}": (frozenset(range(5)),),
}
"""Planted answers: "yes" when all sources of one set are kept."""


def algorithm_1(
    sources: Sequence[int], predicate: Callable[[str], bool], model: Callable[[Subset], str]
) -> set[Subset]:
    """Algorithm 1 of the paper, line by line: every valid retention rule."""
    valid: set[Subset] = set()  # R, line 1
    invalid: set[Subset] = set()  # Z, line 2
    for removed in range(len(sources) + 1):
        size = len(sources) - removed
        level = {frozenset(s) for s in itertools.combinations(sources, size)}
        invalid = {z - {s} for z in invalid for s in z if len(z) == size + 1}
        for subset in level - invalid:
            if predicate(model(subset)):
                valid.add(subset)
            else:
                invalid.add(subset)
    return valid


def planted(formula: Formula) -> Callable[[Subset], str]:
    """The model of one case, for one subset."""

    def model(kept: Subset) -> str:
        return "yes" if any(wanted <= kept for wanted in formula) else "no"

    return model


def planted_batch(formula: Formula) -> Callable[[list[tuple[int, ...]]], list[str]]:
    """The model of one case, for a batch of subsets."""
    model = planted(formula)

    def answer(batch: list[tuple[int, ...]]) -> list[str]:
        return [model(frozenset(kept)) for kept in batch]

    return answer


def is_yes(output: str) -> bool:
    """The predicate of every case."""
    return output == "yes"


def measure(name: str, num_sources: int, *, baseline: bool, repeats: int = 5) -> dict[str, Any]:
    """Mine one case; with ``baseline`` also by the transcription, results compared.

    Seconds are the best of ``repeats`` and hold everything but the model's own time, which both
    sides measure in the same way; ``wall_seconds`` hold the model too.

    Raises:
        RuntimeError: the two sides disagree.
    """
    formula = CASES[name]
    ours, wall = float("inf"), float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        engine = ProbeEngine.from_function(planted_batch(formula), num_sources=num_sources)
        rules = MonoMiner("retention").mine(engine, is_yes)
        elapsed = time.perf_counter() - start
        wall, ours = min(wall, elapsed), min(ours, elapsed - engine.seconds)
    row: dict[str, Any] = {
        "case": name,
        "sources": num_sources,
        "probes": rules.num_probes,
        "valid": len(rules.valid),
        "seconds": ours,
        "wall_seconds": wall,
        "overhead_us_per_probe": 1e6 * ours / rules.num_probes,
        "peak_memory_mb": peak_memory_mb(),
    }
    if baseline:
        row |= _against_algorithm_1(formula, num_sources, repeats)
        row["ratio"] = row["baseline_seconds"] / ours
        row["wall_ratio"] = row["baseline_wall_seconds"] / wall
        if row.pop("valid_baseline") != rules.valid:
            raise RuntimeError(f"{name}: the miner and Algorithm 1 disagree")
    return row


def _against_algorithm_1(formula: Formula, num_sources: int, repeats: int) -> dict[str, Any]:
    model = planted(formula)
    asked: list[Subset] = []

    def remembered(subset: Subset) -> str:
        asked.append(subset)
        return model(subset)

    valid = algorithm_1(range(num_sources), is_yes, remembered)
    wall = _best_seconds(lambda: algorithm_1(range(num_sources), is_yes, model), repeats)
    inside = _best_seconds(lambda: [model(subset) for subset in asked], repeats)
    return {
        "valid_baseline": valid,
        "baseline_seconds": wall - inside,
        "baseline_wall_seconds": wall,
    }


def _best_seconds(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _measure_alone(arguments: tuple[str, int, bool]) -> dict[str, Any]:
    name, num_sources, baseline = arguments
    return measure(name, num_sources, baseline=baseline)


def main(out: Path | None = None) -> dict[str, Any]:
    """Run the benchmark, print its table and its ratio, and write ``out`` when given."""
    jobs = [(name, 16, True) for name in CASES] + [("all valid", n, False) for n in (8, 12, 20)]
    # A process for each job, so that its peak memory is its own.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        rows = list(pool.map(_measure_alone, jobs))
    print(f"{'case':<38} sources   probes  seconds us/probe    MB ratio")
    for row in rows:
        ratio = f"{row['ratio']:.0f}x" if "ratio" in row else ""
        print(
            f"{row['case']:<38} {row['sources']:>7} {row['probes']:>8} {row['seconds']:>8.4f} "
            f"{row['overhead_us_per_probe']:>8.2f} {row['peak_memory_mb']:>5.0f} {ratio}"
        )
    compared = [row for row in rows if "ratio" in row]
    ratio = sum(r["baseline_seconds"] for r in compared) / sum(r["seconds"] for r in compared)
    print(f"ratio against Algorithm 1 in plain Python, 16 sources, all cases: {ratio:.0f}x")
    result = {"benchmark": "lattice", "ratio": ratio, "rows": rows}
    if out is not None:
        write_json(out / "lattice.json", result)
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
