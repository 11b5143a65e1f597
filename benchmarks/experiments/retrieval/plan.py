"""Runs the retrieval half of a table or figure: its rows, its fusions, its rule banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.common.bench import Bench, tell
from benchmarks.experiments.matrix.rows import FUSIONS, row
from benchmarks.experiments.matrix.tables import RetrievalTable
from benchmarks.experiments.retrieval.fusion import run_fusion
from benchmarks.experiments.retrieval.runs import Rules, run_row, train
from rulerag.errors import ConfigError, DataError, did_you_mean
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import BENCHMARKS, GRAPHS, DatasetInfo, RuleQADataset, build
from rulerag.rules import RuleBank


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
        return built_dataset(folder, name, self.data, variant)


def built_dataset(folder: Path, name: str, data: Path, variant: str = "test") -> Path:
    """The folder of a benchmark, which is built there first when it is missing or incomplete.

    Raises:
        DataError: its graph is missing too.
    """
    if not (folder / "manifest.json").exists():
        graph = data / GRAPHS[name]
        if not graph.is_dir():
            raise DataError(
                "the graph folder is not here",
                path=graph,
                hint="name the data folder with --data, or built datasets with --datasets",
            )
        tell(f"building {name} from {graph}")
        made = build(name, KnowledgeGraph.load(graph), settings=BENCHMARKS[name], variant=variant)
        made.save(folder)
    return folder


def run_retrieval_table(table: RetrievalTable, plan: Plan) -> None:
    """Run a table or figure; finished parts are not repeated."""
    for name in plan.rows:
        row(name)  # a wrong name is an error before any work
    for benchmark in table.benchmarks or plan.benchmarks:
        bench = plan.bench(benchmark)
        _run_rows(bench, plan, table)
        if table.fusions:
            _run_fusions(bench, plan)
        if table.banks:
            _run_banks(bench, plan, table)


def _run_rows(bench: Bench, plan: Plan, table: RetrievalTable) -> None:
    """Run rows seed by seed, so that a table is complete early."""
    asked = plan.degenerate(bench) if table.query_set == "degenerate" else bench
    rows = [row(name) for name in table.run if not plan.rows or name in plan.rows]
    for seed in range(plan.seeds):
        for one in rows:
            if one.training:
                train(bench, one.training, seed)
            if one.training or seed == 0:
                run_row(asked, one, "balanced", seed=seed)


def _run_fusions(bench: Bench, plan: Plan) -> None:
    """Fuse the rows that are finished."""
    for members in FUSIONS:
        rows = [row(name) for name in members]
        for seed in range(plan.seeds if any(one.training for one in rows) else 1):
            places = [bench.place(o.name, "balanced", seed if o.training else 0) for o in rows]
            if all((place.parent / f"{place.name}.json").exists() for place in places):
                run_fusion(bench, rows, "balanced", seed=seed)


def _run_banks(bench: Bench, plan: Plan, table: RetrievalTable) -> None:
    """Fine-tuned with one bank, retrieved with another."""
    banked = row(table.banked)
    for learned in table.banks:
        train_bank(bench, plan.out, learned, table.banks)
        one = replace(banked, training=f"{banked.training}-{learned}")
        for used in table.banks:
            rules = taking_bank(used, table.banks)
            run_row(bench, one, "balanced", tag=f"-{learned}-{used}", rules=rules)


def train_bank(bench: Bench, out: Path, bank: str, banks: Sequence[str]) -> Path:
    """Fine-tune a retriever with one bank unless it is finished; return the bank's dataset.

    Args:
        bench: the benchmark.
        out: the folder of the runs.
        bank: the bank.
        banks: all of them.
    """
    folder = out / "banks" / f"{bench.name}-{bank}"
    if not (folder / "manifest.json").exists():
        taking_bank(bank, banks)(bench.dataset).save(folder)
    train(bench, f"rgft-{bank}", 0, [f"dataset.path={folder}"])
    return folder


def taking_bank(bank: str, banks: Sequence[str]) -> Rules:
    """What gives a dataset with the rules of one bank alone.

    Args:
        bank: the bank.
        banks: all of them, disjoint parts of the rules.
    """

    def taken(dataset: RuleQADataset) -> RuleQADataset:
        return RuleQADataset(
            corpus=dataset.corpus,
            queries=dataset.queries,
            qrels={split: dataset.qrels(split) for split in dataset.queries},
            rules=rule_bank(dataset.rules, banks.index(bank), len(banks)),
            query_sets=dataset.query_sets,
            labels=dataset.labels,
            info=DatasetInfo(f"{dataset.name}-{bank}", dataset.calendar, dataset.seed),
        )

    return taken


def rule_bank(rules: RuleBank, number: int, parts: int = 4) -> RuleBank:
    """One of some disjoint parts of a rule bank, the rules of every head dealt out in turn.

    Args:
        rules: the whole bank.
        number: which, from 0.
        parts: how many.
    """
    dealt = []
    for head in sorted(rules.head_relations):
        mine = sorted(rules.for_head(head), key=lambda rule: rule.id)
        order = np.random.default_rng([0, len(mine)]).permutation(len(mine))
        dealt += [mine[n] for n in order[number::parts]]
    return RuleBank(dealt)
