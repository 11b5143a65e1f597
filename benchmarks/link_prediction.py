"""Link prediction with rules: filtered MRR and Hits, both directions of every test fact.

Temporal graphs: each query sees the facts before its time, of any split, and other answers true at
the same time are taken out. Static graphs: queries see the training facts, and other answers true
in any split are taken out. Equal scores share their mean rank; the figures with best and worst
ranks stand beside it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.link_prediction_ranks import (
    PRIORS,
    Prior,
    Queries,
    Ranks,
    measures,
    queries_of,
    rank_answers,
)
from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.evaluation.experiment import versions
from rulerag.io import prepare_folder, write_json
from rulerag.kg.graph import KnowledgeGraph, Vocabulary
from rulerag.mining.amie import AmieMiner
from rulerag.mining.application import Candidates, StaticApplication, TemporalApplication
from rulerag.mining.formats import detect_format, import_rules
from rulerag.mining.tlogic import TLogicMiner
from rulerag.rules import RuleBank

__all__ = ["evaluate", "load_rules", "main"]

MINERS = ("amie", "tlogic", "rules")
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
    application: TemporalApplication | StaticApplication,
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


def _candidates(
    application: TemporalApplication | StaticApplication, queries: Queries
) -> Candidates:
    if isinstance(application, StaticApplication):
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
    miner = TLogicMiner(
        lengths=arguments.lengths,
        seed=arguments.seed,
        threads=arguments.threads,
        progress=arguments.progress,
    )
    return miner.mine(graph.train)


def _lengths(text: str) -> tuple[int, ...]:
    """Body lengths of an argument such as ``1,2,3``."""
    return tuple(int(part) for part in text.split(","))


def _application(
    arguments: argparse.Namespace, graph: KnowledgeGraph, bank: RuleBank
) -> TemporalApplication | StaticApplication:
    if graph.is_temporal:
        known = list(graph.splits.values())
        return TemporalApplication(
            bank, known, smoothing=arguments.smoothing, threads=arguments.threads
        )
    return StaticApplication(
        bank,
        [graph.train],
        aggregate=arguments.aggregate,
        confidence=arguments.confidence,
        threads=arguments.threads,
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Load, mine or read rules, apply them, and measure: the content of ``metrics.json``."""
    clock = _Clock()
    graph = KnowledgeGraph.load(arguments.kg)
    clock.lap("load")
    bank = _rules(arguments, graph)
    clock.lap("rules")
    application = _application(arguments, graph, bank)
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
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(arguments).items()}
    return {
        "benchmark": f"link-prediction/{graph.name}",
        "method": arguments.miner,
        "num_queries": len(queries),
        "num_rules": len(bank),
        "metrics": measures(ranks),
        "seconds": clock.wall,
        "cpu_seconds": clock.cpu,
        "peak_memory_mb": _peak_memory(),
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


def _peak_memory() -> float:
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.link_prediction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.link_prediction ../shared/data/icews14_forecasting "
        "--miner tlogic --out runs/link-prediction",
    )
    parser.add_argument("kg", metavar="KG", type=Path, help="a graph folder")
    parser.add_argument("--miner", required=True, choices=MINERS, help="where rules come from")
    parser.add_argument("--rules", type=Path, help="with --miner rules: a file in any format")
    parser.add_argument(
        "--relation-ids",
        choices=("graph", "sorted"),
        default="graph",
        help="what ids in a TLogic file count: the graph's ids, or names in sorted order",
    )
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    parser.add_argument("--limit", type=int, help="only the first N facts, 2 N queries")
    parser.add_argument(
        "--prior",
        choices=PRIORS,
        default="unreached",
        help="where the frequency of answers counts: nowhere; in queries without candidates; "
        "or everywhere, between ties and behind all candidates",
    )
    parser.add_argument(
        "--aggregate", choices=("max", "noisy-or"), default="max", help="static graphs"
    )
    parser.add_argument(
        "--confidence", choices=("pca", "standard"), default="pca", help="static graphs"
    )
    parser.add_argument(
        "--lengths",
        type=_lengths,
        default=(1, 2, 3),
        help="with --miner tlogic: body lengths (default 1,2,3)",
    )
    parser.add_argument(
        "--smoothing",
        type=float,
        default=0.0,
        help="temporal graphs: what is added to the body sizes in confidences",
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a folder for metrics.json")
    parser.add_argument("--quiet", dest="progress", action="store_false", help="no progress bars")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    arguments = _parser().parse_args(argv)

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
