"""What the commands share: types of arguments, output, options of graphs and of pipelines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from rulerag.assembly import (
    SpreadPipeline,
    experiment,
    fragments,
    is_variant,
    make_pipeline,
    make_retriever,
    make_selector,
    open_dataset,
    preset,
)
from rulerag.cache import remembered_fingerprint
from rulerag.composition import Config, check_range
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.generation.huggingface import NANO_LLAMA
from rulerag.io import STANDARD_OUTPUT, StoredRecords, check_output
from rulerag.kg import KnowledgeGraph, Phrases
from rulerag.linking import LinkedQuestion
from rulerag.parallel import RayBackend
from rulerag.pipeline import RuleRAGPipeline
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Query

CORPUS = "corpus.jsonl"
"""The documents, in a dataset and in an index of texts of one's own."""
SHOWN = 5
"""Answers or explanations printed one by one; the rest goes to files alone."""


def _check_no_option(_type: Any, value: Path | None) -> None:
    if value is not None and str(value).startswith("-") and value != STANDARD_OUTPUT:
        raise ValueError(f"expected a file, found the option {value}")


Output = Annotated[Path, Parameter(allow_leading_hyphen=True, validator=_check_no_option)]
"""A file or folder to write; ``-`` is standard output."""


# --- output -----


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


def percent(value: float | None) -> str:
    """A fraction as tables print it."""
    return "–" if value is None else f"{100 * value:.1f}"


