"""The arguments of one command: read, bound to its function, or shown as help, all by cyclopts."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from rulerag.errors import ConfigError
from rulerag.io import STANDARD_OUTPUT


def bind_arguments(
    name: str, function: Callable[..., None], words: Sequence[str], *, epilogue: str
) -> Callable[[], object]:
    """A command with its arguments, ready to run; or its help, ready to be shown.

    Args:
        name: of the command.
        function: its parameters and docstring are the options and the help.
        words: the arguments.
        epilogue: the end of the help.

    Raises:
        ConfigError: the arguments are wrong.
    """
    app = App(
        name,
        default_command=function,
        help_epilogue=epilogue,
        help_format="plaintext",
        help_formatter=_Formatter(),
        version_flags=(),
        default_parameter=Parameter(negative=(), show_default=_shown_default),
        group_parameters="Options",
    )
    try:
        command, arguments, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise _refusal(error, name) from error
    work = functools.partial(command, *arguments.args, **arguments.kwargs)
    if STANDARD_OUTPUT in arguments.arguments.values():
        return functools.partial(_aside, work)
    return work


def _aside(work: Callable[[], object]) -> None:
    """Run a command that writes to standard output: what it says goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        work()


def _refusal(error: CycloptsError, name: str) -> ConfigError:
    """What is wrong with the arguments, on one line."""
    message = " ".join(str(error).split())
    details = getattr(error.__cause__, "errors", None)
    if details is not None:  # of settings, which pydantic checks
        first = details()[0]
        option = "--" + str(first["loc"][0]).replace("_", "-")
        message = f"Invalid value {first['input']!r} for {option}: {first['msg']}."
    return ConfigError(message, hint=f"{name} --help")


# --- help -----


def _shown_default(value: object) -> object:
    """What the help says of a default: nothing of flags and of lists."""
    return None if value is False or value == () else value


class _Formatter:
    """Help whose paragraphs are folded at the width of the terminal, not of the docstrings."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        from cyclopts.help import DefaultFormatter  # loads what draws tables

        if panel.format == "command":  # --help alone, which has just been found
            return
        for entry in panel.entries:
            _unfold(entry.description)
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Any, _options: Any, usage: Any) -> None:
        console.print(f"Usage: {usage}".rstrip(), end="\n\n", markup=False, highlight=False)

    def render_description(self, console: Any, _options: Any, description: Any) -> None:
        _unfold(description)
        console.print(description)


def _unfold(description: Any) -> None:
    text = getattr(description, "primary_renderable", None)
    if text is not None:
        text.plain = re.sub(r"(?<=\S)\n(?=\S)", " ", text.plain)
