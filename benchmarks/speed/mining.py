"""Speed of AmieMiner: wall, CPU and peak memory, beside AMIE's and beside plain Python.

Every measurement is a fresh process with compiled kernels in numba's cache: ``whole process`` is
the interpreter's start, the imports, the graph's load and the mining, as the operating system
counts them; ``mining`` is ``AmieMiner(threads=…).mine`` alone. Standard confidence is included.
AMIE's figures leave it out; they were measured on a like machine with two cores, once.

``plain_python`` counts the rules of one small graph with dictionaries and sets, in the same run, so
that there is a ratio that does not depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.folders import shared_folder
from benchmarks.common.process_cost import in_fresh_process
from benchmarks.mining.amie_agreement import Pairs, pairs_by_relation
from rulerag.console import guarded
from rulerag.io import write_json
from rulerag.kg import KnowledgeGraph
from rulerag.mining.amie import AmieMiner

AMIE: dict[str, dict[str, float]] = {
    "nations": {"wall": 6.3, "cpu": 10.5, "memory_mb": 1482},
    "umls": {"wall": 3.5, "cpu": 5.7, "memory_mb": 550},
    "kinship": {"wall": 3.9, "cpu": 7.1, "memory_mb": 652},
    "nell995": {"wall": 12.8, "cpu": 21.8, "memory_mb": 2755},
    "fb15k237": {"wall": 36.3, "cpu": 48.1, "memory_mb": 2574},
}
"""AMIE 3.5 on Java 17 with two threads at default settings, load included."""

TARGETS: dict[str, dict[str, float]] = {
    "nell995": {"cpu": 4.0, "memory_mb": 1536},
    "fb15k237": {"cpu": 4.0, "wall": 3.0, "memory_mb": 1536},
}
"""What a whole process may cost with two threads."""

_CHILD = "--child"


def measure(graph: str, threads: int, cache: str | None = None) -> dict[str, Any]:
    """Mine one graph in a fresh process.

    Args:
        graph: its folder's name.
        threads: threads of the miner.
        cache: numba's cache folder; the usual one when None.

    Returns:
        Seconds and megabytes of the whole process, seconds of its parts, and the rules found.
    """
    found = in_fresh_process(
        "benchmarks.speed.mining",
        _CHILD,
        graph,
        str(threads),
        environment={"NUMBA_CACHE_DIR": cache} if cache else None,
    )
    return {"graph": graph, "threads": threads, **found}


def _child(graph: str, threads: int) -> None:
    start = time.process_time()
    facts = KnowledgeGraph.load(shared_folder("data", graph)).train
    loaded = time.process_time()
    wall = time.perf_counter()
    bank = AmieMiner(threads=threads).mine(facts)
    row = {
        "load_cpu": loaded - start,
        "mine_cpu": time.process_time() - loaded,
        "mine_wall": time.perf_counter() - wall,
        "facts": len(facts),
        "rules": len(bank),
    }
    print(json.dumps(row))


def plain_python(pairs: Pairs, *, min_head_size: int = 100) -> int:
    """AMIE's rules of up to three atoms without skyline, by sets: the baseline of the ratio.

    Bodies are composed one by one and intersected with every head, at AMIE's default thresholds;
    body sizes are those of the sets.

    Returns:
        How many rules pass.
    """
    directed: dict[tuple[str, bool], set[tuple[str, str]]] = {}
    reach: dict[tuple[str, bool], dict[str, set[str]]] = {}
    for relation, forward in pairs.items():
        for inverse in (False, True):
            both = {(o, s) for s, o in forward} if inverse else forward
            directed[relation, inverse] = both
            targets = reach.setdefault((relation, inverse), {})
            for s, o in both:
                targets.setdefault(s, set()).add(o)
    heads = {r: p for r, p in pairs.items() if len(p) >= min_head_size}
    names = list(directed)

    def passing(body: set[tuple[str, str]], atoms: set[tuple[str, bool]]) -> int:
        found = 0
        for relation, head in heads.items():
            support = len(body & head)
            if (relation, False) in atoms or support < 0.01 * len(head) or not support:
                continue
            ends = [set(reach[relation, inverse]) for inverse in (False, True)]
            side = int(len(ends[1]) > len(ends[0]))
            found += support >= 0.1 * sum(pair[side] in ends[side] for pair in body)
        return found

    rules = sum(passing(directed[d], {d}) for d in names)
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            step = reach[second]
            path = {(x, y) for x, z in directed[first] for y in step.get(z, ())}
            rules += passing(path, set())
            if i < j:
                rules += passing(directed[first] & directed[second], {first, second})
    return rules


def _against_plain_python(graph: str) -> dict[str, Any]:
    facts = KnowledgeGraph.load(shared_folder("data", graph)).train
    AmieMiner(threads=1).mine(facts)  # loads the compiled kernels
    start = time.process_time()
    rules = len(AmieMiner(threads=1, skyline=False).mine(facts))
    ours = time.process_time() - start
    pairs = pairs_by_relation(facts)
    start = time.process_time()
    plain_rules = plain_python(pairs)
    plain = time.process_time() - start
    return {
        "graph": graph,
        "rules": rules,
        "plain_rules": plain_rules,
        "mine_cpu": ours,
        "plain_python_cpu": plain,
        "ratio": plain / ours,
    }


def _least(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Least times and largest memory: other processes of a machine only ever add to times."""
    times = ("wall", "cpu", "load_cpu", "mine_cpu", "mine_wall")
    least = {key: min(run[key] for run in runs) for key in times}
    return runs[0] | least | {"memory_mb": max(run["memory_mb"] for run in runs)}


