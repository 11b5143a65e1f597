"""Which score keeps the best rules: validation MRR and recall when each head keeps its best n.

Rules are mined from the training facts. For each score and budget the best rules of every head
relation are applied to the validation queries, both directions of every validation fact, with the
filters of ``benchmarks.link_prediction`` and ties averaged; test queries are never used. ICEWS14
rules (lengths 1 to 3) are applied as TLogic does, static ones by maximum. A second table prunes the
whole bank: subsumed rules (redundant on every graph), and covered ones (nothing new on this graph).
The committed results compare seven further scores that the library no longer offers.

Finished rows are kept in ``OUT/GRAPH.json``; an interrupted run goes on behind them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.common.folders import shared_folder
from rulerag.console import guarded
from rulerag.evaluation import markdown_table, versions
from rulerag.evaluation.link_prediction import (
    Prior,
    Queries,
    measures,
    queries_of,
    rank_all,
)
from rulerag.io import atomic_write, fingerprint_object, prepare_folder, read_json, write_json
from rulerag.kg import KnowledgeGraph
from rulerag.mining.amie import AmieMiner
from rulerag.mining.inference import StaticInference, TemporalInference
from rulerag.mining.pruning import DEFAULT_SCORE, SCORES, prune_covered, prune_subsumed, top_rules
from rulerag.mining.temporal import TLogicMiner
from rulerag.rules import RuleBank

GRAPHS = ("icews14_forecasting", "fb15k237", "nell995")
BUDGETS = (1, 2, 3, 5, 10, 20, 50)
_METRICS = ("mrr", "hits@1", "hits@10", "reached")

Row = dict[str, Any]


@dataclass(frozen=True)
class _Bench:
    """One graph with its rules and its validation queries."""

    graph: KnowledgeGraph
    bank: RuleBank
    queries: Queries
    prior: Prior

    @classmethod
    def of(cls, name: str, limit: int | None) -> _Bench:
        graph = KnowledgeGraph.load(shared_folder("data", name))
        if graph.is_temporal:
            bank = TLogicMiner(lengths=(1, 2, 3)).mine(graph.train)
        else:
            bank = AmieMiner(threads=1).mine(graph.train)
        valid = graph.split("valid")
        if limit is not None and limit < len(valid):
            # Spread over the split, which is in time order where facts are dated.
            valid = valid.select(np.linspace(0, len(valid) - 1, limit).astype(np.int64), "valid")
        queries = queries_of(valid, list(graph.splits.values()))
        return cls(graph, bank, queries, Prior.of(graph.train))

    @property
    def aggregates(self) -> tuple[str, ...]:
        return ("noisy-or",) if self.graph.is_temporal else ("max", "noisy-or")

    def measure(self, bank: RuleBank, aggregate: str) -> Row:
        """Rules, CPU seconds of their application, and the measures of its candidates."""
        started = time.process_time()
        application: TemporalInference | StaticInference
        if self.graph.is_temporal:
            application = TemporalInference(bank, list(self.graph.splits.values()))
        else:
            application = StaticInference(bank, [self.graph.train], aggregate=aggregate)
        ranks = rank_all(application, self.queries, self.prior, len(self.graph.entities))
        found = measures(ranks)
        seconds = round(time.process_time() - started, 2)
        row: Row = {"rules": len(bank), "cpu_seconds": seconds}
        return row | {key: round(found[key], 6) for key in _METRICS}

    def tasks(self, budgets: Sequence[int]) -> Iterator[tuple[str, Callable[[], Row]]]:
        """Every row by name: ``score/n`` for the best n, ``prune/…`` for whole banks."""
        for score in SCORES:
            for budget in budgets:
                yield f"{score}/{budget}", partial(self._best, score, budget)
        for aggregate in self.aggregates:
            for name, pruned in self._pruned():
                yield f"prune/{name}/{aggregate}", partial(self._whole, pruned, aggregate)

    def _best(self, score: str, budget: int) -> Row:
        return self.measure(top_rules(self.bank, budget, score), self.aggregates[0])

    def _whole(self, pruned: Callable[[], RuleBank], aggregate: str) -> Row:
        return self.measure(pruned(), aggregate)

    def _pruned(self) -> Iterator[tuple[str, Callable[[], RuleBank]]]:
        yield "nothing", lambda: self.bank
        yield "subsumed", lambda: prune_subsumed(self.bank)
        if self.graph.is_temporal:
            return
        train = self.graph.train
        yield (
            "subsumed, skyline off",
            lambda: prune_subsumed(AmieMiner(threads=1, skyline=False).mine(train)),
        )
        yield "covered", lambda: prune_covered(self.bank, train)


def run(name: str, out: Path, limit: int | None = None, budgets: Sequence[int] = BUDGETS) -> Row:
    """Measure one graph, or what is missing of it; the content of ``OUT/GRAPH.json``."""
    path = out / f"{name}.json"
    bench = _Bench.of(name, limit)
    state = fingerprint_object([bench.bank.fingerprint, len(bench.queries), versions()["rulerag"]])
    found: Row = read_json(path) if path.exists() else {}
    if found.get("state") != state:
        found = {
            "benchmark": f"rule-pruning/{name}",
            "split": "valid",
            "num_queries": len(bench.queries),
            "num_rules": len(bench.bank),
            "state": state,
            "rows": {},
        }
    tasks = [(key, work) for key, work in bench.tasks(budgets) if key not in found["rows"]]
    for key, work in tqdm(tasks, name, unit=" banks", disable=not tasks):
        found["rows"][key] = work()
        write_json(path, found)
    return found


def _means(found: dict[str, Row], metric: str, budgets: Sequence[int]) -> dict[str, list[float]]:
    """Mean over budgets by score, one value for each graph."""
    return {
        score: [
            sum(result["rows"][f"{score}/{n}"][metric] for n in budgets) / len(budgets)
            for result in found.values()
        ]
        for score in SCORES
    }


def _budget_table(result: Row, metric: str, budgets: Sequence[int]) -> str:
    rows = result["rows"]
    best = {n: max(rows[f"{s}/{n}"][metric] for s in SCORES) for n in budgets}
    cells = []
    for score in SCORES:
        line = [score]
        for n in budgets:
            value = rows[f"{score}/{n}"][metric]
            text = f"{100 * value:.2f}"
            line.append(f"**{text}**" if value == best[n] else text)
        cells.append(line)
    return markdown_table(["score", *(f"n = {n}" for n in budgets)], cells)


def render(found: dict[str, Row], budgets: Sequence[int] = BUDGETS) -> str:
    """The results as Markdown, per cent."""
    parts = [
        "# Rule pruning on validation queries",
        "",
        "`python -m benchmarks.mining.rule_pruning --out benchmarks/results/rule-pruning`; "
        "per cent, ties averaged, filtered. Each head relation keeps its "
        "best n rules by the score of the row; "
        "best of a column in bold.",
        "",
        "## Mean over budgets",
        "",
    ]
    for metric, words in (("mrr", "MRR"), ("hits@10", "answer in the first ten")):
        values = _means(found, metric, budgets)
        rows = [
            [s, *(f"{100 * x:.2f}" for x in v), f"{100 * sum(v) / len(v):.2f}"]
            for s, v in sorted(values.items(), key=lambda item: -sum(item[1]) / len(item[1]))
        ]
        parts += [markdown_table([words, *found, "mean"], rows)]
    for name, result in found.items():
        size = f"{result['num_queries']:,} queries, {result['num_rules']:,} rules"
        parts += [f"## {name} ({size})", ""]
        for metric, words in (
            ("mrr", "MRR"),
            ("hits@10", "Answer in the first ten"),
            ("reached", "Answer reached by some rule"),
        ):
            parts += [words + ":", "", _budget_table(result, metric, budgets)]
        rows = [
            [
                f"{key.split('/')[1]} ({key.split('/')[2]})",
                f"{row['rules']:,}",
                *(f"{100 * row[metric]:.2f}" for metric in _METRICS),
                f"{row['cpu_seconds']:.1f}",
            ]
            for key, row in result["rows"].items()
            if key.startswith("prune/")
        ]
        header = ["dropped (aggregate)", "rules", "MRR", "Hits@1", "Hits@10", "reached", "CPU s"]
        parts += ["Whole banks:", "", markdown_table(header, rows)]
    parts += [
        "Subsumed rules change no best score of any candidate; noisy-or counts them, as extra "
        "witnesses, and loses a little without them. Covered rules change no best score on the "
        "training facts; ranks move where ties are broken by the next best rule.",
        "",
    ]
    parts += [f"The default score of `top_rules` is `{DEFAULT_SCORE}`.", ""]
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mining.rule_pruning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m benchmarks.mining.rule_pruning "
        "--out benchmarks/results/rule-pruning",
    )
    parser.add_argument("graphs", nargs="*", help=f"default: {' '.join(GRAPHS)}")
    parser.add_argument("--out", type=Path, required=True, help="a folder for tables and figures")
    parser.add_argument(
        "--limit",
        type=int,
        default=3000,
        help="validation facts of each graph at most, evenly spaced (default 3000; 0: all)",
    )
    parser.add_argument(
        "--budgets", type=int, nargs="+", default=list(BUDGETS), help="rules of a head, at most"
    )
    given = parser.parse_args(argv)

    def work() -> None:
        out = prepare_folder(given.out)
        found = {
            name: run(name, out, given.limit or None, given.budgets)
            for name in given.graphs or GRAPHS
        }
        text = render(found, given.budgets)
        with atomic_write(out / "table.md") as file:
            file.write(text)
        print(text)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
