"""Commands that run systems: whole query sets, the demo, link prediction, the studio."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rulerag.assembly import FACTS_ALONE, experiment as load_experiment, make_pipeline, open_dataset
from rulerag.cli import command_line
from rulerag.cli.common import (
    Output,
    RayOptions,
    choose_queries,
    in_line,
    over_index,
    say,
    show_progress,
    spread,
    table,
)
from rulerag.composition import parse_file, parse_settings
from rulerag.console import EXIT_BAD_INPUT
from rulerag.errors import ConfigError, DataError
from rulerag.folders import output_folder


def evaluate(
    experiment: str,
    /,
    *overrides: str,
    out: Output,
    dataset: Path | None = None,
    overwrite: bool = False,
    index: Path | None = None,
    limit: int | None = None,
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Run one experiment; a rerun resumes what was interrupted.

    Args:
        experiment: a method, such as bm25-guided__symbolic, or an experiment file.
        overrides: changed settings, KEY=VALUE: every key of a component, query_set=full,
            generator=NAME ….
        out: the folder of the run.
        dataset: the dataset folder, or a benchmark: BEIR, FlashRAG, HotpotQA, WebQSP, CWQ (default:
            the experiment file's).
        overwrite: throw away another run in the folder.
        index: a folder written by `rulerag index`, used with its settings.
        limit: only the first N queries.
        cluster: where queries are answered.
        quiet: no progress bars.

    Example:
        rulerag evaluate symbolic__symbolic --dataset runs/ruleqa-i query_set=full
            --out runs/symbolic
    """
    from rulerag.evaluation import BATCH, run_experiment

    if Path(experiment).is_dir():
        raise ConfigError(
            "is a folder",
            path=experiment,
            hint="name a method, such as bm25-guided__symbolic, and the folder with --dataset",
        )
    settings = load_experiment(experiment, overrides, dataset=dataset)
    # What a file expects holds for the experiment that it states, wherever the dataset stands.
    changed = [o for o in overrides if not o.startswith(("dataset.path=", "path="))]
    if changed or limit is not None:
        settings = settings.without("expected")
    with output_folder(out):  # before anything costly is opened
        started = time.perf_counter()
        data = open_dataset(settings)
        queries = choose_queries(data, settings, limit=limit)
        data = over_index(data, index, settings)
        backend = cluster.backend()
        pipeline = (
            make_pipeline(settings, data, index=index)
            if backend is None
            else spread(settings, data, backend, index=index)
        )
        load_seconds = time.perf_counter() - started
        result = run_experiment(
            pipeline,
            data,
            queries,
            out,
            config=settings,
            top_k=settings.read("top_k", int, 10),
            seed=settings.read("seed", int, 0),
            batch_size=BATCH * (1 if backend is None else backend.workers),
            overwrite=overwrite,
            progress=show_progress(quiet),
            load_seconds=load_seconds,
        )
        page = _write_page(out, result)
    _say_metrics(Path(experiment).stem, result)
    if result["generator"] in FACTS_ALONE and not any(d.facts for d in data.corpus):
        say(
            f"no reader: the documents state no facts, which {result['generator']} needs; texts "
            "are read by a language model, generator=smollm2-135m-instruct or another of "
            "`rulerag models list`"
        )
    say(f"written to {out}; read {page}")


def _write_page(out: Path, result: dict[str, Any]) -> Path:
    """The page of a run: what was measured, how the answers ended, wrong ones beside right ones."""
    from rulerag.evaluation.page import write_report
    from rulerag.io import read_jsonl

    about = [
        *((key, in_line(value)) for key, value in result["config"].items() if key != "expected"),
        ("versions", in_line(result["versions"])),
        ("command", command_line()),
    ]
    title = " on ".join(str(result[key]) for key in ("method", "benchmark") if result[key])
    rows = list(read_jsonl(out / "predictions.jsonl"))
    page = out / "report.html"
    write_report(page, title=title, results=[result], predictions=[rows], about=about)
    return page


def _say_metrics(name: str, result: dict[str, Any]) -> None:
    """The metrics of a run, and what was expected of it."""
    from rulerag.evaluation import expected_rows, format_value

    queries = "query" if result["num_queries"] == 1 else "queries"
    say(f"{name}, {result['num_queries']:,} {queries}, {result['seconds']['total']:.1f} s")
    metrics = result["metrics"]
    table(("value", "metric"), [(format_value(key, metrics[key]), key) for key in metrics])
    for row in expected_rows(result):
        key = row["metric"]
        say(
            f"expected {key} {format_value(key, row['expected'])} "
            f"± {format_value(key, row['tolerance'])}: {'met' if row['met'] else 'NOT met'}"
            + (f" ({row['source']})" if row["source"] else "")
        )


def demo(
    *, out: Output = Path("demo-out"), facts: int = 5000, seed: int = 0, quiet: bool = False
) -> None:
    """Mine, retrieve, read and explain on embedded worlds that know their own truth.

    Args:
        out: the folder to write.
        facts: facts of each world; rules are found from 500 on.
        seed: the seed of the worlds.
        quiet: no progress bars.

    Example:
        rulerag demo --out demo-out
    """
    from rulerag.assembly import run_demo

    run_demo(out, num_facts=facts, seed=seed, progress=show_progress(quiet), say=say)


