"""How the time and the memory of mining grow: the embedded world at 10^4 to 10^7 facts.

Each size and miner is measured in a process of its own, so that its peak memory is its own: a world
is generated, then mined with one thread and cached kernels. ``joins`` counts the rows that the
miner must join on that graph: the directed facts that it puts in order (in five orders where walks
need them), and

* AMIE (bodies of one and two atoms): the shorter neighbourhood of the two ends of every fact of a
  head, which has to be walked to find the paths between them;
* TLogic, length 1: every body fact with every head fact between the same entities;
* TLogic, lengths 1 to 3: the facts drawn by walks and bodies, which do not grow with the graph.

``exponent`` is the growth of the CPU time over the growth of the joins from one size to the next,
in logarithms: 1 is linear. Finished rows are kept in ``OUT/scale.json``; an interrupted run goes on
behind them, and ``--again`` measures anew.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.mining.scale_report import write_reports
from rulerag.console import guarded
from rulerag.errors import MiningError
from rulerag.evaluation import peak_memory_mb, versions
from rulerag.io import prepare_folder, read_json, write_json
from rulerag.kg import FactTable
from rulerag.mining.amie import AmieMiner
from rulerag.mining.indexes import build_static_index
from rulerag.mining.temporal import TLogicMiner
from rulerag.synthetic import World

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
MINERS = {"amie": "static", "tlogic-1": "temporal", "tlogic-123": "temporal"}
"""Miners by name, and the kind of world that each mines."""

_CHILD = "--child"
_WARM_UP = 1_000
_MEMORY_GB = 8.0
_ORDERS = 5  # walks and bodies look facts up by source, pair, relation and time, and by relation

Row = dict[str, Any]


def _miner(name: str) -> AmieMiner | TLogicMiner:
    if name == "amie":
        return AmieMiner(threads=1, max_memory_gb=_MEMORY_GB)
    lengths = (1,) if name == "tlogic-1" else (1, 2, 3)
    return TLogicMiner(lengths=lengths, max_memory_gb=_MEMORY_GB)


def joins(name: str, facts: FactTable, rules: int, miner: AmieMiner | TLogicMiner) -> int:
    """The rows that a miner must join on some facts; see the module's docstring."""
    if isinstance(miner, AmieMiner):
        index = build_static_index(facts)
        degree = np.diff(index.entity_bounds)
        heads = index.head_size >= miner.settings.min_head_size
        rows = np.flatnonzero(heads[index.relation[: index.num_facts]])
        walked = np.minimum(degree[index.source[rows]], degree[index.target[rows]])
        return 2 * index.num_facts + int(walked.sum())
    if name == "tlogic-1":
        return 2 * len(facts) + _pairs_of_facts(facts)
    drawn = (
        2
        * len(facts.relations)
        * miner.settings.num_walks
        * sum(length + 1 for length in (1, 2, 3))
    )
    return _ORDERS * 2 * len(facts) + drawn + rules * miner.settings.num_bodies * 3


