"""What the commands share: argument types, output, the pipeline behind their options."""

from __future__ import annotations

import functools
import operator
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from rulerag.assembly import (
    Options,
    experiment,
    following_all,
    fragments,
    is_variant,
    make_generator,
    make_pipeline,
    open_dataset,
    preset,
)
from rulerag.cache import remembered_fingerprint
from rulerag.composition import Config
from rulerag.errors import ConfigError, UnknownNameError, did_you_mean
from rulerag.generation.huggingface import NANO_LLAMA
from rulerag.io import STANDARD_OUTPUT, StoredRecords, check_output
from rulerag.kg import KnowledgeGraph
from rulerag.linking import LinkedQuestion, ReadingJudge
from rulerag.pipeline import RuleRAGPipeline
from rulerag.protocols import Generator
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Document, Query

IndexOption = Annotated[
    Path | None,
    typer.Option(help="a folder written by `rulerag index`, used with its settings"),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(help="of dense retrieval: a folder or Hub name (default: the one installed)"),
]
LimitOption = Annotated[int | None, typer.Option(help="only the first N queries")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="no progress bars")]

CORPUS = "corpus.jsonl"
"""The documents, in a dataset and in an index of texts of one's own."""
FACTS_ALONE = ("symbolic", "candidate")
"""Generators that read facts, and say nothing of texts without any."""
SHOWN = 5
"""Answers or explanations printed one by one; the rest goes to files alone."""


_WORDS: ContextVar[tuple[str, ...]] = ContextVar("words", default=())


def remember_command(words: Sequence[str]) -> None:
    """Keep the arguments of the command that runs, for what it writes about itself."""
    _WORDS.set(tuple(words))


def command_line() -> str:
    """The command that runs, as a shell takes it."""
    return shlex.join(["rulerag", *_WORDS.get()])


def in_line(value: object) -> str:
    """A setting on one line: ``type bm25, k1 0.9``; what is not set is left out."""
    if not isinstance(value, Mapping):
        return str(value)
    parts = [f"{key} {in_line(part)}" for key, part in value.items() if part is not None]
    return ", ".join(parts) or "as by default"


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


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


@dataclass(frozen=True)
class GraphFiles:
    """How a graph's files are read."""

    layout: Annotated[str, typer.Option(help="how the files are laid out")] = "auto"
    columns: Annotated[
        str | None,
        typer.Option(
            help="of a table: subject=NAME,relation=NAME,object=NAME,time=NAME (time=none: "
            "undated); without a header hrt, rht or htr, where the names do not tell their order"
        ),
    ] = None
    dates: Annotated[
        str | None,
        typer.Option(help="of a table: day-first or month-first, where dates may be either"),
    ] = None

    def load(self, path: Path) -> KnowledgeGraph:
        """The graph of a folder or a file."""
        return KnowledgeGraph.load(path, layout=self.layout, columns=self.columns, dates=self.dates)

    @property
    def stated(self) -> dict[str, str]:
        """The options that are not as by default, by name."""
        values = {key: getattr(self, key) for key in ("layout", "columns", "dates")}
        return {key: value for key, value in values.items() if value not in (None, "auto")}


