"""What the commands share: argument types, output, the pipeline behind their options."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rulerag.build import Options, make_pipeline, open_dataset
from rulerag.config import Config, load_config
from rulerag.dataset import RuleQADataset
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.pipeline import RuleRAGPipeline
from rulerag.presets import preset
from rulerag.types import Query

__all__ = ["Opened", "choose_queries", "open_pipeline", "say", "show_progress"]

RetrieverOption = Annotated[str, typer.Option(help="bm25, lucene or symbolic")]
RulesOption = Annotated[str, typer.Option(help="none or guided")]
TopKOption = Annotated[int, typer.Option(help="documents per query")]
QuerySetOption = Annotated[str, typer.Option(help="balanced, full, f_r or f_g")]
IndexOption = Annotated[
    Path | None, typer.Option(help="a folder written by `rulerag index`; built when left out")
]
LimitOption = Annotated[int | None, typer.Option(help="only the first N queries")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="no progress bars")]


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


def show_progress(quiet: bool) -> bool:
    """Progress bars are for people: not when asked to be quiet."""
    return not quiet


class Opened:
    """A dataset and the pipeline over it.

    Args:
        config: the configuration.
        dataset: the dataset.
        pipeline: the pipeline.
        load_seconds: what opening both took.
    """

    def __init__(
        self, config: Config, dataset: RuleQADataset, pipeline: RuleRAGPipeline, load_seconds: float
    ) -> None:
        self.config = config
        self.dataset = dataset
        self.pipeline = pipeline
        self.load_seconds = load_seconds


def open_pipeline(
    source: str | Path | Config,
    *,
    retriever: str = "bm25",
    rules: str = "guided",
    query_set: str = "full",
    top_k: int = 10,
    index: Path | None = None,
    progress: bool = False,
    overrides: Sequence[str] = (),
) -> Opened:
    """Open a dataset folder with a preset, or an experiment file with its own settings."""
    started = time.perf_counter()
    if isinstance(source, Config):
        config = source
    elif str(source).endswith((".yaml", ".yml")):
        config = load_config(source, overrides)
    else:
        config = preset(source, retriever=retriever, rules=rules, query_set=query_set, top_k=top_k)
    dataset = open_dataset(config)
    pipeline = make_pipeline(config, dataset, Options(index=index, progress=progress))
    return Opened(config, dataset, pipeline, time.perf_counter() - started)


def choose_queries(
    dataset: RuleQADataset,
    *,
    query_set: str = "full",
    ids: Sequence[str] = (),
    limit: int | None = None,
) -> list[Query]:
    """The queries of a set, or those with the given ids from any split, at most ``limit``.

    Raises:
        UnknownNameError: an id is unknown. ConfigError: the limit is below 1.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"{limit} is below 1", key="limit", hint="say 10")
    if not ids:
        return dataset.query_set(query_set)[:limit]
    known: dict[str, Query] = {q.id: q for rows in dataset.queries.values() for q in rows}
    for identifier in ids:
        if identifier not in known:
            raise UnknownNameError(
                f"no query has the id {identifier!r}", hint=did_you_mean(identifier, known)
            )
    return [known[identifier] for identifier in ids][:limit]


def percent(value: float | None) -> str:
    """A fraction as tables print it."""
    return "–" if value is None else f"{100 * value:.1f}"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; the first column is text, the others are aligned right."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        grid.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(str(cell) for cell in row))
    Console(markup=False, highlight=False).print(grid)
