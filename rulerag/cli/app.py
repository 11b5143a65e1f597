"""The table of commands; cyclopts reads their arguments and shows their help."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import itertools
import logging
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rulerag import __version__
from rulerag.console import AGAIN, guarded
from rulerag.errors import ConfigError, did_you_mean

COMMANDS = {
    "demo": "running:demo",
    "inspect": "datasets:inspect",
    "mine": "graphs:mine",
    "rules": "graphs:rules",
    "encode": "corpora:encode",
    "index": "corpora:index",
    "extract": "extracting:extract",
    "retrieve": "corpora:retrieve",
    "answer": "answering:answer",
    "explain": "explaining:explain",
    "export": "answering:export",
    "evaluate": "running:evaluate",
    "link-prediction": "running:link_prediction",
    "studio": "running:studio",
    "redteam": "running:redteam",
    "ruleqa build": "datasets:build",
    "ruleqa check": "datasets:check",
    "ruleqa table": "datasets:table",
    "data fetch": "datasets:fetch",
    "models list": "models:list_models",
    "models fetch": "models:fetch",
    "models info": "models:info",
    "push": "models:push",
    "cache": "models:cache",
}
"""The function of each command, whose docstring is the help; those of two words make a group."""

# Classes of what a command takes as KEY=VALUE.
_SETTINGS = {
    "link-prediction": "rulerag.evaluation.link_prediction:LinkPredictionSettings",
    "ruleqa build": "rulerag.ruleqa:RuleQASettings",
}
_HELP = ("--help", "-h")

_RESUMES = "interrupted; answered queries are kept, the same command goes on from there"

_WORDS: ContextVar[Sequence[str]] = ContextVar("words", default=())


def command_line() -> str:
    """The command that runs, as a shell takes it; for what it writes about itself."""
    return shlex.join(["rulerag", *_WORDS.get()])


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 success, 2 bad input, 130 interrupted.

    Args:
        argv: the arguments; those of the process when None.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    # The library logs what a person may want to know, such as how much of a run is done already.
    notes = logging.StreamHandler()
    logger = logging.getLogger("rulerag")
    level = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        interrupted = _RESUMES if words[:1] == ["evaluate"] else AGAIN
        sys.exit(guarded(functools.partial(_run, words), interrupted=interrupted))
    finally:
        logger.removeHandler(notes)
        logger.setLevel(level)


def _run(words: Sequence[str]) -> None:
    """Run the command that the arguments name; help and the version are work, too.

    Raises:
        ConfigError: there is no such command, or its arguments are wrong.
    """
    _WORDS.set(words)
    groups = {name.partition(" ")[0] for name in COMMANDS if " " in name}
    group = words[0] if words and words[0] in groups else ""
    size = 2 if group else 1
    name = " ".join(words[:size])
    if words == ["--version"]:
        sys.stdout.write(f"rulerag {__version__}\n")
    elif not words[size - 1 :] or words[size - 1] in _HELP:
        sys.stdout.write(_overview(group))
    elif name not in COMMANDS:
        raise ConfigError(f"there is no command {name!r}", hint=did_you_mean(name, COMMANDS))
    else:
        from rulerag.io import STANDARD_OUTPUT  # here: the list of commands is shown at once

        work, arguments = _bound(name, list(_with_copies(words[size:])))
        # A command that writes to standard output says to standard error what it says.
        aside = STANDARD_OUTPUT in arguments.arguments.values()
        with contextlib.redirect_stdout(sys.stderr) if aside else contextlib.nullcontext():
            work(*arguments.args, **arguments.kwargs)


def _with_copies(words: Sequence[str]) -> Iterator[str]:
    """The arguments; where one names a repository of the Hub, the folder here with a copy of it."""
    for option, word in itertools.pairwise(["", *words]):
        before, mark, place = word.rpartition("hf://")
        if not mark or (before and not before.endswith("=")):
            yield word
            continue
        if "--out" in (option, before.rstrip("=")):
            hint = "name a folder here; rulerag push uploads it"
            raise ConfigError(f"nothing is written to {mark}{place}", key="out", hint=hint)
        from rulerag.folders import local_copy

        yield before + str(local_copy(mark + place))


def _overview(group: str) -> str:
    """The list of all commands, or of those of a group."""
    listed = {n: h for n, h in _first_lines() if not group or n.startswith(f"{group} ")}
    width = max(map(len, listed))
    lines = [
        f"Usage: rulerag {group}{' ' if group else ''}COMMAND [ARGUMENTS]",
        "",
        "Retrieval-augmented generation that follows rules and shows why it answered.",
        "",
        *(f"  {name:{width}}  {help}" for name, help in listed.items()),
        "",
        "rulerag COMMAND --help says more, with an example; rulerag --version tells the version.",
        "Start here: rulerag demo --out demo-out",
    ]
    return "\n".join(lines) + "\n"


def _first_lines() -> Iterator[tuple[str, str]]:
    """The first line of each command's help, found in the sources, so that nothing is loaded."""
    for name, place in COMMANDS.items():
        home, _, function = place.partition(":")
        source = Path(__file__).with_name(f"{home}.py").read_text(encoding="utf-8")
        docstring = source.partition(f"\ndef {function}(")[2].partition('"""')[2]
        yield name, docstring.partition("\n")[0]


# --- the arguments of one command -----


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _bound(name: str, words: Sequence[str]) -> tuple[Callable[..., Any], inspect.BoundArguments]:
    """The function of a command, or what shows its help, and its arguments."""
    # Imported here: the list of commands is shown at once, and Ctrl-C counts meanwhile.
    from cyclopts import App, CycloptsError, Parameter

    function = _imported(f"rulerag.cli.{COMMANDS[name]}")
    app = App(
        f"rulerag {name}",
        default_command=function,
        help_epilogue=_epilogue(name, function),
        help_format="plaintext",
        help_formatter=_Formatter(),
        version_flags=(),
        default_parameter=Parameter(negative=(), show_default=_shown_default),
        group_parameters="Options",
    )
    try:
        work, arguments, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        message = " ".join(str(error).split())
        details = getattr(error.__cause__, "errors", None)
        if details is not None:  # of settings, which pydantic checks
            first = details()[0]
            option = "--" + str(first["loc"][0]).replace("_", "-")
            message = f"Invalid value {first['input']!r} for {option}: {first['msg']}."
        raise ConfigError(message, hint=f"rulerag {name} --help") from error
    return work, arguments


# --- its help -----


def _epilogue(name: str, function: Callable[..., None]) -> str:
    """The end of a command's help: the settings, if it has some, and the example."""
    example = " ".join(str(inspect.getdoc(function)).partition("Example:\n")[2].split())
    if name not in _SETTINGS:
        return f"Example: {example}"
    about = str(inspect.getdoc(_imported(_SETTINGS[name]))).partition("Args:\n")[2]
    about = about.partition("\n\n")[0].replace("``", "")  # what is raised is of no use here
    return f"Settings (KEY=VALUE):\n{about}\n\nExample: {example}"


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