def in_line(value: object) -> str:
    """A setting on one line: ``type bm25, k1 0.9``; what is not set is left out."""
    if not isinstance(value, Mapping):
        return str(value)
    parts = [f"{key} {in_line(part)}" for key, part in value.items() if part is not None]
    return ", ".join(parts) or "as by default"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns without frames, each as wide as its widest cell; nothing is cut or folded.

    The last column is text and reaches as far as it must; the others are numbers and stand right.
    """
    lines = [tuple(columns), *map(tuple, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)][:-1]
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=False)]
        say("  ".join([*cells, line[-1]]).rstrip())


def show_progress(quiet: bool) -> bool:
    """Progress bars are for people: not when asked to be quiet, nor in a file or a pipe."""
    return not quiet and sys.stderr.isatty()


def check_outputs(*files: Path | None) -> None:
    """Refuse, before any work is done, a file that could not be written after it.

    Nothing is made: a run that fails leaves no empty folder.

    Raises:
        OutputError: a file's folder cannot be written, or a folder has the file's name.
        ConfigError: two of them are standard output.
    """
    if files.count(STANDARD_OUTPUT) > 1:
        raise ConfigError("two outputs would be mixed on standard output", key="out")
    for file in files:
        if file is not None:
            check_output(file)


# --- options -----


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """How a graph's files are read.

    Args:
        layout: how the files are laid out.
        columns: of a table: subject=NAME,relation=NAME,object=NAME,time=NAME (time=none: undated);
            without a header hrt, rht or htr, where the names do not tell their order.
        dates: of a table: day-first or month-first, where dates may be either.
    """

    layout: str = "auto"
    columns: str | None = None
    dates: str | None = None

    def load(self, path: Path) -> KnowledgeGraph:
        """The graph of a folder or a file."""
        return KnowledgeGraph.load(path, layout=self.layout, columns=self.columns, dates=self.dates)

    @property
    def stated(self) -> dict[str, str]:
        """The options that are not as by default, by name."""
        values = {key: getattr(self, key) for key in ("layout", "columns", "dates")}
        return {key: value for key, value in values.items() if value not in (None, "auto")}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RetrievalOptions:
    """How documents are found; None where an option is not given.

    An experiment file can then refuse the options that it decides itself.

    Args:
        rules: guided or none (default guided; of retrieve alone none, but symbolic is guided).
        top_k: documents per query (default 10).
        query_set: balanced, full, f_r or f_g (default full, or the experiment's).
        index: a folder written by `rulerag index`, used with its settings.
        encoder: of dense retrieval: a folder or Hub name (default: the one installed).
        fusion: fuse the guided list with the plain: rrf or weighted.
    """

    retriever: Annotated[
        str | None,
        Parameter(
            help=f"{', '.join(fragments('retrievers'))} (default bm25), or one of the tables as it "
            "stands there, such as bm25-scored."
        ),
    ] = None
    rules: str | None = None
    top_k: int | None = None
    query_set: str | None = None
    index: Path | None = None
    encoder: str | None = None
    fusion: str | None = None

    def config(
        self, place: Path, *, rules: str = "guided", model_settings: Mapping[str, Any] | None = None
    ) -> Config:
        """The configuration of an experiment file, or the preset of a dataset folder.

        Args:
            place: the file or the folder.
            rules: what a text retriever does where no option says it.
            model_settings: see :func:`rulerag.assembly.preset`.

        Raises:
            ConfigError: an option that an experiment decides itself, or one that is wrong.
        """
        chosen = {key: value for key, value in vars(self).items() if value is not None}
        index, query_set = chosen.pop("index", None), chosen.pop("query_set", None)
        chosen.pop("language_model", None)  # it reads the question alone
        if is_experiment(place):
            if chosen:
                raise ConfigError(
                    f"the experiment file {place} decides this itself",
                    key=next(iter(chosen)),
                    hint="leave the option out, or name a dataset folder",
                )
            return experiment(place, [f"dataset.query_set={query_set}"] if query_set else [])
        ruled = self.retriever == "symbolic" or is_variant(self.retriever or "")
        chosen.setdefault("rules", "guided" if ruled else rules)
        chosen["model_settings"] = model_settings
        config = preset(place, query_set=query_set or "full", **chosen)
        if index is None:
            return config
        # An index keeps the settings that it was built with.
        values = config.to_dict()
        return Config({**values, "retriever": _without_index_settings(values["retriever"])})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PipelineOptions(RetrievalOptions):
    """How documents are found and read.

    Args:
        language_model: weighs what a question in your own words may mean: smollm2-135m-instruct or
            another model that runs here.
    """

    generator: Annotated[
        str | None,
        Parameter(
            help=f"{', '.join(fragments('generators'))} (default symbolic), a model (folder or Hub "
            "name; rulerag-nano-llama is installed), or a YAML file with a section `generator`."
        ),
    ] = None
    language_model: str | None = None


def _without_index_settings(section: dict[str, Any]) -> dict[str, Any]:
    """Settings of a retriever, those that an index on disk decides left out."""
    if "retriever" in section:
        return {**section, "retriever": _without_index_settings(section["retriever"])}
    if "retrievers" in section:
        parts = [_without_index_settings(part) for part in section["retrievers"]]
        return {**section, "retrievers": parts}
    return {key: section[key] for key in ("type", "encoder") if key in section}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Where work is spread.

    Args:
        ray: a Ray cluster that works, by its address; local starts one here (default:
            RAY_ADDRESS, else this process works).
    """

    ray: str | None = None

    def backend(self, workers: int | None = None) -> RayBackend | None:
        """The workers of the cluster; None where there is none.

        Args:
            workers: how many.

        Raises:
            RuleRAGError: no Ray cluster can be used there.
        """
        address = self.ray or os.environ.get("RAY_ADDRESS")
        if not address:
            return None
        from rulerag.parallel import RayBackend

        return RayBackend(workers, address=address)


# --- datasets, queries and pipelines -----


def spread(
    config: Config,
    data: RuleQADataset,
    backend: RayBackend,
    *,
    index: Path | None = None,
    keep_union: bool = True,
    progress: bool = False,
) -> SpreadPipeline:
    """The pipeline of a configuration, on a cluster.

    Args:
        config: what it is built by.
        data: its dataset; vectors of its corpus are made first, spread over the cluster.
        backend: the cluster; those of its workers that run a model have a GPU where there is one.
        index: a built index.
        keep_union: see :func:`rulerag.assembly.make_pipeline`.
        progress: show progress bars.
    """
    models = backend.with_gpus() if _has_model(config.to_dict()) else backend
    if index is None and _has_model(config.section("retriever").to_dict()):
        selector = make_selector(config, data.rules, data)
        make_retriever(config, data, selector, progress=progress, backend=models)
    build = partial(_open_copy, Path.cwd(), config, index, keep_union)
    return SpreadPipeline(build, models)


def _has_model(section: Mapping[str, Any]) -> bool:
    parts = (part for part in section.values() if isinstance(part, Mapping))
    own = section.get("type") == "dense" or "model" in section
    return own or any(map(_has_model, parts))


def _open_copy(
    folder: Path, config: Config, index: Path | None, keep_union: bool
) -> RuleRAGPipeline:
    """A pipeline in a worker, its paths read as from the folder of the command."""
    if folder.is_dir():
        os.chdir(folder)
    data = over_index(open_dataset(config), index, config)
    return make_pipeline(config, data, index=index, keep_union=keep_union)


@dataclass(frozen=True)
class QueryRun:
    """Queries, and the pipeline that answers them.

    Args:
        config: what the pipeline is built by.
        dataset: the dataset that it searches.
        queries: the queries to ask.
        pipeline: the pipeline; on a cluster a :class:`SpreadPipeline`, which answers alone.
        understood: what a question in one's own words was taken to mean; None for any other.
    """

    config: Config
    dataset: RuleQADataset
    queries: list[Query]
    pipeline: RuleRAGPipeline
    understood: LinkedQuestion | None = None

    @property
    def phrases(self) -> Phrases | None:
        """How rules are said in words; None for the paper's form.

        A question in one's own words is answered in words; else rules are in words where the
        dataset has templates of its own.
        """
        words = self.dataset.templates or self.understood is not None
        return self.dataset.phrases if words else None


def is_experiment(place: str | Path) -> bool:
    """Whether a path is that of an experiment file."""
    return str(place).endswith((".yaml", ".yml"))


def choose_queries(
    dataset: RuleQADataset, config: Config, *, ids: Sequence[str] = (), limit: int | None = None
) -> list[Query]:
    """The queries of the configured set, or those with the given ids from any split.

    Args:
        dataset: the dataset.
        config: names the query set.
        ids: query ids, asked in this order.
        limit: only the first so many.

    Raises:
        UnknownNameError: an id is unknown. ConfigError: the limit is below 1.
    """
    if limit is not None:
        check_range("limit", limit, 1)
    if not ids:
        return dataset.query_set(config.read("dataset.query_set", str, "full"))[:limit]
    known = {query.id: query for rows in dataset.queries.values() for query in rows}
    for identifier in ids:
        if identifier not in known:
            raise UnknownNameError(
                f"no query has the id {identifier!r}", hint=did_you_mean(identifier, known)
            )
    return [known[identifier] for identifier in dict.fromkeys(ids)][:limit]


def over_index(dataset: RuleQADataset, index: Path | None, config: Config) -> RuleQADataset:
    """The dataset; where the index is one of texts, these texts are its corpus.

    Args:
        dataset: the dataset.
        index: a built index.
        config: names what reads.

    Raises:
        ConfigError: the reader cannot read texts.
    """
    if index is None or not (index / CORPUS).is_file() or (index / "queries.jsonl").is_file():
        return dataset
    # Imported here: what reads texts is a second that no other command needs.
    from rulerag.extraction import over_texts

    refuse_prose(config.section("generator").get("model"))
    return over_texts(dataset, open_corpus(index))


def open_corpus(folder: Path) -> StoredRecords[Document]:
    """The documents of a dataset or of an index of texts, each read when it is used.

    Args:
        folder: of the dataset or the index.

    Raises:
        DataError: it has no corpus.
    """
    file = folder / CORPUS
    return StoredRecords(file, Document.from_json, remembered_fingerprint(file))


def refuse_prose(generator: object) -> None:
    """Raise a ConfigError for a generator that cannot read texts without facts."""
    if str(generator) == NANO_LLAMA:
        raise ConfigError(
            f"{NANO_LLAMA} reads statements of facts, not prose",
            key="generator",
            hint="name a language model, such as smollm2-135m-instruct (`rulerag models list`)",
        )
