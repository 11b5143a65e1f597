"""Fused rows of the retrieval tables, made from what their members found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common.bench import Bench
from benchmarks.experiments.matrix.rows import Row
from benchmarks.stages.records import RunRecord
from benchmarks.stages.search_results import DEPTH, RETRIEVAL_MEASURES, UNION_K, SearchResults
from rulerag.io import fingerprint_object, read_json
from rulerag.retrieval.base import fuse


def fused(
    members: Sequence[SearchResults], statement: Sequence[int] | None = None
) -> SearchResults:
    """Reciprocal rank fusion of the best documents; the union of the unions.

    Members agree on statements rather than on documents: one finds this year's, another last
    year's. So the lists that are fused are of statements, each shown by the document of the member
    that ranks it best. The constant is the budget of ten: with the usual 60, what is at rank
    50 of two lists comes before what is first in one.

    Args:
        members: what several retrievers found for the same queries.
        statement: for each corpus row the row that represents the same statement; its own if None.
    """
    count = len(members[0].best)
    best = np.full((count, DEPTH), -1, dtype=np.int32)
    union: list[np.ndarray[Any, np.dtype[np.int32]]] = []
    depth: list[np.ndarray[Any, np.dtype[np.int32]]] = []
    for place in range(count):
        shown: dict[int, tuple[int, int]] = {}
        lists = []
        for member in members:
            keys: dict[int, float] = {}
            for rank, row in enumerate(member.best[place][member.best[place] >= 0].tolist()):
                key = row if statement is None else statement[row]
                shown[key] = min(shown.get(key, (rank, row)), (rank, row))
                keys.setdefault(key, 0.0)
            lists.append(list(keys.items()))
        order = fuse(lists, "rrf", rank_constant=UNION_K)
        rows = [shown[key][1] for key, _ in order][:DEPTH]
        best[place, : len(rows)] = rows
        parts = [m.union_of(place) for m in members]
        found, back = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
        least = np.full(len(found), np.iinfo(np.int32).max, dtype=np.int32)
        np.minimum.at(least, back, np.concatenate([ranks for _, ranks in parts]))
        union.append(found)
        depth.append(least)
    ends = np.concatenate([[0], np.cumsum([len(part) for part in union])])
    return SearchResults(best, np.concatenate(union), np.concatenate(depth), ends.astype(np.int64))


def run_fusion(
    bench: Bench, members: Sequence[Row], query_set: str, *, seed: int = 0
) -> dict[str, Any]:
    """Fuse rows that are finished, unless the fusion is; return the record.

    Args:
        bench: the benchmark.
        members: the rows.
        query_set: of the runs.
        seed: of the fine-tuned members.
    """
    name = "+".join(row.name for row in members)
    sources = [bench.place(row.name, query_set, seed if row.training else 0) for row in members]
    records = [read_json(f"{source}.json") for source in sources]
    identity = fingerprint_object(["statements", [record["identity"] for record in records]])
    run = RunRecord(bench.place(name, query_set, seed), identity)
    if (finished := run.finished(RETRIEVAL_MEASURES)) is not None:
        return finished
    queries = bench.queries(query_set)
    started = time.process_time()
    found = fused([SearchResults.load(f"{source}.npz") for source in sources], bench.statements)
    seconds = time.process_time() - started
    found.save(run.file(".npz"))
    parts = [sum(record["cpu_seconds"].values()) for record in records]
    made = {
        "benchmark": bench.name,
        "row": name,
        "title": "fusion: " + " + ".join(row.title for row in members),
        "query_set": query_set,
        "seed": seed,
        "num_queries": len(queries),
        "cpu_seconds": {"members": round(sum(parts), 2), "fuse": round(seconds, 2)},
        "memory_mb": max(record["memory_mb"] for record in records),
    }
    return run.write(made, found.measure(queries, bench.dataset))
