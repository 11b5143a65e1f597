"""Explanations against known truth, against people's marks, and against each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from benchmarks.explanation import figures, planted, readings, self_explanations, tables, views
from rulerag.console import guarded
from rulerag.errors import ConfigError

_RESUMES = "interrupted; finished questions are kept, run the same command again"
_APP = App(
    "python -m benchmarks.explanation",
    help=__doc__,
    help_format="plaintext",
    version_flags=(),
    default_parameter=Parameter(negative=()),
)
_COMMANDS: dict[str, Callable[..., Any]] = {
    "planted": planted.run,
    "tables": tables.collect,
    "readings": readings.collect,
    "board": views.write,
    "figures": figures.run,
    "self": self_explanations.run,
}
for _name, _command in _COMMANDS.items():
    _APP.command(_command, name=_name)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: 0 success, 2 bad input, 130 interrupted."""

    def work() -> None:
        try:
            command, arguments, _ = _APP.parse_args(argv, print_error=False, exit_on_error=False)
        except CycloptsError as error:
            raise ConfigError(" ".join(str(error).split()), hint="see --help") from error
        command(*arguments.args, **arguments.kwargs)

    return guarded(work, interrupted=_RESUMES)


if __name__ == "__main__":
    sys.exit(main())
