"""Speed of the thread on ICEWS14: rules of length one, and rule-guided BM25 over all queries."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.common.folders import data_folder
from rulerag.assembly import make_pipeline, make_retriever, preset
from rulerag.errors import DataError
from rulerag.io import prepare_folder, write_json
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.mining.temporal import TLogicMiner
from rulerag.ruleqa import build


def _count_plainly(facts: FactTable) -> dict[tuple[str, bool, str], int]:
    """Rule support by loops over facts, the baseline: what a careful script would do."""
    last: dict[tuple[str, str], dict[str, int]] = {}
    for fact in facts:
        times = last.setdefault((fact.subject, fact.object), {})
        times[fact.relation] = max(times.get(fact.relation, -1), fact.timestamp or 0)
    support: dict[tuple[str, bool, str], int] = {}
    for fact in facts:
        for inverse, ends in (
            (False, (fact.subject, fact.object)),
            (True, (fact.object, fact.subject)),
        ):
            for head, time_ in last.get(ends, {}).items():
                if time_ > (fact.timestamp or 0):
                    key = (fact.relation, inverse, head)
                    support[key] = support.get(key, 0) + 1
    return support


def _seconds(function: Any, *arguments: Any) -> tuple[float, Any]:
    """CPU seconds of this process, which a busy machine does not change, and the result."""
    started = time.process_time()
    result = function(*arguments)
    return time.process_time() - started, result


def main(out: Path | None = None) -> dict[str, Any]:
    """Measure, print, and write ``thread.json``.

    Raises:
        DataError: the ICEWS14 folder is not there.
    """
    folder = data_folder() / "icews14"
    if not folder.is_dir():
        raise DataError("the graph folder is not here", path=folder, hint="set RULERAG_DATA")
    graph = KnowledgeGraph.load(folder)
    plain_seconds, counted = _seconds(_count_plainly, graph.train)
    mine_seconds, bank = _seconds(TLogicMiner(min_confidence=0.0, min_support=1).mine, graph.train)
    if len(bank) != len(counted):
        raise DataError(f"{len(bank)} rules, the plain count has {len(counted)}")
    dataset = build("ruleqa-i", graph)
    queries = dataset.query_set("balanced")
    plain = make_retriever(preset("x", rules="none"), dataset, None)
    plain.retrieve(queries[:64], 10)  # compiles the kernel
    search_seconds, _ = _seconds(plain.retrieve, queries, 10)
    pipeline = make_pipeline(preset("x", rules="guided"), dataset)
    started = time.perf_counter()
    guided_seconds, answers = _seconds(pipeline.answer, queries)
    figures = {
        "mining": {
            "rules": len(bank),
            "cpu_seconds": round(mine_seconds, 3),
            "plain_python_cpu_seconds": round(plain_seconds, 3),
            "times_faster": round(plain_seconds / mine_seconds, 1),
        },
        "guided": {
            "queries": len(answers),
            "cpu_seconds": round(guided_seconds, 2),
            "wall_seconds": round(time.perf_counter() - started, 2),
            "plain_bm25_cpu_seconds": round(search_seconds, 2),
            "times_the_cost_of_plain": round(guided_seconds / search_seconds, 1),
        },
    }
    mining, guided = figures["mining"], figures["guided"]
    sys.stdout.write(
        f"ICEWS14, {mining['rules']:,} temporal rules: {mining['cpu_seconds']} CPU s, "
        f"{mining['times_faster']} times faster than plain Python "
        f"({mining['plain_python_cpu_seconds']} s)\n"
        f"RuleQA-I, {guided['queries']:,} queries with rule-guided BM25 and reading: "
        f"{guided['cpu_seconds']} CPU s, {guided['times_the_cost_of_plain']} times plain BM25 "
        f"search ({guided['plain_bm25_cpu_seconds']} s)\n"
    )
    if out is not None:
        write_json(prepare_folder(out) / "thread.json", figures)
    return figures
