"""The table of commands: a name, an example and a function each."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rulerag import __version__
from rulerag.console import EXIT_INTERRUPTED
from rulerag.io import STANDARD_OUTPUT


@dataclass(frozen=True)
class Command:
    """A command, imported when it runs or shows its own help.

    Args:
        place: where its function is, ``module:name``; its docstring is the help.
        help: one line for the list of commands, the first of the docstring.
        example: what its help shows.
    """

    place: str
    help: str
    example: str

    @property
    def work(self) -> Callable[..., None]:
        """The function."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


COMMANDS: dict[str, Command] = {
    "demo": Command(
        "rulerag.cli.running:demo",
        "Mine, retrieve, read and explain on embedded worlds that know their own truth.",
        "rulerag demo --out demo-out",
    ),
    "inspect": Command(
        "rulerag.cli.datasets:inspect",
        "Show what is understood of a graph or dataset: columns, dates, facts, what was left out.",
        "rulerag inspect facts.csv",
    ),
    "mine": Command(
        "rulerag.cli.graphs:mine",
        "Mine a rule bank from a graph.",
        "rulerag mine demo-out/temporal/world --out rules.jsonl",
    ),
    "rules": Command(
        "rulerag.cli.graphs:rules",
        "Look into a rule bank, join it with others, make it smaller.",
        "rulerag rules rules.jsonl --head visits --top 5",
    ),
    "index": Command(
        "rulerag.cli.corpora:index",
        "Build an index that `--index` opens; of texts of your own, it keeps the texts too.",
        "rulerag index runs/ruleqa-i --retriever lucene --out index",
    ),
    "extract": Command(
        "rulerag.cli.extracting:extract",
        "Find facts in texts: a graph folder that every other command reads, with its sentences.",
        "rulerag extract notes --seeds facts.csv --out graph",
    ),
    "retrieve": Command(
        "rulerag.cli.corpora:retrieve",
        "Run retrieval for the queries of a dataset.",
        "rulerag retrieve runs/ruleqa-i --retriever bm25 --rules guided --out run.trec",
    ),
    "answer": Command(
        "rulerag.cli.answering:answer",
        "Answer a question, or the queries of a dataset, with the evidence.",
        'rulerag answer "Time 2014-12-01 what does China Consult ?" --dataset runs/ruleqa-i',
    ),
    "explain": Command(
        "rulerag.cli.explaining:explain",
        "Explain answers: what they rest on, in a dataset or in a system of your own.",
        'rulerag explain "Who wrote it?" --documents notes --answerer rag.py:answer',
    ),
    "evaluate": Command(
        "rulerag.cli.running:evaluate",
        "Run one experiment; a rerun resumes what was interrupted.",
        "rulerag evaluate symbolic__symbolic --dataset runs/ruleqa-i query_set=full "
        "--out runs/symbolic",
    ),
    "link-prediction": Command(
        "rulerag.cli.link_prediction:link_prediction",
        "Filtered MRR and Hits@1, 3 and 10 of a rule bank, both directions of every test fact.",
        "rulerag link-prediction demo-out/temporal/world --miner tlogic --out links",
    ),
    "learn-merging": Command(
        "rulerag.cli.running:learn_merging",
        "Learn how the searches of rule-guided retrieval are merged.",
        "rulerag learn-merging bm25-guided__symbolic --dataset runs/validation --out weights.json",
    ),
    "studio": Command(
        "rulerag.cli.studio:studio",
        "The web app: ask a RAG system, see which sources made it answer so, and break it.",
        "rulerag studio --port 8080 --data studio-data",
    ),
    "redteam": Command(
        "rulerag.cli.studio:redteam",
        "Attack a system in every source of every question; status 1 where it breaks.",
        "rulerag redteam finance --generator weak-reader --out red-team",
    ),
    "ruleqa build": Command(
        "rulerag.cli.datasets:build",
        "Make questions, corpus, rules and judgements from a knowledge graph.",
        "rulerag ruleqa build --kg facts.csv --out dataset",
    ),
    "ruleqa update": Command(
        "rulerag.cli.datasets:update",
        "Add new facts to a dataset: its documents, its counts and its rules follow.",
        "rulerag ruleqa update dataset --facts new.csv",
    ),
    "ruleqa check": Command(
        "rulerag.cli.datasets:check",
        "Prove that a dataset does not leak its answers.",
        "rulerag ruleqa check runs/ruleqa-i",
    ),
    "ruleqa table": Command(
        "rulerag.cli.datasets:table",
        "Sizes and ceilings of built datasets, beside the published sizes.",
        "rulerag ruleqa table runs/ruleqa-i runs/ruleqa-y",
    ),
    "ruleqa phrases": Command(
        "rulerag.cli.datasets:phrases",
        "Write how each relation is said in words, to be edited.",
        "rulerag ruleqa phrases runs/ruleqa-i",
    ),
    "data fetch": Command(
        "rulerag.cli.datasets:fetch",
        "Download one data set, every file checked by its SHA-256.",
        "rulerag data fetch icews14 --out data",
    ),
    "data sparql": Command(
        "rulerag.cli.datasets:sparql",
        "Copy the triples of a SPARQL endpoint into a file, which all commands read as a graph.",
        "rulerag data sparql http://localhost:3030/films/query --out films.nt",
    ),
    "models list": Command(
        "rulerag.cli.models:list_models",
        "Models that go by a name here: size, licence, and whether they are in place.",
        "rulerag models list",
    ),
    "models fetch": Command(
        "rulerag.cli.models:fetch",
        "Get a model, every file checked by its SHA-256; its terms are shown first.",
        "rulerag models fetch smollm2-135m-instruct",
    ),
    "models info": Command(
        "rulerag.cli.models:info",
        "What a model is, where it came from and what it takes.",
        "rulerag models info all-minilm-l6-v2",
    ),
    "models save": Command(
        "rulerag.cli.models:save",
        "Save a GGUF file as a folder of transformers, its weights de-quantised to float32.",
        "rulerag models save model.gguf --out model",
    ),
    "models tune-prompt": Command(
        "rulerag.cli.models:tune_prompt",
        "Choose the prompt that a model reads best, on training queries, and record it beside it.",
        "rulerag models tune-prompt smollm2-135m-instruct runs/ruleqa-i",
    ),
    "cache": Command(
        "rulerag.cli.models:cache",
        "Show or clear what is kept between commands: indexes, vectors, checksums.",
        "rulerag cache clear bm25",
    ),
}
"""The commands by name, in a group where the name has two words."""

