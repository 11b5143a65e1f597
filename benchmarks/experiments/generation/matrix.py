"""The generator experiments: Tables 2 to 6 and Figures 3 to 6 of RuleRAG with small readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.baselines.runs import run_baselines
from benchmarks.experiments.generation.rows import (
    FT,
    READING,
    Paper,
    ReadingRow,
    finder_training,
    reading_row,
)
from benchmarks.experiments.generation.runs import Readers, run_reading, train_reader
from benchmarks.experiments.generation.weights import tuned_weight
from benchmarks.experiments.retrieval.matrix import (
    BANKS,
    RETRIEVAL,
    Plan,
    run_bank_training,
    taking_bank,
)
from benchmarks.experiments.retrieval.runs import Bench, train

__all__ = ["DEPTHS", "GENERATION", "GenerationPlan", "run_generation"]

DEPTHS = (1, 2, 5, 10)
"""The k of Figure 3; BM25 is asked for 20 too."""
_DEEP = 20
FIGURE3 = ("dense", "dense-ssft", "dense-guided-rgft-learned", "bm25", "bm25-guided-learned")
TABLE3 = (
    "dense__llama",
    "dense-pooled__llama",
    "dense-guided__llama-guided",
    "dense-pooled-ssft-learned__llama-ssft",
    FT,
)
"""Standard RAG, then each way to use rules behind the same without them."""
SYMBOLIC3 = (
    "dense__symbolic",
    "dense-guided-learned__symbolic",
    "dense-guided-rgft-learned__symbolic",
)
TABLE4 = (
    "bm25__llama",
    "bm25-pooled__llama",
    "bm25-guided__llama",
    "bm25-guided__llama-guided",
)
TABLE5 = TABLE3
TABLE6 = ("bm25__llama", "bm25-pooled__llama", "bm25-guided__llama-guided")
SYMBOLIC6 = ("bm25__symbolic", "bm25-guided__symbolic")
BANKED = "dense-guided-rgft__llama-rgft"
"""The row of Figure 5: merging is learned with the whole of R, and would know every bank."""
FULL = ("symbolic__symbolic", "bm25-guided-learned__candidate", FT)
"""Rows that are asked every query of a benchmark too, with the first seed."""


@dataclass(frozen=True)
class GenerationPlan:
    """What to run and where.

    Args:
        retrieval: folders, benchmarks, and how the retrieval half is run.
        readers: the language model of every table.
        others: further language models, for Tables 3 and 6 and Figure 6.
        rows: run these rows alone in place of Table 2's; those when empty.
    """

    retrieval: Plan
    readers: Readers = field(default_factory=Readers)
    others: tuple[Readers, ...] = ()
    rows: tuple[str, ...] = ()


def run_generation(name: str, plan: GenerationPlan) -> None:
    """Run an experiment of :data:`GENERATION`; finished parts are not repeated.

    A table begins with the baselines that need no system, on its queries.
    """
    for one in plan.rows:
        reading_row(one)  # a name that is wrong shall be told before any work
    experiment = GENERATION[name]
    for benchmark in experiment.benchmarks or plan.retrieval.benchmarks:
        bench = plan.retrieval.bench(benchmark)
        if name.startswith("table"):
            easy = experiment.query_set == "degenerate"
            asked = plan.retrieval.degenerate(bench) if easy else bench
            run_baselines(asked, "balanced" if easy else experiment.query_set)
        experiment.run(bench, plan)


def read_row(
    bench: Bench,
    plan: GenerationPlan,
    name: str,
    *,
    readers: Readers | None = None,
    asked: Bench | None = None,
    seed: int = 0,
    **options: Any,
) -> None:
    """Fine-tune what a row needs, then run it; ``asked`` has other queries."""
    row, readers = reading_row(name), readers or plan.readers
    _train_finder(bench, row, seed)
    if row.training:
        train_reader(bench, readers, row.training, seed)
    if name.endswith("__hybrid"):
        weight = tuned_weight(bench, row, readers, seed)
        readers = replace(readers, weights=((f"{bench.name}/{name}", weight),))
    run_reading(asked or bench, row, readers, seed=seed, **options)


def _train_finder(bench: Bench, row: ReadingRow, seed: int = 0) -> None:
    if finder_training(row):
        train(bench, finder_training(row), seed)


def _table2(bench: Bench, plan: GenerationPlan) -> None:
    wanted = list(_cheap_first([reading_row(name) for name in plan.rows] or READING))
    for seed in range(plan.retrieval.seeds):
        for row in wanted:
            if seed == 0 or row.training or finder_training(row):
                read_row(bench, plan, row.name, seed=seed)


def _full(bench: Bench, plan: GenerationPlan) -> None:
    for name in FULL:
        if not plan.rows or name in plan.rows:
            read_row(bench, plan, name, query_set="full")


def _cheap_first(rows: Sequence[ReadingRow]) -> Iterator[ReadingRow]:
    """The rows that need no fine-tuned reader come first, so that a table stands early."""
    yield from sorted(rows, key=lambda row: bool(row.training) + 2 * bool(row.sample))


def _table3(bench: Bench, plan: GenerationPlan) -> None:
    for readers in (plan.readers, *plan.others):
        for name in TABLE3:
            read_row(bench, plan, name, readers=readers)
    for name in SYMBOLIC3:
        read_row(bench, plan, name)


def _table4(bench: Bench, plan: GenerationPlan) -> None:
    for name in TABLE4:
        read_row(bench, plan, name)


def _table5(bench: Bench, plan: GenerationPlan) -> None:
    easy = plan.retrieval.degenerate(bench)
    for name in TABLE5:
        read_row(bench, plan, name, asked=easy)


def _table6(bench: Bench, plan: GenerationPlan) -> None:
    for readers in plan.others:
        for name in TABLE6:
            read_row(bench, plan, name, readers=readers)
    for name in SYMBOLIC6:
        read_row(bench, plan, name)


def _figure3(bench: Bench, plan: GenerationPlan) -> None:
    train_reader(bench, plan.readers, "rgft", 0)
    for name in FIGURE3:
        row = reading_row(f"{name}__llama-rgft")
        _train_finder(bench, row)
        for k in (*DEPTHS, *((_DEEP,) if name == "bm25" else ())):
            run_reading(bench, row, plan.readers, overrides=[f"top_k={k}"], tag=f"-top{k}")


def _figure4(bench: Bench, plan: GenerationPlan) -> None:
    """The growth is kept with the training runs of Table 2."""
    train_reader(bench, plan.readers, "rgft", 0)


def _figure5(bench: Bench, plan: GenerationPlan) -> None:
    """Both halves fine-tuned with one bank, asked with another; standard RAG beside it."""
    read_row(bench, plan, "dense__llama")
    row = reading_row(BANKED)
    for learned in BANKS:
        folder = run_bank_training(bench, plan.retrieval, learned)
        changes = [f"dataset.path={folder}"]
        train_reader(bench, plan.readers, "rgft", 0, bank=learned, overrides=changes)
        for asked in BANKS:
            run_reading(
                bench,
                row,
                plan.readers,
                bank=learned,
                tag=f"-{learned}-{asked}",
                found_tag=f"-{learned}-{asked}",
                rules=taking_bank(asked),
            )


def _figure6(bench: Bench, plan: GenerationPlan) -> None:
    for readers in (plan.readers, *plan.others):
        train_reader(bench, readers, "rgft", 0)


@dataclass(frozen=True)
class GenerationExperiment:
    """One published table or figure.

    Args:
        title: what it shows.
        run: runs its rows on one benchmark.
        rows: the rows that its table shows.
        omitted: what the paper shows and this does not, and why.
        query_set: which queries are asked.
        benchmarks: where the paper shows it; all when empty.
        papers: the paper's row beside a row; those of Table 2 when None.
    """

    title: str
    run: Callable[[Bench, GenerationPlan], Any]
    rows: tuple[str, ...] = ()
    omitted: str = ""
    query_set: str = "balanced"
    benchmarks: tuple[str, ...] = ()
    papers: Mapping[str, Paper] | None = None


def _papers(table: str, retriever: str, generator: str, *rows: str) -> dict[str, Paper]:
    """The paper's rows beside ours: standard RAG, ICL, and FT where a third is given."""
    methods = (
        ("Standard RAG", retriever, generator),
        ("RuleRAG-ICL", f"RG-{retriever}", f"RG-{generator}"),
        ("RuleRAG-FT", f"RGFT-{retriever}", f"RGFT-{generator}"),
    )
    return {row: (table, *method) for row, method in zip(rows, methods, strict=False)}