@dataclass(frozen=True)
class RetrievalOptions:
    """The options of a command that retrieves; None where one is not set.

    An experiment file can then refuse those that it decides itself.

    Args:
        retriever: see :func:`~rulerag.assembly.preset`, like the next two.
        rules: see there.
        top_k: see there.
        query_set: the queries to ask; for an experiment in place of its own.
        index: a built index.
        encoder: see :func:`~rulerag.assembly.preset`, like the next one.
        fusion: see there.
    """

    retriever: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(fragments('retrievers'))} (default bm25), or one of the tables as it "
            "stands there, such as bm25-scored"
        ),
    ] = None
    rules: Annotated[str | None, typer.Option(help="guided (default) or none")] = None
    top_k: Annotated[int | None, typer.Option(help="documents per query (default 10)")] = None
    query_set: Annotated[
        str | None,
        typer.Option(help="balanced, full, f_r or f_g (default full, or the experiment's)"),
    ] = None
    index: IndexOption = None
    encoder: EncoderOption = None
    fusion: Annotated[
        str | None, typer.Option(help="fuse the guided list with the plain: rrf or weighted")
    ] = None

    def config(self, place: Path, *, rules: str = "guided") -> Config:
        """The configuration of an experiment file, or the preset of a dataset folder.

        Args:
            place: the file or the folder.
            rules: what a text retriever does where no option says it.

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
        config = preset(place, query_set=query_set or "full", **chosen)
        if index is None:
            return config
        # An index keeps the settings that it was built with.
        values = config.to_dict()
        return Config({**values, "retriever": _without_index_settings(values["retriever"])})


@dataclass(frozen=True)
class PipelineOptions(RetrievalOptions):
    """Those of a command that also generates; ``generator`` as in ``preset``.

    Args:
        language_model: weighs what a question means; see :class:`~rulerag.linking.ReadingJudge`.
    """

    generator: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(fragments('generators'))} (default symbolic), a model (folder or Hub "
            "name; rulerag-nano-llama is installed), or a YAML file with a section `generator`"
        ),
    ] = None
    language_model: Annotated[
        str | None,
        typer.Option(
            help="weighs what a question in your own words may mean: smollm2-135m-instruct or "
            "another model that runs here"
        ),
    ] = None


def _without_index_settings(section: dict[str, Any]) -> dict[str, Any]:
    """Settings of a retriever, those that an index on disk decides left out."""
    if "retriever" in section:
        return {**section, "retriever": _without_index_settings(section["retriever"])}
    if "retrievers" in section:
        parts = [_without_index_settings(part) for part in section["retrievers"]]
        return {**section, "retrievers": parts}
    return {key: section[key] for key in ("type", "encoder") if key in section}


@dataclass(frozen=True)
class Opened:
    """What a command works with.

    Args:
        config: what it was opened by.
        dataset: the dataset.
        queries: the queries to ask of it.
        pipeline: the pipeline over it.
        load_seconds: what opening all of it took.
        understood: what a question in one's own words was taken to mean; None for any other.
    """

    config: Config
    dataset: RuleQADataset
    queries: list[Query]
    pipeline: RuleRAGPipeline
    load_seconds: float
    understood: LinkedQuestion | None = None


def is_experiment(place: str | Path) -> bool:
    """Whether a path is that of an experiment file."""
    return str(place).endswith((".yaml", ".yml"))


def open_pipeline(
    config: Config,
    choose: Callable[[RuleQADataset], list[Query] | LinkedQuestion],
    *,
    index: Path | None = None,
    progress: bool = False,
    keep_union: bool = True,
) -> Opened:
    """Open the dataset of a configuration, choose queries, and build the pipeline.

    Args:
        config: the configuration.
        choose: gives the queries to ask, or what a question was taken to mean; called before
            anything costly is built.
        index: a built index.
        progress: show progress bars.
        keep_union: as in :class:`~rulerag.RuleRAGPipeline`.
    """
    started = time.perf_counter()
    dataset = open_dataset(config)
    chosen = choose(dataset)
    understood = None if isinstance(chosen, list) or chosen.exact else chosen
    queries = chosen if isinstance(chosen, list) else [_query_of(chosen, dataset, config)]
    if understood is not None and understood.readings:
        config = following_all(config)
    if index is not None and (index / CORPUS).is_file() and not (index / "queries.jsonl").is_file():
        # Imported here: what reads texts is a second that no other command needs.
        from rulerag.extraction import over_texts

        refuse_prose(config.section("generator").get("model"))
        dataset = over_texts(dataset, open_corpus(index))
    options = Options(index=index, progress=progress, keep_union=keep_union)
    pipeline = make_pipeline(config, dataset, options)
    seconds = time.perf_counter() - started
    return Opened(config, dataset, queries, pipeline, seconds, understood)


def open_corpus(folder: Path) -> StoredRecords[Document]:
    """The documents of a dataset or of an index of texts, each read when it is used.

    Args:
        folder: of the dataset or the index.

    Raises:
        DataError: it has no corpus.
    """
    file = folder / CORPUS
    return StoredRecords(file, Document.from_json, remembered_fingerprint(file))


def scoring_model(name: str) -> Generator:
    """A language model that is shown bare texts, to score others.

    Args:
        name: of a model, a folder, or a YAML file.

    Raises:
        RuleRAGError: there is no such model.
    """
    values = preset(Path(), generator=name).to_dict()
    if values["generator"].keys() == {"type", "model"}:
        values["generator"].update(ReadingJudge.PROMPT)
    return make_generator(Config(values), RuleQADataset(corpus=(), queries={}), Options())


def refuse_prose(generator: object) -> None:
    """Raise a ConfigError for a generator that cannot read texts without facts."""
    if str(generator) == NANO_LLAMA:
        raise ConfigError(
            f"{NANO_LLAMA} reads statements of facts, not prose",
            key="generator",
            hint="name a language model, such as smollm2-135m-instruct (`rulerag models list`)",
        )


def _query_of(question: LinkedQuestion, dataset: RuleQADataset, config: Config) -> Query:
    """The query of a question; its bare words where nobody known is mentioned."""
    if question.readings:
        told = config.get("dataset", {}).get("prediction")
        return question.asked() if told is None else question.query()
    return Query("question", question.text, prediction=dataset.prediction)


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
    if limit is not None and limit < 1:
        raise ConfigError(f"{limit} is below 1", key="limit", hint="say 10")
    if not ids:
        return dataset.query_set(config.read("dataset.query_set", str, "full"))[:limit]
    known = {query.id: query for rows in dataset.queries.values() for query in rows}
    for identifier in ids:
        if identifier not in known:
            raise UnknownNameError(
                f"no query has the id {identifier!r}", hint=did_you_mean(identifier, known)
            )
    return [known[identifier] for identifier in dict.fromkeys(ids)][:limit]


def percent(value: float | None) -> str:
    """A fraction as tables print it."""
    return "–" if value is None else f"{100 * value:.1f}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns without frames, each as wide as its widest cell; nothing is cut or folded.

    The last column is text and reaches as far as it must; the others are numbers and stand right.
    """
    lines = [tuple(columns), *map(tuple, rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)][:-1]
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=False)]
        say("  ".join([*cells, line[-1]]).rstrip())