_GROUPS = {
    "ruleqa": "Datasets of questions from knowledge graphs.",
    "data": "Graphs from elsewhere: public ones, and SPARQL endpoints.",
    "models": "Pretrained encoders and language models.",
}


def parse(argv: Sequence[str] | None) -> Callable[[], None] | None:
    """The work that the arguments ask for, ready to run; None where they asked for help.

    Parsing and working are apart, so that errors and Ctrl-C of the work read our way.

    Args:
        argv: the arguments; those of the process when None.

    Raises:
        SystemExit: the arguments are wrong (2; a message is written).
        KeyboardInterrupt: Ctrl-C while parsing.
    """
    chosen: list[Callable[[], None]] = []
    try:
        _app(chosen.append, sys.argv[1:] if argv is None else argv)(args=argv)
    except SystemExit as stop:
        if stop.code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt from None
        if stop.code:
            raise
    return chosen[0] if chosen else None


def _aside(work: Callable[[], None]) -> None:
    """Run a command whose output is standard output: what it says goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        work()


def _tell_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"rulerag {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="the version", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    """Retrieval-augmented generation that follows rules and shows why it answered."""


def _app(choose: Callable[[Callable[[], None]], None], words: Sequence[str]) -> typer.Typer:
    """The commands, each of which only hands on what it would do; one that is named is imported."""
    app = typer.Typer(
        name="rulerag",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    def handing_on(work: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(work)
        def command(*args: Any, **kwargs: Any) -> None:
            chosen = functools.partial(work, *args, **kwargs)
            choose(
                functools.partial(_aside, chosen) if STANDARD_OUTPUT in kwargs.values() else chosen
            )

        return command

    app.callback(epilog="Start here: rulerag demo --out demo-out")(_root)
    groups = {
        name: typer.Typer(help=what, no_args_is_help=True, rich_markup_mode=None)
        for name, what in _GROUPS.items()
    }
    for place, command in COMMANDS.items():
        group, _, name = place.rpartition(" ")
        parent = groups[group] if group else app
        if place.split() == list(words[: 2 if group else 1]):
            parent.command(name, epilog=f"Example: {command.example}")(handing_on(command.work))
        else:
            parent.command(name, help=command.help)(lambda: None)
    for name, group_app in groups.items():
        app.add_typer(group_app, name=name)
    return app
