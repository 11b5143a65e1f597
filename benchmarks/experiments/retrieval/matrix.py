"""The retrieval experiments: Table 2's retrieval columns, Figure 3, Tables 4 and 5, Figure 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments.retrieval.fusion import run_fusion
from benchmarks.experiments.retrieval.rows import CONTROLS, FUSIONS, ROWS, Row, row
from benchmarks.experiments.retrieval.runs import Bench, run_row, train
from rulerag.errors import ConfigError, DataError, did_you_mean
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import BENCHMARKS, GRAPHS, RuleQADataset, build
from rulerag.rules import RuleBank

__all__ = [
    "BANKS",
    "RETRIEVAL",
    "Plan",
    "rule_bank",
    "run_bank_training",
    "run_retrieval",
    "taking_bank",
]

BANKS = ("R1", "R2", "R3", "R4")
"""Rule banks of Figure 5: disjoint quarters of R."""
_PLAIN_AND_GUIDED = (
    "bm25",
    "bm25-guided",
    "lucene",
    "lucene-guided",
    "symbolic",
    "dense",
    "dense-guided",
)
_ROBUST = ("bm25", "bm25-guided", "dense", "dense-guided", "dense-guided-rgft")


@dataclass(frozen=True)
class Plan:
    """What to run and where.

    Args:
        out: the folder of the runs; a finished run in it is not repeated.
        datasets: the folder of the dataset folders; missing ones are built there.
        data: the data folder, to build them from.
        benchmarks: which benchmarks.
        seeds: how many seeds of the fine-tuned rows.
        encoder: instead of the encoder that is installed.
        overrides: changes of the training runs, ``key=value``.
        isolate: every run in a process of its own, which tells its peak memory.
        sample: so many queries of each set at most; all when 0.
        rows: run these rows alone; all of an experiment when empty.
    """

    out: Path
    datasets: Path
    data: Path
    benchmarks: tuple[str, ...] = tuple(GRAPHS)
    seeds: int = 3
    encoder: str = ""
    overrides: tuple[str, ...] = ()
    isolate: bool = True
    sample: int = 0
    rows: tuple[str, ...] = ()

    def bench(self, name: str) -> Bench:
        """One benchmark; its dataset is built when it is missing.

        Raises:
            ConfigError: there is no such benchmark.
            DataError: the graph is missing too.
        """
        if name not in GRAPHS:
            raise ConfigError(
                f"no benchmark is called {name!r}",
                key="benchmarks",
                hint=did_you_mean(name, GRAPHS),
            )
        return Bench(
            name,
            self._dataset(name),
            self.out,
            self.encoder,
            self.overrides,
            self.isolate,
            self.sample,
        )

    def degenerate(self, bench: Bench) -> Bench:
        """The same benchmark with the queries of Table 5, that the corpus answers directly."""
        folder = self._dataset(bench.name, "degenerate")
        return replace(bench, folder=folder, variant="degenerate", _queries={})

    def _dataset(self, name: str, variant: str = "test") -> Path:
        folder = self.datasets / (name if variant == "test" else f"{name}-{variant}")
        if not (folder / "manifest.json").exists():
            graph = self.data / GRAPHS[name]
            if not graph.is_dir():
                raise DataError(
                    "the graph folder is not here",
                    path=graph,
                    hint="name the data folder with --data, or built datasets with --datasets",
                )
            build(
                name, KnowledgeGraph.load(graph), settings=BENCHMARKS[name], variant=variant
            ).save(folder)
        return folder


def run_retrieval(name: str, plan: Plan) -> None:
    """Run an experiment of :data:`RETRIEVAL`; finished parts are not repeated."""
    for one in plan.rows:
        row(one)  # a name that is wrong shall be told before any work
    for benchmark in RETRIEVAL[name].benchmarks or plan.benchmarks:
        RETRIEVAL[name].run(plan.bench(benchmark), plan)


def _rows(bench: Bench, plan: Plan, rows: Sequence[Row], *, asked: Bench | None = None) -> None:
    """Run rows seed by seed, so that a table stands early; ``asked`` has other queries."""
    wanted = [one for one in rows if not plan.rows or one.name in plan.rows]
    for seed in range(plan.seeds):
        for one in wanted:
            if one.training:
                train(bench, one.training, seed)
            if one.training or seed == 0:
                run_row(asked or bench, one, "balanced", seed=seed)


def _table2(bench: Bench, plan: Plan) -> None:
    _rows(bench, plan, (*ROWS, *CONTROLS))
    for members in FUSIONS:
        rows = [row(name) for name in members]
        for seed in range(plan.seeds if any(one.training for one in rows) else 1):
            places = [bench.place(o.name, "balanced", seed if o.training else 0) for o in rows]
            if all((place.parent / f"{place.name}.json").exists() for place in places):
                run_fusion(bench, rows, "balanced", seed=seed)


def _figure3(bench: Bench, plan: Plan) -> None:
    _rows(bench, plan, ROWS)


def _table4(bench: Bench, plan: Plan) -> None:
    _rows(bench, plan, [row(name) for name in _PLAIN_AND_GUIDED])


def _table5(bench: Bench, plan: Plan) -> None:
    _rows(bench, plan, [row(name) for name in _ROBUST], asked=plan.degenerate(bench))


def rule_bank(rules: RuleBank, number: int) -> RuleBank:
    """One of four disjoint quarters of a rule bank, the rules of every head dealt out in turn.

    Args:
        rules: the whole bank.
        number: which, from 0.
    """
    dealt = []
    for head in sorted(rules.head_relations):
        mine = sorted(rules.for_head(head), key=lambda rule: rule.id)
        order = np.random.default_rng([0, len(mine)]).permutation(len(mine))
        dealt += [mine[n] for n in order[number :: len(BANKS)]]
    return RuleBank(dealt)


def _figure5(bench: Bench, plan: Plan) -> None:
    """Fine-tuned with one bank, asked with another; plain retrieval beside it."""
    run_row(bench, row("dense"), "balanced")
    for learned in BANKS:
        run_bank_training(bench, plan, learned)
        one = replace(row("dense-guided-rgft"), training=f"rgft-{learned}")
        for asked in BANKS:
            run_row(bench, one, "balanced", tag=f"-{learned}-{asked}", rules=taking_bank(asked))


def run_bank_training(bench: Bench, plan: Plan, bank: str) -> Path:
    """Fine-tune a retriever with one bank unless it stands; return the bank's dataset folder."""
    folder = plan.out / "banks" / f"{bench.name}-{bank}"
    if not (folder / "manifest.json").exists():
        _with_rules(bench.dataset, BANKS.index(bank)).save(folder)
    train(bench, f"rgft-{bank}", 0, [f"dataset.path={folder}"])
    return folder


