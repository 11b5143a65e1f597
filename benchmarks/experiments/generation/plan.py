"""Runs the reading half of a table or figure: its steps, its rule banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.baselines.runs import run_baselines
from benchmarks.common.bench import Bench
from benchmarks.experiments.generation.runs import Banks, Readers, run_reading_row, train_reader
from benchmarks.experiments.generation.weights import tuned_weight
from benchmarks.experiments.matrix.rows import READING, ReadingRow, reading_row
from benchmarks.experiments.matrix.tables import ReadingTable, Step
from benchmarks.experiments.retrieval.plan import Plan, taking_bank, train_bank
from benchmarks.experiments.retrieval.runs import train


@dataclass(frozen=True)
class ReadingPlan:
    """What to run and where.

    Args:
        retrieval: folders, benchmarks, and how the retrieval half is run.
        readers: the language model of every table.
        others: further language models, for Tables 3 and 6 and Figure 6.
        rows: run these rows alone, of those of a step; any row in place of all of Table 2's.
    """

    retrieval: Plan
    readers: Readers = field(default_factory=Readers)
    others: tuple[Readers, ...] = ()
    rows: tuple[str, ...] = ()

    def read_with(self, step: Step) -> tuple[Readers, ...]:
        """The language models of a step."""
        own = () if step.readers == "others" else (self.readers,)
        return own if step.readers == "own" else (*own, *self.others)


def run_reading_table(table: ReadingTable, plan: ReadingPlan, *, baselines: bool = False) -> None:
    """Run a table or figure; finished parts are not repeated.

    Args:
        table: what is run.
        plan: where, and with which readers.
        baselines: run those that need no system first, on the same queries.
    """
    for name in plan.rows:
        reading_row(name)  # a wrong name is an error before any work
    for benchmark in table.benchmarks or plan.retrieval.benchmarks:
        bench = plan.retrieval.bench(benchmark)
        easy = table.query_set == "degenerate"
        asked = plan.retrieval.degenerate(bench) if easy else bench
        query_set = "balanced" if easy else table.query_set
        if baselines:
            run_baselines(asked, query_set)
        for step in table.steps:
            _run_step(bench, asked, plan, step, query_set)
        if table.banks:
            _run_banks(bench, plan, table)


def _run_step(bench: Bench, asked: Bench, plan: ReadingPlan, step: Step, query_set: str) -> None:
    if step.train:
        for readers in plan.read_with(step):
            train_reader(bench, readers, step.train, 0)
        return
    rows = _rows(step, plan)
    for readers in plan.read_with(step):
        for seed in range(plan.retrieval.seeds if step.seeds else 1):
            for row in rows:
                if seed == 0 or row.training or row.retriever_training:
                    for k in step.top_k or (0,):
                        read_row(
                            bench,
                            row,
                            readers,
                            asked=asked,
                            query_set=query_set,
                            seed=seed,
                            top_k=k,
                        )


def _rows(step: Step, plan: ReadingPlan) -> list[ReadingRow]:
    """The rows of a step that the plan runs; all of Table 2's with what is cheap first."""
    if step.rows:
        return [reading_row(n) for n in step.rows if not plan.rows or n in plan.rows]
    rows: Sequence[ReadingRow] = [reading_row(name) for name in plan.rows] or READING
    return sorted(rows, key=lambda row: bool(row.training) + 2 * bool(row.sample))


def read_row(
    bench: Bench,
    row: ReadingRow,
    readers: Readers,
    *,
    asked: Bench | None = None,
    query_set: str = "balanced",
    seed: int = 0,
    top_k: int = 0,
) -> dict[str, Any]:
    """Fine-tune what a row needs, then run it; return the record.

    Args:
        bench: the benchmark that is fine-tuned on.
        row: the row.
        readers: the language model.
        asked: the benchmark with the queries that are read, where it is another.
        query_set: which of its queries.
        seed: of what is fine-tuned.
        top_k: documents read; as the method says when 0.
    """
    if row.retriever_training:
        train(bench, row.retriever_training, seed)
    if row.training:
        train_reader(bench, readers, row.training, seed)
    if row.reader == "hybrid":
        weight = tuned_weight(bench, row, readers, seed)
        readers = replace(readers, weights=((f"{bench.name}/{row.name}", weight),))
    overrides = [f"top_k={top_k}"] if top_k else []
    tag = f"-top{top_k}" if top_k else ""
    return run_reading_row(
        asked or bench, row, readers, query_set, seed=seed, overrides=overrides, tag=tag
    )


def _run_banks(bench: Bench, plan: ReadingPlan, table: ReadingTable) -> None:
    """Both halves fine-tuned with one bank, retrieval and reading with another."""
    row = reading_row(table.banked)
    for learned in table.banks:
        folder = train_bank(bench, plan.retrieval.out, learned, table.banks)
        changes = [f"dataset.path={folder}"]
        train_reader(bench, plan.readers, row.training, 0, bank=learned, overrides=changes)
        for used in table.banks:
            banks = Banks(learned, used, taking_bank(used, table.banks))
            run_reading_row(bench, row, plan.readers, banks=banks)