def _pairs_of_facts(facts: FactTable) -> int:
    """Body facts times head relations between the same two entities, in both directions."""
    wide = np.int64(len(facts.entities))
    forward = facts.subject * wide + facts.object
    code = np.unique(forward * np.int64(len(facts.relations)) + facts.relation)
    heads, count = np.unique(code // len(facts.relations), return_counts=True)
    total = 0
    for bodies in (forward, facts.object * wide + facts.subject):
        place = np.minimum(np.searchsorted(heads, bodies), len(heads) - 1)
        total += int(count[place][heads[place] == bodies].sum())
    return total


def _child(name: str, size: int) -> None:
    kind = MINERS[name]
    _miner(name).mine(World.generate(_WARM_UP, kind=kind).graph.train)  # loads the kernels
    started = time.process_time()
    world = World.generate(size, kind=kind)
    row: Row = {
        "world_cpu": round(time.process_time() - started, 3),
        "world_mb": round(peak_memory_mb(), 1),
    }
    facts, planted = world.graph.train, {rule.id for rule in world.rules}
    del world
    miner = _miner(name)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        bank = miner.mine(facts)
    except MiningError as error:
        print(json.dumps(row | {"refused": str(error)}))
        return
    row |= {
        # A small world may take less than can be told from nothing, and growth is a ratio.
        "cpu": max(round(time.process_time() - cpu, 3), 0.001),
        "wall": round(time.perf_counter() - wall, 3),
        "memory_mb": round(peak_memory_mb(), 1),
        "facts": len(facts),
        "entities": len(facts.entities),
        "rules": len(bank),
        "planted_found": sum(rule.id in planted for rule in bank),
        "planted": len(planted),
    }
    longer = sum(len(rule.body) > 1 for rule in bank)
    print(json.dumps(row | {"joins": joins(name, facts, longer, miner)}))


def measure(name: str, size: int) -> Row:
    """Generate and mine one world in a fresh process.

    Args:
        name: one of :data:`MINERS`.
        size: facts of the world, in all splits.

    Returns:
        Seconds and megabytes of the world and of mining, and what was mined.
    """
    command = [sys.executable, "-m", "benchmarks.mining.scale", _CHILD, name, str(size)]
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | single)
    if done.returncode:
        raise RuntimeError(f"{name} at {size:,} facts failed:\n{done.stderr.strip()}")
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return {"miner": name, "size": size, **found}


def exponents(rows: Sequence[Row]) -> dict[str, list[float]]:
    """By miner, the growth of CPU time over that of joins from each size to the next."""
    found: dict[str, list[float]] = {}
    for name in MINERS:
        done = [row for row in rows if row["miner"] == name and "refused" not in row]
        done.sort(key=lambda row: row["size"])
        found[name] = [
            round(
                math.log(after["cpu"] / before["cpu"]) / math.log(after["joins"] / before["joins"]),
                2,
            )
            for before, after in itertools.pairwise(done)
        ]
    return found


def run(
    out: Path,
    sizes: Sequence[int],
    *,
    miners: Sequence[str] = tuple(MINERS),
    again: bool = False,
    repeats: int = 1,
) -> Row:
    """Measure what is missing, smallest worlds first; the content of ``OUT/scale.json``."""
    path = out / "scale.json"
    old: list[Row] = read_json(path)["rows"] if path.exists() and not again else []
    wanted = [(name, size) for size in sizes for name in miners]
    rows = [row for row in old if (row["miner"], row["size"]) in wanted]
    known = {(row["miner"], row["size"]) for row in rows}
    missing = [task for task in wanted if task not in known]
    result: Row = {}
    for name, size in tqdm(missing, "worlds", unit=" world", disable=not missing):
        tries = [measure(name, size) for _ in range(repeats)]
        rows.append(min(tries, key=lambda row: row.get("cpu", 0.0)))
        rows.sort(key=lambda row: (list(MINERS).index(row["miner"]), row["size"]))
        result = {"rows": rows, "exponents": exponents(rows), "versions": versions()}
        write_json(path, result)
    return result or {"rows": rows, "exponents": exponents(rows), "versions": versions()}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mining.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.mining.scale --out benchmarks/results/scale-mining",
    )
    parser.add_argument("--out", type=Path, help="a folder for tables, figures and the plot")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="facts of worlds")
    parser.add_argument(
        "--miners", nargs="+", default=list(MINERS), choices=MINERS, help="these alone"
    )
    parser.add_argument(
        "--repeats", type=int, default=1, help="runs of each; the least time counts"
    )
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument(_CHILD, nargs=2, metavar=("MINER", "SIZE"), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.child:
        return guarded(lambda: _child(given.child[0], int(given.child[1])))
    if given.out is None:
        parser.error("--out is missing: name a folder")

    def work() -> None:
        out = prepare_folder(given.out)
        result = run(
            out, given.sizes, miners=given.miners, again=given.again, repeats=given.repeats
        )
        print(write_reports(result, out))

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
