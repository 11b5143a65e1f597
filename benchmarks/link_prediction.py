"""Link prediction with rules: filtered MRR and Hits, both directions of every test fact.

Temporal graphs: each query sees the facts before its time, of any split, and other answers true at
the same time are taken out. Static graphs: queries see the training facts, and other answers true
in any split are taken out. Equal scores share their mean rank; the figures with best and worst
ranks stand beside it. Learned weights (``--aggregate learned``) come from facts before the asked
split only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from benchmarks.link_prediction_options import MINED_BODY_SIZE, PUBLISHED_BODY_SIZE, parser
from benchmarks.link_prediction_ranks import (
    Prior,
    Queries,
    Ranks,
    measures,
    queries_of,
    rank_answers,
)
from benchmarks.process_cost import peak_memory_mb
from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.evaluation import versions
from rulerag.io import prepare_folder, write_json
from rulerag.kg import FactTable, KnowledgeGraph, Vocabulary
from rulerag.mining.amie import AmieMiner
from rulerag.mining.formats import detect_format, import_rules
from rulerag.mining.inference import Candidates, StaticInference, TemporalInference
from rulerag.mining.inference.learned import LearnedTemporalInference
from rulerag.mining.temporal import TLogicMiner
from rulerag.rules import RuleBank

__all__ = ["evaluate", "load_rules", "main"]

Application = TemporalInference | StaticInference | LearnedTemporalInference
# Queries whose candidates are held at once.
_PART = 4096


def load_rules(path: Path, graph: KnowledgeGraph, relation_ids: str = "graph") -> RuleBank:
    """Read a rule file of any format.

    Args:
        path: the file.
        graph: what the rules are applied to.
        relation_ids: what relation ids in a TLogic file count: ``graph``, the graph's ids; or
            ``sorted``, the places of the names (with underscores) in sorted order, as in the
            folders that TLogic publishes.

    Raises:
        DataError: the file cannot be read.
        DataFormatError: it is no rule file.
        ConfigError: the ids do not fit the graph.
    """
    if detect_format(path) != "tlogic":
        return import_rules(path, graph=graph)
    view = graph
    if relation_ids == "sorted":
        names = sorted(graph.relations.names, key=lambda name: name.replace(" ", "_"))
        vocabulary = Vocabulary(names, [graph.relations.label(name) for name in names])
        view = KnowledgeGraph(graph.entities, vocabulary, {})
    bank = import_rules(path, graph=view)
    _check_ids(bank, graph, relation_ids)
    return bank


def _check_ids(bank: RuleBank, graph: KnowledgeGraph, relation_ids: str) -> None:
    """Refuse rules whose bodies are known more often than their relation has facts."""
    size = np.bincount(graph.train.relation, minlength=len(graph.relations))
    for rule in bank:
        facts = size[graph.relations.id(rule.body[0].relation)]
        if len(rule.body) == 1 and (rule.quality.body_size or 0) > facts:
            other = "sorted" if relation_ids == "graph" else "graph"
            raise ConfigError(
                f"the rule {rule.text!r} counts {rule.quality.body_size} bodies where the graph "
                f"has {facts} facts: the file's relation ids are not these",
                key="relation_ids",
                hint=f"try --relation-ids {other}",
            )


def evaluate(
    application: Application,
    queries: Queries,
    prior: Prior,
    num_entities: int,
    *,
    where: str = "everywhere",
    progress: bool = False,
) -> Ranks:
    """Rank the answers of all queries, some thousand at a time."""
    starts = range(0, len(queries), _PART)
    parts = []
    for start in tqdm(starts, "queries", disable=not progress, unit=f"{_PART}"):
        part = queries.part(start, start + _PART)
        found = _candidates(application, part)
        parts.append(rank_answers(part, found, prior, num_entities, where))
    return Ranks.join(parts)


def _candidates(application: Application, queries: Queries) -> Candidates:
    if isinstance(application, StaticInference):
        return application.candidates(queries.subject, queries.relation)
    return application.candidates(queries.subject, queries.relation, queries.time)


def _rules(arguments: argparse.Namespace, graph: KnowledgeGraph) -> RuleBank:
    if arguments.miner == "rules":
        if arguments.rules is None:
            raise ConfigError("no rule file is named", key="rules", hint="--rules FILE")
        return load_rules(arguments.rules, graph, arguments.relation_ids)
    if arguments.rules is not None:
        raise ConfigError(
            f"the miner {arguments.miner} mines its own rules", key="rules", hint="--miner rules"
        )
    if arguments.miner == "amie":
        return AmieMiner(threads=arguments.threads, progress=arguments.progress).mine(graph.train)
    facts = graph.train
    if arguments.aggregate == "learned" and arguments.mined_share < 1:
        facts = facts.select(_early(facts, _cut(arguments, graph)), facts.name)
    miner = TLogicMiner(
        lengths=arguments.lengths,
        num_walks=arguments.num_walks,
        seed=arguments.seed,
        threads=arguments.threads,
        progress=arguments.progress,
    )
    return miner.mine(facts)


def _past(arguments: argparse.Namespace, graph: KnowledgeGraph) -> list[FactTable]:
    """The facts before the asked split."""
    return [graph.train] if arguments.split == "valid" else [graph.train, graph.valid]


def _cut(arguments: argparse.Namespace, graph: KnowledgeGraph) -> int:
    """The last time whose facts rules are mined from; weights are learned from later ones.

    What a rule was mined from it explains too well: weights learned there would trust it too much.
    """
    past = [_timestamps(table) for table in _past(arguments, graph)]
    return int(np.quantile(np.concatenate(past), arguments.mined_share))


def _timestamps(table: FactTable) -> npt.NDArray[np.int32]:
    if table.timestamp is None:
        raise ConfigError(f"{table.name} is static", key="aggregate", hint="max or noisy-or")
    return table.timestamp


def _early(table: FactTable, cut: int) -> npt.NDArray[np.bool_]:
    return _timestamps(table) <= cut


def _aggregate(arguments: argparse.Namespace, graph: KnowledgeGraph) -> str:
    """How scores are joined: what is asked for, where the graph allows it."""
    allowed = ("noisy-or", "learned") if graph.is_temporal else ("max", "noisy-or")
    wanted: str = arguments.aggregate or allowed[0]
    if wanted not in allowed:
        kind = "temporal" if graph.is_temporal else "static"
        raise ConfigError(
            f"{wanted!r} does not go with a {kind} graph",
            key="aggregate",
            hint=f"use {' or '.join(allowed)}",
        )
    return wanted


def _application(
    arguments: argparse.Namespace, graph: KnowledgeGraph, bank: RuleBank
) -> Application:
    if not graph.is_temporal:
        return StaticInference(
            bank,
            [graph.train],
            aggregate=arguments.aggregate,
            confidence=arguments.confidence,
            threads=arguments.threads,
        )
    known = list(graph.splits.values())
    if arguments.min_body_size is None:
        mined = arguments.miner == "tlogic"
        arguments.min_body_size = MINED_BODY_SIZE if mined else PUBLISHED_BODY_SIZE
    shared = {"min_body_size": arguments.min_body_size, "threads": arguments.threads}
    if arguments.aggregate == "noisy-or":
        return TemporalInference(bank, known, smoothing=arguments.smoothing, **shared)
    learned = LearnedTemporalInference(
        bank,
        known,
        max_queries=arguments.max_queries or None,
        passes=arguments.passes,
        fine_rate=arguments.fine_rate,
        **shared,
    )
    past = _past(arguments, graph)
    if arguments.miner == "tlogic" and arguments.mined_share < 1:
        cut = _cut(arguments, graph)
        past = [table.select(~_early(table, cut), table.name) for table in past]
    return learned.fit(past, progress=arguments.progress)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Load, mine or read rules, apply them, and measure: the content of ``metrics.json``."""
    clock = _Clock()
    graph = KnowledgeGraph.load(arguments.kg)
    arguments.aggregate = _aggregate(arguments, graph)
    clock.lap("load")
    bank = _rules(arguments, graph)
    clock.lap("rules")
    application = _application(arguments, graph, bank)
    clock.lap("learn" if isinstance(application, LearnedTemporalInference) else "index")
    known = list(graph.splits.values())
    queries = queries_of(graph.split(arguments.split), known, limit=arguments.limit)
    prior = Prior.of(graph.train)
    clock.lap("prepare")
    ranks = evaluate(
        application,
        queries,
        prior,
        len(graph.entities),
        where=arguments.prior,
        progress=arguments.progress,
    )
    clock.lap("apply")
    settings = {k: v.name if isinstance(v, Path) else v for k, v in vars(arguments).items()}
    return {
        "benchmark": f"link-prediction/{graph.name}",
        "method": f"{arguments.miner}-{arguments.aggregate}",
        "num_queries": len(queries),
        "num_rules": len(bank),
        "metrics": measures(ranks),
        "seconds": clock.wall,
        "cpu_seconds": clock.cpu,
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "seed": arguments.seed,
        "config": {k: v for k, v in settings.items() if k not in ("out", "progress")},
        "versions": versions(),
    }