def taking_bank(bank: str) -> Callable[[RuleQADataset], RuleQADataset]:
    """What gives a dataset with the rules of one bank alone."""
    return lambda dataset: _with_rules(dataset, BANKS.index(bank))


def _with_rules(dataset: RuleQADataset, number: int) -> RuleQADataset:
    """The same dataset with one bank of its rules."""
    return RuleQADataset(
        corpus=dataset.corpus,
        queries=dataset.queries,
        qrels={split: dataset.qrels(split) for split in dataset.queries},
        rules=rule_bank(dataset.rules, number),
        query_sets=dataset.query_sets,
        labels=dataset.labels,
        calendar=dataset.calendar,
        name=f"{dataset.name}-{BANKS[number]}",
        seed=dataset.seed,
    )


@dataclass(frozen=True)
class RetrievalExperiment:
    """One published table or figure.

    Args:
        title: what it shows.
        run: runs its rows on one benchmark.
        rows: the rows that its tables show.
        query_set: which queries are asked.
        benchmarks: where the paper shows it; all when empty.
    """

    title: str
    run: Callable[[Bench, Plan], Any]
    rows: tuple[str, ...] = tuple(one.name for one in ROWS)
    query_set: str = "balanced"
    benchmarks: tuple[str, ...] = ()


RETRIEVAL = {
    "table2-retrieval": RetrievalExperiment(
        "Table 2, retrieval: plain, rule-guided, SSFT and RGFT", _table2
    ),
    "figure3": RetrievalExperiment(
        "Figure 3, retrieval: answer recall by k", _figure3, benchmarks=("ruleqa-i",)
    ),
    "table4": RetrievalExperiment(
        "Table 4: retrievers of other kinds, plain and rule-guided", _table4, _PLAIN_AND_GUIDED
    ),
    "table5": RetrievalExperiment(
        "Table 5: queries that need no rule", _table5, _ROBUST, query_set="degenerate"
    ),
    "figure5": RetrievalExperiment(
        "Figure 5: rule banks that fine-tuning has not seen", _figure5, benchmarks=("ruleqa-i",)
    ),
}
