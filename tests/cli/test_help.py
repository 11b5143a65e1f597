"""The list of commands, help with examples, usage errors, exit codes."""

from __future__ import annotations

import logging
import re
import shlex
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from rulerag import __version__ as version
from rulerag.cli.app import COMMANDS
from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.explanation.explaining import ExplainSettings

CONTRACT = {
    *("demo", "mine", "rules", "index", "retrieve", "answer", "explain", "evaluate", "inspect"),
    "encode",
    *("extract", "studio", "redteam", "link-prediction", "cache", "data fetch"),
    *("ruleqa build", "ruleqa check", "ruleqa table"),
    *("models list", "models fetch", "models info", "push", "export"),
}


@pytest.mark.parametrize("words", [(), ("--help",), ("ruleqa",), ("models", "--help")])
def test_the_list_of_commands(words: tuple[str, ...], rulerag: Any) -> None:
    assert set(COMMANDS) == CONTRACT
    result = rulerag(*words)
    assert (result.code, result.err) == (0, "")
    group = words[0] if words and words[0] in ("ruleqa", "models") else ""
    listed = {name for name in CONTRACT if f"\n  {name} " in result.out}
    assert listed == {name for name in CONTRACT if name.startswith(group)}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_an_example_that_the_command_takes(name: str, rulerag: Any) -> None:
    result = rulerag(*name.split(), "--help")
    assert (result.code, result.err) == (0, "")
    shown = " ".join(result.out.split("Example: ")[1].split())
    module, _, function = COMMANDS[name].partition(":")
    help = getattr(import_module(f"rulerag.cli.{module}"), function).__doc__.split("\n")[0]
    assert re.search(rf"^  {name} +{re.escape(help)}$", rulerag().out, re.MULTILINE)
    assert f"{shown} ".startswith(f"rulerag {name} ")
    for option in (a for a in shlex.split(shown) if a.startswith("--")):
        assert f" {option} " in result.out
    assert not re.search("(Args|Raises|Example):\n", result.out)


def test_every_setting_is_an_option(rulerag: Any) -> None:
    shown = rulerag("explain", "--help").out
    assert all(f"--{one.replace('_', '-')} " in shown for one in ExplainSettings.model_fields)
    assert "num_queries: " in rulerag("ruleqa", "build", "--help").out


def test_the_list_of_commands_loads_nothing_else() -> None:
    code = (
        "import sys; from rulerag.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'tqdm', 'cyclopts', 'pydantic', 'yaml', 'rulerag.assembly.build'}\n"
        "sys.stderr.write(str(sorted(heavy & {*sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]" and "retrieve" in done.stdout


def test_the_version(rulerag: Any) -> None:
    assert rulerag("--version")[:2] == (0, f"rulerag {version}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("minee", "no command 'minee' — did you mean 'mine'"),
        ("ruleqa chek d", "no command 'ruleqa chek' — did you mean 'ruleqa check'"),
        ("mine", "KG requires an argument"),
        ("mine folder", "--out requires an argument"),
        (
            "mine folder --out x --max-atom 3",
            "Unknown option: --max-atom. Did you mean --max-atoms",
        ),
        ("mine folder --out --quiet", "expected a file, found the option --quiet"),
        ("demo --facts many", 'Invalid value for --facts: unable to convert "many" into int'),
        ("explain d --exact 21", "--exact: Input should be less than or equal to 20"),
        ("explain d --attribution shapely", "'shapely' — did you mean 'shapley'"),
    ],
)
def test_usage_errors(arguments: str, message: str, refused: Any) -> None:
    assert message in refused(*arguments.split())


def test_guarded_turns_outcomes_into_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    def bad() -> None:
        raise ConfigError("is wrong", key="k", hint="say 1")

    def stopped() -> None:
        raise KeyboardInterrupt

    def broken() -> None:
        raise ZeroDivisionError

    def failing_while_stopped() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConfigError("cannot be put away", key="k")

    assert guarded(lambda: None) == 0
    assert guarded(bad) == 2
    assert capsys.readouterr() == ("", "error: key 'k': is wrong — say 1\n")
    assert guarded(stopped, interrupted="stopped here") == 130
    assert capsys.readouterr() == ("", "stopped here\n")
    assert guarded(failing_while_stopped) == 2
    assert "cannot be put away" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):  # a fault of the program keeps its traceback
        guarded(broken)


def test_a_command_leaves_logging_as_it_was(rulerag: Any) -> None:
    logger = logging.getLogger("rulerag")
    before = (logger.level, list(logger.handlers))
    rulerag("rules", "no-such-file")
    assert (logger.level, list(logger.handlers)) == before