class _Clock:
    """Wall and CPU seconds of named stretches."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._last = time.perf_counter(), time.process_time()

    def lap(self, name: str) -> None:
        now = time.perf_counter(), time.process_time()
        self.wall[name] = round(now[0] - self._last[0], 3)
        self.cpu[name] = round(now[1] - self._last[1], 3)
        self._last = now


def _say(result: dict[str, Any]) -> None:
    found = result["metrics"]
    print(
        f"{result['benchmark']}: {result['num_queries']:,} queries, {result['num_rules']:,} rules"
    )
    print("| ties | MRR | Hits@1 | Hits@3 | Hits@10 |\n| --- | ---: | ---: | ---: | ---: |")
    for kind in ("", "_rounded_down", "_best", "_worst"):
        cells = [found[f"{name}{kind}"] for name in ("mrr", "hits@1", "hits@3", "hits@10")]
        name = kind.strip("_").replace("_", " ") or "mean"
        print(f"| {name} | " + " | ".join(f"{100 * cell:.2f}" for cell in cells) + " |")
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in result["cpu_seconds"].items())
    print(f"CPU seconds: {seconds}; peak memory {result['peak_memory_mb']:.0f} MB")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    arguments = parser(__doc__).parse_args(argv)

    def work() -> None:
        if arguments.out is not None:
            prepare_folder(arguments.out)
        result = run(arguments)
        if arguments.out is not None:
            write_json(arguments.out / "metrics.json", result)
        _say(result)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
