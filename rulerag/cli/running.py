"""Commands over whole query sets: ``evaluate``, ``demo`` and ``learn-merging``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.assembly import experiment as load_experiment
from rulerag.assembly import learn_merge_weights, open_dataset
from rulerag.cli.common import (
    FACTS_ALONE,
    IndexOption,
    LimitOption,
    QuietOption,
    check_outputs,
    choose_queries,
    command_line,
    in_line,
    open_pipeline,
    say,
    show_progress,
    table,
)
from rulerag.errors import ConfigError


def evaluate(
    experiment: Annotated[
        str,
        typer.Argument(help="a method, such as bm25-guided__symbolic, or an experiment file"),
    ],
    out: Annotated[Path, typer.Option(help="the folder of the run")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="changed settings: every key of a component, query_set=full, generator=NAME …",
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="the dataset folder, or a benchmark: BEIR, FlashRAG, HotpotQA, WebQSP, CWQ "
            "(default: the experiment file's)"
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="throw away another run in the folder")
    ] = False,
    index: IndexOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
) -> None:
    """Run one experiment; a rerun resumes what was interrupted."""
    from rulerag.evaluation import run_experiment
    from rulerag.output_folder import output_folder

    if Path(experiment).is_dir():
        raise ConfigError(
            "is a folder",
            path=experiment,
            hint="name a method, such as bm25-guided__symbolic, and the folder with --dataset",
        )
    settings = load_experiment(experiment, overrides or (), dataset=dataset)
    # What a file expects holds for the experiment that it states, wherever the dataset stands.
    changed = [o for o in overrides or () if not o.startswith(("dataset.path=", "path="))]
    if changed or limit is not None:
        settings = settings.without("expected")
    with output_folder(out):  # before anything costly is opened
        opened = open_pipeline(
            settings, lambda dataset: choose_queries(dataset, settings, limit=limit), index=index
        )
        result = run_experiment(
            opened.pipeline,
            opened.dataset,
            opened.queries,
            out,
            config=settings,
            top_k=opened.pipeline.top_k,
            seed=settings.read("seed", int, 0),
            overwrite=overwrite,
            progress=show_progress(quiet),
            load_seconds=opened.load_seconds,
        )
        page = _write_page(out, result)
    _tell(Path(experiment).stem, result)
    if result["generator"] in FACTS_ALONE and not any(d.facts for d in opened.dataset.corpus):
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


def _tell(name: str, result: dict[str, Any]) -> None:
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
    out: Annotated[Path, typer.Option(help="the folder to write")] = Path("demo-out"),
    facts: Annotated[
        int, typer.Option(help="facts of each world; rules are found from 500 on")
    ] = 5000,
    seed: Annotated[int, typer.Option(help="the seed of the worlds")] = 0,
    quiet: QuietOption = False,
) -> None:
    """Mine, retrieve, read and explain on embedded worlds that know their own truth."""
    from rulerag.assembly import run_demo

    run_demo(out, num_facts=facts, seed=seed, progress=show_progress(quiet), say=say)


def learn_merging(
    method: Annotated[
        str, typer.Argument(help="a method or a file with rule-guided or pooled retrieval")
    ],
    out: Annotated[Path, typer.Option(help="the file to write")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="changes of it")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="the dataset folder (a file states its own)")
    ] = None,
    query_set: Annotated[str, typer.Option(help="whose queries")] = "balanced",
    queries: Annotated[int, typer.Option(help="so many at most; 0 for all")] = 0,
    quiet: QuietOption = False,
) -> None:
    """Learn how the searches of rule-guided retrieval are merged.

    The queries must not be those of a test: take a validation variant. The weights are used by
    `retriever.merge=learned retriever.weights=FILE`.
    """
    check_outputs(out)
    config = load_experiment(method, changes or (), dataset=dataset)
    weights = learn_merge_weights(
        config,
        open_dataset(config),
        query_set=query_set,
        max_queries=queries,
        progress=show_progress(quiet),
    )
    weights.save(out)
    about = weights.about
    say(
        f"recall@10 of candidates on {about['queries']:,} queries: "
        f"{100 * about['recall@10 at the start']:.1f} before, "
        f"{100 * about['recall@10 cross-validated']:.1f} cross-validated, "
        f"{100 * about['candidates_hold_an_answer']:.1f} at most; written to {out}"
    )