# --- flags from settings -----


def by_flags(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each field of its parameters that are settings.

    Such a parameter is a dataclass, whose fields are annotated as parameters are, or a
    :class:`~rulerag.composition.Settings`, the description of whose fields is the help. The
    command line, the help and the errors are those of a command with one parameter a flag.

    Args:
        options: the typer option of single fields, by name, in place of their description.
    """

    def decorate(work: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(work, include_extras=True)
        groups: dict[str, tuple[Any, list[Parameter]]] = {}
        flags: list[Parameter] = []
        for name, parameter in signature(work).parameters.items():
            kind = hints[name]
            if is_dataclass(kind) or hasattr(kind, "model_fields"):
                groups[name] = (kind, list(_flags_of(kind, options)))
                flags += groups[name][1]
            else:
                flags.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))

        @functools.wraps(work)
        def command(**values: Any) -> None:
            for name, (kind, own) in groups.items():
                given = {flag.name: values.pop(flag.name, flag.default) for flag in own}
                values[name] = kind(**{key: one for key, one in given.items() if one is not None})
            work(**values)

        command.__signature__ = Signature(flags)  # type: ignore[attr-defined]
        command.__annotations__ = {flag.name: flag.annotation for flag in flags}
        return command

    return decorate


def with_settings(settings: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Describe the settings that a command takes as KEY=VALUE at the end of its help.

    Args:
        settings: the class, whose docstring describes them under ``Args:``.
    """

    def decorate(work: Callable[..., None]) -> Callable[..., None]:
        about = str(getdoc(settings)).partition("Args:\n")[2].replace("``", "")
        about = about.partition("\n\n")[0]  # what is raised is of no use here
        work.__doc__ = f"{getdoc(work)}\n\n\b\nSettings (KEY=VALUE):\n{about}"
        return work

    return decorate


def _flags_of(kind: Any, options: Mapping[str, Any]) -> Iterator[Parameter]:
    """A keyword parameter for each field of a settings class."""
    hints = get_type_hints(kind, include_extras=True)
    for name in [field.name for field in fields(kind)] if is_dataclass(kind) else kind.model_fields:
        default, annotation = getattr(kind, name, Parameter.empty), hints[name]
        if not is_dataclass(kind):
            field = kind.model_fields[name]
            default = field.default
            option = options.get(name) or typer.Option(help=field.description)
            annotation = Annotated[_flag_type(field.annotation), option]
        if default == ():
            default = None
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag_type(kind: Any) -> Any:
    """A field's type as a flag states it: one of some words is a text, several values a list."""
    if get_origin(kind) is Literal:
        return str
    if get_origin(kind) is tuple:
        return list[get_args(kind)[0]] | None  # type: ignore[misc]
    if get_origin(kind) in (Union, UnionType):
        return functools.reduce(operator.or_, map(_flag_type, get_args(kind)))
    return kind
