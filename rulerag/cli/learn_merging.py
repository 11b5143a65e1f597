"""The command ``learn-merging``: weights of learned merging from queries with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rulerag.assembly import experiment, learn_merge_weights, open_dataset
from rulerag.cli.common import QuietOption, check_outputs, say, show_progress


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
    config = experiment(method, changes or (), dataset=dataset)
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