def link_prediction(
    kg: Path,
    /,
    *changes: str,
    miner: str | None = None,
    rules: Path | None = None,
    limit: int | None = None,
    out: Output | None = None,
    cluster: RayOptions = RayOptions(),
    quiet: bool = False,
) -> None:
    """Filtered MRR and Hits@1, 3 and 10 of a rule bank, both directions of every test fact.

    Args:
        kg: a graph folder with splits.
        changes: changed settings, KEY=VALUE.
        miner: amie (static) or tlogic (temporal): rules of this graph.
        rules: a rule file in any format, in place of a miner.
        limit: only the first N facts, 2 N queries.
        out: the folder for metrics.json.
        cluster: where rules are mined and applied.
        quiet: no progress bars.

    Example:
        rulerag link-prediction demo-out/temporal/world --miner tlogic --out links
    """
    from rulerag.evaluation.link_prediction import LinkPredictionSettings, evaluate_links
    from rulerag.io import write_json

    values = parse_settings(changes)
    if limit is not None:
        values["limit"] = limit
    settings = LinkPredictionSettings.read(values)
    # Made before anything costly is done; a run that fails leaves none behind.
    with output_folder(out) if out is not None else nullcontext() as folder:
        result = evaluate_links(
            kg,
            miner=miner,
            rules=rules,
            settings=settings,
            progress=show_progress(quiet),
            backend=cluster.backend(),
        )
        if folder is not None:
            write_json(folder / "metrics.json", result)
    _say_ranks(result)


def _say_ranks(result: dict[str, Any]) -> None:
    from rulerag.evaluation import markdown_table

    metrics = result["metrics"]
    say(f"{result['benchmark']}: {result['num_queries']:,} queries, {result['num_rules']:,} rules")
    titles = ("ties", "MRR", "Hits@1", "Hits@3", "Hits@10")
    rows = []
    for kind in ("", "_rounded_down", "_best", "_worst"):
        name = kind.strip("_").replace("_", " ") or "mean"
        rows.append([name, *(f"{100 * metrics[f'{one.lower()}{kind}']:.2f}" for one in titles[1:])])
    say(markdown_table(titles, rows).rstrip())
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in result["cpu_seconds"].items())
    say(f"CPU seconds: {seconds}; peak memory {result['peak_memory_mb']:.0f} MB")


# --- the studio -----


def studio(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    data: Path = Path("studio-data"),
    dataset: list[Path] | None = None,
    encoder: list[str] | None = None,
    reader: list[str] | None = None,
    run: list[Path] | None = None,
    endpoint: list[str] | None = None,
    without_token: bool = False,
) -> None:
    """The web app: ask a RAG system, see which sources made it answer so, and break it.

    Args:
        host: the address to bind; the address that is printed holds the token that is needed.
        port: the port; 0 for a free one.
        data: the folder of its sessions; systems/*.yaml in it are systems of your own.
        dataset: a benchmark folder, which becomes a system; repeatable.
        encoder: an encoder that searches the datasets as well, to compare; repeatable.
        reader: a model that reads the datasets as well, to compare; repeatable.
        run: a run folder of `rulerag evaluate` to look into; repeatable.
        endpoint: an address of this network that systems made in the studio may call; repeatable.
        without_token: anybody who uses this machine may use it, and read its sessions.

    Example:
        rulerag studio --port 8080 --data studio-data
    """
    from rulerag.studio import serve
    from rulerag.studio.systems import benchmark_system

    for folder in (*(dataset or ()), *(run or ())):  # said now, not when somebody opens it
        if not folder.is_dir():
            raise DataError("no such folder", path=folder, hint="--dataset and --run name folders")
    systems = [
        benchmark_system(one, encoders=encoder or (), readers=reader or ()) for one in dataset or ()
    ]
    serve(
        data,
        host=host,
        port=port,
        systems=systems,
        runs=run or (),
        endpoints=endpoint or (),
        guarded_by_token=not without_token,
    )


def redteam(
    suite: str,
    /,
    *,
    generator: list[str] | None = None,
    out: Output = Path("red-team"),
    data: Path = Path("studio-data"),
) -> None:
    """Attack a system in every source of every question; status 1 where it breaks.

    2 where something could not be tried; what was tried is kept, and the same command goes on.

    Args:
        suite: a system (finance, software, employees, …) or a suite's YAML file.
        generator: what answers; repeatable (default: all that are here).
        out: the folder for CSV, JSON, HTML and a pytest file.
        data: the folder of sessions; systems/*.yaml in it are systems of your own.

    Example:
        rulerag redteam finance --generator weak-reader --out red-team
    """
    from rulerag.studio.service import RedTeamSuite, Studio

    named = suite.endswith((".yaml", ".yml"))
    wanted = (
        RedTeamSuite.read(parse_file(Path(suite)), source=suite)
        if named
        else RedTeamSuite(system=suite)
    )
    application = Studio(data)
    try:
        if generator:
            wanted = wanted.model_copy(update={"generators": tuple(generator)})
        report = application.red_team(wanted, out / "cells.jsonl")
    finally:
        application.close()
    for row in report.rows():
        say(_attack_line(row))
    files = report.write(out)
    say(f"written to {', '.join(map(str, files))}")
    if report.errors:
        many = f"{len(report.errors)} of {len(report.cells)} could not be tried"
        sys.stderr.write(f"error: {many}: {report.errors[0].error}\n")
    if report.failed:
        raise SystemExit(1)
    if report.errors:  # what was not tried is no success
        raise SystemExit(EXIT_BAD_INPUT)


def _attack_line(row: Mapping[str, Any]) -> str:
    withstood = row["questions"] - row["by_itself"]
    interval = f" ({100 * row['low']:.0f}–{100 * row['high']:.0f} %)" if "low" in row else ""
    needed = f", {row['needed']} sources needed" if row["needed"] is not None else ""
    without = f", {row['by_itself']} without any attack" if row["by_itself"] else ""
    broken = f"{row['broken']} of {withstood} broken"
    return f"{row['generator']}, {row['attack']}: {broken}{interval}{needed}{without}"
