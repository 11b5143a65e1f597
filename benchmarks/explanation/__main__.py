"""The benchmarks of explanations (:mod:`benchmarks.explanation`), each by its name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import typer

from benchmarks.explanation import figures, planted, readings, self_explanations, tables, views
from rulerag.console import guarded

_RESUMES = "interrupted; finished questions are kept, run the same command again"
_COMMANDS: dict[str, Callable[..., Any]] = {
    "planted": planted.run,
    "tables": tables.collect,
    "readings": readings.collect,
    "board": views.write,
    "figures": figures.run,
    "self": self_explanations.run,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 bad input, 130 interrupted.

    Args:
        argv: the arguments; those of the process when None.
    """
    app = typer.Typer(
        help="Explanations against known truth, against people's marks, and against each other.",
        add_completion=False,
        rich_markup_mode=None,
    )
    for name, command in _COMMANDS.items():
        lines = (inspect.getdoc(command) or "").replace("\n\n", "\n\n\b\n")
        app.command(name, help=lines)(_guarded(command))
    app(argv, prog_name="python -m benchmarks.explanation")


def _guarded(command: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*words: Any, **options: Any) -> None:
        status = guarded(lambda: command(*words, **options), interrupted=_RESUMES)
        raise typer.Exit(status)

    return run


if __name__ == "__main__":
    main()
