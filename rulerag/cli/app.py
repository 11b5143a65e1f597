"""The table of commands: a name, an example and a function each."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from rulerag.cli import answering, corpora, explaining, graphs, running
from rulerag.console import EXIT_INTERRUPTED
from rulerag.io import STANDARD_OUTPUT

__all__ = ["COMMANDS", "parse"]

COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "demo": (running.demo, "rulerag demo --out demo-out"),
    "mine": (graphs.mine, "rulerag mine ../shared/data/icews14 --out rules.jsonl"),
    "rules": (graphs.rules, 'rulerag rules rules.jsonl --head "Consult" --top 5'),
    "index": (corpora.index, "rulerag index runs/ruleqa-i --retriever lucene --out index"),
    "retrieve": (
        corpora.retrieve,
        "rulerag retrieve runs/ruleqa-i --retriever bm25 --rules guided --out run.trec",
    ),
    "answer": (
        answering.answer,
        'rulerag answer "Time 2014-12-01 what does China Consult ?" --dataset runs/ruleqa-i',
    ),
    "explain": (
        explaining.explain,
        "rulerag explain runs/ruleqa-i --query test-000003 --html why.html",
    ),
    "evaluate": (
        running.evaluate,
        "rulerag evaluate configs/ruleqa-i/symbolic__symbolic.yaml query_set=full "
        "--out runs/symbolic",
    ),
}
"""By name, what a command runs and the example that its help shows."""


def parse(argv: Sequence[str] | None) -> Callable[[], None] | None:
    """The work that the arguments ask for, ready to run; None where they asked for help.

    Parsing and working are apart, so that errors and Ctrl-C of the work are told our way.

    Args:
        argv: the arguments; those of the process when None.

    Raises:
        SystemExit: the arguments are wrong (2; a message is written).
        KeyboardInterrupt: Ctrl-C while parsing.
    """
    chosen: list[Callable[[], None]] = []
    try:
        _app(chosen.append)(args=argv)
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


def _app(choose: Callable[[Callable[[], None]], None]) -> typer.Typer:
    """The commands, each of which only hands on what it would do."""
    app = typer.Typer(
        name="rulerag",
        help="Retrieval-augmented generation that follows rules and shows why it answered.",
        epilog="Start here: rulerag demo --out demo-out",
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

    for name, (work, example) in COMMANDS.items():
        app.command(name, epilog=f"Example: {example}")(handing_on(work))
    return app