def _print_row(row: dict[str, Any]) -> None:
    amie = AMIE[row["graph"]]
    ratios = ", ".join(f"{key} {amie[key] / row[key]:.1f}×" for key in ("wall", "cpu", "memory_mb"))
    print(
        f"{row['graph']}: {row['facts']:,} facts, {row['rules']:,} rules, "
        f"{row['threads']} threads\n"
        f"  whole process: {row['wall']:.2f} s wall, {row['cpu']:.2f} s CPU, "
        f"{row['memory_mb']:.0f} MB; mining alone: {row['mine_wall']:.2f} s wall, "
        f"{row['mine_cpu']:.2f} s CPU\n"
        f"  AMIE 3.5: {amie['wall']} s wall, {amie['cpu']} s CPU, {amie['memory_mb']:.0f} MB; "
        f"ratio AMIE / ours: {ratios}"
    )
    for key, target in TARGETS.get(row["graph"], {}).items():
        verdict = "met" if row[key] <= target else "MISSED"
        print(f"  target {key} ≤ {target:g}: {verdict} ({row[key]:.2f})")


def main(
    out: Path | None = None,
    *,
    graphs: Sequence[str] = ("nell995", "fb15k237"),
    threads: int = 2,
    repeats: int = 3,
) -> dict[str, Any]:
    """Measure and print; write ``speed_mining.json`` into ``out`` when given.

    Args:
        out: folder for the JSON.
        graphs: names of graph folders.
        threads: threads of the miner.
        repeats: fresh processes of each graph; the least time of each kind and the largest
            memory are shown.
    """
    with tempfile.TemporaryDirectory() as empty:
        cold = measure("nations", threads, cache=empty)
    measure("nations", threads)  # fills numba's usual cache
    print(
        f"first run, compiling all kernels (nations): {cold['wall']:.1f} s wall, "
        f"{cold['cpu']:.1f} s CPU"
    )
    rows = []
    for graph in graphs:
        runs = [measure(graph, threads) for _ in range(repeats)]
        rows.append(_least(runs))
        _print_row(rows[-1])
    plain = _against_plain_python("kinship")
    print(
        f"kinship in plain Python: {plain['plain_python_cpu']:.2f} s CPU for "
        f"{plain['plain_rules']:,} rules; ours {plain['mine_cpu']:.2f} s for {plain['rules']:,}: "
        f"ratio {plain['ratio']:.1f}×"
    )
    result = {
        "cold": cold,
        "graphs": rows,
        "amie": AMIE,
        "bars": TARGETS,
        "plain_python": plain,
    }
    if out is not None:
        write_json(out / "speed_mining.json", result)
    return result


def _command(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.mining", description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["nell995", "fb15k237"])
    parser.add_argument("--out", type=Path, help="folder for speed_mining.json")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(_CHILD, nargs=2, metavar=("GRAPH", "THREADS"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        return guarded(lambda: _child(given.child[0], int(given.child[1])))
    return guarded(
        lambda: main(given.out, graphs=given.graphs, threads=given.threads, repeats=given.repeats)
    )


if __name__ == "__main__":
    sys.exit(_command())