_NO_LLM = (
    "ChatGLM2-6B, Mistral-7B, LLaMA2-13B and GPT-3.5-Turbo cannot be had here (no weights, no "
    "network, no GPU). In their place: the small reader at another stage of its training (a "
    "stronger and a weaker reader of one architecture, as 13B and 7B are) and the symbolic reader, "
    "which is no language model. 3-shot prompts (GPT-3.5-Turbo) are left out: the small reader has "
    "one form of prompt, which shows no cases."
)
GENERATION = {
    "table2": GenerationExperiment(
        "Table 2: all rows with the small reader",
        _table2,
        tuple(row.name for row in READING),
        "LLaMA2-7B and DPR cannot be had here: rulerag-nano-llama (1.3 M parameters) and "
        "rulerag-nano-encoder stand in their place; the paper's figures are those of its own "
        "models, queries and corpora.",
    ),
    "table2-full": GenerationExperiment(
        "Table 2: every query of the benchmarks",
        _full,
        FULL,
        "The paper's figures are those of its own queries. One seed.",
        query_set="full",
    ),
    "table3": GenerationExperiment(
        "Table 3: other readers",
        _table3,
        (*TABLE3, *SYMBOLIC3),
        f"{_NO_LLM} The paper's figures are those of LLaMA2-13B.",
        papers=_papers("3", "DPR", "LLAMA2_13B", TABLE3[0], TABLE3[2], FT),
    ),
    "table4": GenerationExperiment(
        "Table 4: another retriever without training",
        _table4,
        TABLE4,
        "Contriever cannot be had here; BM25 stands in its place. ChatGLM2-6B and GPT-3.5-Turbo "
        "are left out for the same reason, other readers are in Table 6. The paper's figures are "
        "those of Contriever and LLaMA2-7B.",
        papers={
            **_papers("4", "Contriever", "LLAMA2_7B", TABLE4[0], TABLE4[3]),
            TABLE4[2]: ("4", "RuleRAG-ICL", "RG-Contriever", "LLAMA2_7B"),
        },
    ),
    "table5": GenerationExperiment(
        "Table 5: queries that need no rule",
        _table5,
        TABLE5,
        query_set="degenerate",
        papers=_papers("5", "DPR", "LLAMA2_7B", TABLE5[0], TABLE5[2], FT),
    ),
    "table6": GenerationExperiment(
        "Table 6: another retriever and other readers",
        _table6,
        (*TABLE6, *SYMBOLIC6),
        f"{_NO_LLM} BM25 stands in Contriever's place. The paper's figures are those of "
        "Contriever and LLaMA2-13B.",
        papers=_papers("6", "Contriever", "LLAMA2_13B", TABLE6[0], TABLE6[2]),
    ),
    "figure3": GenerationExperiment(
        "Figure 3: exact match by the number of documents",
        _figure3,
        FIGURE3,
        "SimCSE cannot be had here. The reader is the RGFT reader throughout, as in the paper.",
        benchmarks=("ruleqa-i",),
    ),
    "figure4": GenerationExperiment(
        "Figure 4: exact match by eighths of fine-tuning",
        _figure4,
        omitted="Measured on queries of F_G that are kept out of fine-tuning, after every eighth "
        "of the steps of Table 2's own runs; the first point is the reader before fine-tuning.",
    ),
    "figure5": GenerationExperiment(
        "Figure 5: rule banks that fine-tuning has not seen",
        _figure5,
        omitted="Retriever and reader are fine-tuned with the row's quarter of R and asked with "
        "the column's.",
        benchmarks=("ruleqa-i",),
    ),
    "figure6": GenerationExperiment(
        "Figure 6: two readers by eighths of fine-tuning",
        _figure6,
        omitted=_NO_LLM,
        benchmarks=("ruleqa-i",),
    ),
}
"""By name; those that are in ``RETRIEVAL`` of the retrieval half too run both."""

assert set(GENERATION) >= set(RETRIEVAL) - {"table2-retrieval"}  # noqa: S101
