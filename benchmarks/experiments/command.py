"""The experiment matrix: which configurations make which table, run and reported by one command."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.folders import data_folder
from benchmarks.common.slurm import SlurmBackend
from benchmarks.experiments.generation.plan import ReadingPlan, run_reading_table
from benchmarks.experiments.generation.report import has_readings, report_generation
from benchmarks.experiments.generation.runs import Readers
from benchmarks.experiments.matrix.tables import PIPELINES, READINGS, RETRIEVAL, PipelineTable
from benchmarks.experiments.retrieval.plan import Plan, built_dataset, run_retrieval_table
from benchmarks.experiments.retrieval.report import has_rows, report_retrieval
from rulerag.assembly import make_pipeline, method
from rulerag.console import guarded
from rulerag.errors import ConfigError, DataError, RuleRAGError, did_you_mean
from rulerag.evaluation import load_results, results_table, run_experiment
from rulerag.io import prepare_folder, write_text
from rulerag.parallel import Backend, RayBackend, SerialBackend
from rulerag.ruleqa import GRAPHS, RuleQADataset

_METRICS = (
    "answer_recall@1",
    "answer_recall@5",
    "answer_recall@10",
    "answer_recall@10_union",
    "documents_per_query",
    "documents_per_query_union",
    "exact_match",
    "token_f1",
)


def _experiment(name: str) -> PipelineTable:
    if name not in PIPELINES:
        raise ConfigError(
            f"no experiment is called {name!r}",
            key="NAME",
            hint=did_you_mean(name, {**PIPELINES, **RETRIEVAL, **READINGS}),
        )
    return PIPELINES[name]


def _run(arguments: argparse.Namespace) -> None:
    if arguments.name in {*RETRIEVAL, *READINGS}:
        _run_tables(arguments)
        return
    experiment = _experiment(arguments.name)
    out = prepare_folder(arguments.out)
    built_dataset(out / "dataset", experiment.benchmark, arguments.data or data_folder())
    cells = [(name, chosen) for chosen in experiment.query_sets for name in experiment.methods]
    work = partial(_run_cell, out.absolute(), experiment.benchmark)
    failed = [one for one in _backend(arguments).map(work, cells) if one]
    sys.stdout.write(_tables(out, experiment))
    if failed:
        raise ConfigError(f"{len(failed)} runs failed: {'; '.join(failed)}")


def _run_cell(out: Path, benchmark: str, cell: tuple[str, str]) -> str:
    """One method on one query set; why it failed where it did.

    One back end that is not installed must not cost the other rows of the table.
    """
    name, query_set = cell
    folder = out / f"{name}-{query_set}"
    sys.stderr.write(f"{folder.name}\n")
    overrides = [f"dataset.path={out / 'dataset'}", f"dataset.query_set={query_set}"]
    config = method(name, benchmark, overrides)
    config = config.without("expected")  # which is made of this table
    started = time.perf_counter()
    try:
        dataset = RuleQADataset.load(out / "dataset")
        pipeline = make_pipeline(config, dataset)
        run_experiment(
            pipeline,
            dataset,
            dataset.query_set(query_set),
            folder,
            config=config,
            top_k=config.read("top_k", int, 10),
            seed=config.read("seed", int, 0),
            progress=sys.stderr.isatty(),
            load_seconds=time.perf_counter() - started,
        )
    except RuleRAGError as error:
        sys.stderr.write(f"failed: {error}\n")
        return f"{folder.name}: {error}"
    return ""


def _backend(arguments: argparse.Namespace) -> Backend:
    """Where the runs are made: this process, a Ray cluster or a SLURM array."""
    if arguments.slurm is not None:
        return SlurmBackend(prepare_folder(arguments.out / "slurm"), arguments.slurm)
    if address := arguments.ray or os.environ.get("RAY_ADDRESS"):
        return RayBackend(address=address)
    return SerialBackend()


def _run_tables(arguments: argparse.Namespace) -> None:
    """A published table or figure: its retrieval half, its reading half, or both."""
    out = prepare_folder(arguments.out)
    backend = _backend(arguments)
    if not isinstance(backend, SerialBackend):  # each benchmark on its own, then the report
        names = arguments.benchmarks or GRAPHS
        list(backend.map(partial(_run_benchmark, arguments), names))
    _run_plan(arguments)
    if arguments.name in RETRIEVAL:
        sys.stdout.write(report_retrieval(out, only=arguments.name))
    if arguments.name in READINGS and has_readings(out):
        sys.stdout.write(report_generation(out, only=arguments.name))


def _run_benchmark(arguments: argparse.Namespace, benchmark: str) -> None:
    _run_plan(argparse.Namespace(**{**vars(arguments), "benchmarks": [benchmark]}))


def _run_plan(arguments: argparse.Namespace) -> None:
    """Every run of a table that does not stand yet."""
    out = prepare_folder(arguments.out.absolute())
    plan = Plan(
        out=out,
        datasets=arguments.datasets or out / "datasets",
        data=arguments.data or data_folder(),
        benchmarks=tuple(arguments.benchmarks or GRAPHS),
        seeds=arguments.seeds,
        encoder=str(arguments.encoder or ""),
        rows=tuple(arguments.rows or ()),
        overrides=tuple(arguments.training or ()),
    )
    readers = Readers(
        arguments.reader,
        label=_label(arguments) if getattr(READINGS.get(arguments.name), "named", False) else "",
        training=(arguments.reader_training or [""])[0],
        overrides=tuple((arguments.reader_training or [""])[1:]),
        reading=tuple(arguments.reading or ()),
        sample=arguments.queries,
    )
    others = tuple(_other(reader, arguments.queries) for reader in arguments.other_readers or ())
    name = arguments.name
    if name in READINGS and not arguments.retrieval_only:
        if name in RETRIEVAL:
            run_retrieval_table(RETRIEVAL[name], replace(plan, rows=()))
        run_reading_table(
            READINGS[name],
            ReadingPlan(plan, readers, others, plan.rows),
            baselines=name.startswith("table"),
        )
    else:
        run_retrieval_table(RETRIEVAL[name], plan)


def _label(arguments: argparse.Namespace) -> str:
    return "".join(filter(str.isalnum, Path(arguments.reader).name))


def _other(reader: str, sample: int) -> Readers:
    label, equals, folder = reader.partition("=")
    if not equals or not label.isalnum() or not Path(folder).is_dir():
        raise ConfigError(
            f"{reader!r} names no reader",
            key="--other-readers",
            hint="NAME=FOLDER, the name of letters and digits, the folder of a model",
        )
    return Readers(folder, label, sample=sample)


def _tables(folder: Path, experiment: PipelineTable) -> str:
    """Markdown: one table a query set, in the order of the experiment's configurations."""
    parts = [f"# {experiment.title}\n"]
    for query_set in experiment.query_sets:
        places = [folder / f"{name}-{query_set}" for name in experiment.methods]
        present = [place for place in places if (place / "metrics.json").exists()]
        if not present:
            continue
        results: list[dict[str, Any]] = load_results(present)
        seconds = ", ".join(f"{r['method']} {r['seconds']['total']:.0f}" for r in results)
        table = results_table(results, _METRICS).to_markdown()
        parts.append(f"## Query set: {query_set}\n\n{table}\nSeconds: {seconds}.\n")
    if experiment.note:
        parts.append(experiment.note + "\n")
    return "\n".join(parts)


def _report(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.folder
    if has_rows(folder) or has_readings(folder):
        for stands, make in ((has_rows, report_retrieval), (has_readings, report_generation)):
            if stands(folder):
                sys.stdout.write(make(folder, arguments.save, arguments.only))
        return
    found = [p for p in PIPELINES.values() if _has_runs(folder, p)]
    if not found:
        raise DataError(
            "holds no finished run of an experiment",
            path=folder,
            hint="python -m benchmarks.experiments run ruleqa-i --out DIR",
        )
    text = "\n".join(_tables(folder, experiment) for experiment in found)
    sys.stdout.write(text)
    if arguments.save is not None:
        save = prepare_folder(arguments.save)
        for place in sorted(folder.glob("*/metrics.json")):
            target = prepare_folder(save / place.parent.name)
            shutil.copy(place, target / "metrics.json")
        write_text(save / "table.md", text)


def _has_runs(folder: Path, experiment: PipelineTable) -> bool:
    return any(
        (folder / f"{name}-{query_set}" / "metrics.json").exists()
        for name in experiment.methods
        for query_set in experiment.query_sets
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: ``run`` and ``report``."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments",
        description="Run the experiments behind a published table, or report finished runs.",
        epilog="example: python -m benchmarks.experiments run table2-retrieval --datasets runs "
        "--out runs/retrieval; one benchmark: … --benchmarks ruleqa-y",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run an experiment; resumes", epilog=parser.epilog)
    names = ", ".join(dict.fromkeys((*PIPELINES, *RETRIEVAL, *READINGS)))
    run.add_argument("name", metavar="NAME", help=f"one of {names}")
    run.add_argument("--out", required=True, type=Path, help="the folder of the runs")
    run.add_argument("--data", type=Path, help="the data folder (RULERAG_DATA)")
    run.add_argument(
        "--ray", metavar="ADDRESS", help="a Ray cluster that makes the runs (RAY_ADDRESS); local"
    )
    run.add_argument(
        "--slurm",
        nargs="*",
        metavar="KEY=VALUE",
        help="as a SLURM array, by submitit: slurm_partition=cpu timeout_min=600 …",
    )
    retrieval = run.add_argument_group("of published tables and figures")
    retrieval.add_argument("--datasets", type=Path, help="built datasets (DIR/datasets)")
    retrieval.add_argument("--benchmarks", nargs="+", metavar="NAME", help="these alone")
    retrieval.add_argument("--rows", nargs="+", metavar="ROW", help="these alone, as bm25-guided")
    retrieval.add_argument("--seeds", type=int, default=3, help="of fine-tuned rows (3)")
    retrieval.add_argument(
        "--training", nargs="+", metavar="KEY=VALUE", help="changes of the fine-tuning runs"
    )
    retrieval.add_argument("--encoder", type=Path, help="instead of the one that is installed")
    retrieval.add_argument("--retrieval-only", action="store_true", help="no reading half")
    retrieval.add_argument(
        "--reader", default="", help="a model instead of the one installed, a folder or a name"
    )
    retrieval.add_argument(
        "--reader-training",
        nargs="+",
        metavar="FILE [KEY=VALUE …]",
        help="the configuration of its fine-tuning, and changes",
    )
    retrieval.add_argument(
        "--reading", nargs="+", metavar="KEY=VALUE", help="changes of its generators: dtype=fast"
    )
    retrieval.add_argument(
        "--other-readers", nargs="+", metavar="NAME=DIR", help="further models, Tables 3 and 6"
    )
    retrieval.add_argument(
        "--queries", type=int, default=0, help="read so many of each set, by seed 0 (all)"
    )
    run.set_defaults(run=_run)
    report = commands.add_parser("report", help="print the tables of finished runs")
    report.add_argument("folder", metavar="DIR", type=Path, help="the folder of the runs")
    report.add_argument("--only", default="", metavar="NAME", help="one experiment")
    report.add_argument("--save", type=Path, help="copy tables and metrics.json here")
    report.set_defaults(run=_report)
    arguments = parser.parse_args(argv)
    return guarded(lambda: arguments.run(arguments))
