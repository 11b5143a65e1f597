"""The front door: help with examples, usage errors, exit codes, pipes and Ctrl-C."""

from __future__ import annotations

import json
import logging
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag import __version__ as version
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.cli.app import COMMANDS
from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.rules import Atom, Rule, RuleBank
from rulerag.synthetic.world import World

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = {
    "cache",
    "demo",
    "inspect",
    "mine",
    "rules",
    "index",
    "retrieve",
    "answer",
    "explain",
    "extract",
    "evaluate",
    "learn-merging",
    "link-prediction",
    "redteam",
    "studio",
}
GROUPS = {
    "ruleqa": {"build", "check", "phrases", "table", "update"},
    "data": {"fetch", "sparql"},
    "models": {"list", "fetch", "info", "save", "tune-prompt"},
}


def test_every_command_of_the_contract_is_there(rulerag: Any) -> None:
    grouped = {f"{group} {name}" for group, names in GROUPS.items() for name in names}
    assert set(COMMANDS) == CONTRACT | grouped
    for words, names in (((), {*CONTRACT, *GROUPS}), *(((g,), n) for g, n in GROUPS.items())):
        result = rulerag(*words, "--help")
        assert result.code == 0
        assert all(f"\n  {name} " in result.out for name in names)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_an_example_that_the_command_takes(name: str, rulerag: Any) -> None:
    result = rulerag(*name.split(), "--help")
    assert (result.code, result.err) == (0, "")
    shown = " ".join(result.out.split("Example: ")[1].split())
    assert shown == COMMANDS[name].example
    assert COMMANDS[name].help == str(COMMANDS[name].work.__doc__).split("\n")[0]
    assert f"{shown} ".startswith(f"rulerag {name} ")
    for option in (a for a in shlex.split(shown) if a.startswith("--")):
        assert f"  {option} " in result.out


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from rulerag.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'tqdm', 'omegaconf', 'pydantic', 'rulerag.assembly.build'}\n"
        "sys.stderr.write(str(sorted(heavy & {*sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]" and "retrieve" in done.stdout


def test_the_version(rulerag: Any) -> None:
    assert rulerag("--version")[:2] == (0, f"rulerag {version}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nosuch",), "No such command 'nosuch'"),
        (("mine",), "Missing argument"),
        (("mine", "folder"), "Missing option '--out'"),
        (("mine", "folder", "--out", "x", "--max-atom", "3"), "No such option: --max-atom"),
        (("demo", "--facts", "many"), "Invalid value for '--facts'"),
        (("rules", "a", "b"), "unexpected extra argument"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], message: str, rulerag: Any) -> None:
    result = rulerag(*arguments)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_guarded_turns_outcomes_into_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    def bad() -> None:
        raise ConfigError("is wrong", key="k", hint="say 1")

    def stopped() -> None:
        raise KeyboardInterrupt

    def broken() -> None:
        raise ZeroDivisionError

    assert guarded(lambda: None) == 0
    assert guarded(bad) == 2
    assert capsys.readouterr() == ("", "error: key 'k': is wrong — say 1\n")
    assert guarded(stopped, interrupted="stopped here") == 130
    assert capsys.readouterr() == ("", "stopped here\n")
    with pytest.raises(ZeroDivisionError):  # a fault of the program keeps its traceback
        guarded(broken)


def test_a_command_leaves_logging_as_it_was(rulerag: Any) -> None:
    logger = logging.getLogger("rulerag")
    before = (logger.level, list(logger.handlers))
    rulerag("rules", "no-such-file")
    assert (logger.level, list(logger.handlers)) == before


def test_the_reader_of_a_pipe_may_stop_reading(tmp_path: Path) -> None:
    """More is written than a pipe holds, so that the writer meets the closed end."""
    ends = ("?x", "?y")
    rules = (Rule(Atom("led to", *ends), (Atom(f"event {n}", *ends),)) for n in range(3000))
    RuleBank(rules).save(tmp_path / "rules.jsonl")
    command = ["rules", str(tmp_path / "rules.jsonl"), "--top", "100000"]
    with subprocess.Popen(
        [sys.executable, "-m", "rulerag.cli", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "3,000 rules" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(30) == 0


# --- Ctrl-C -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world that keeps every command busy for more than a second, as graph and as dataset."""
    folder = tmp_path_factory.mktemp("large")
    world = World.generate(30_000, max_body_atoms=1)
    world.save(folder / "graph")
    world_dataset(world, mine_world(world)[0]).save(folder / "dataset")
    return folder


# The commands, and what stands in the folder only when the work is done.
LONG = {
    "mine": ("mine {data}/wiki --out {out}/rules.jsonl", "rules.jsonl"),
    "index": ("index {large}/dataset --out {out}/index", "index"),
    "retrieve": ("retrieve {large}/dataset --rules guided --out {out}/run.trec", "run.trec"),
    "answer": ("answer {large}/dataset --out {out}/a.jsonl", "a.jsonl"),
    "explain": ("explain {large}/dataset --limit 100000 --out {out}/e.jsonl", "e.jsonl"),
    "demo": ("demo --facts 30000 --out {out}", "metrics.json"),
}


@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_ends_a_long_command_with_one_line(
    name: str, large: Path, tmp_path: Path, graph_folder: Callable[[str], Path]
) -> None:
    data = graph_folder("wiki").parent if name == "mine" else None
    command, final = LONG[name]
    words = command.format(data=data, large=large, out=tmp_path).split()
    code, err = interrupt("from rulerag.cli import main", f"main({[*words, '--quiet']!r})")
    assert code == 130, err
    last = err.splitlines()[-1]
    assert last == "interrupted; no half-written file was left, run the same command again"
    assert not (tmp_path / final).exists()
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]


def test_ctrl_c_keeps_the_explanations_that_are_done(large: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "e.jsonl", tmp_path / "answers.db"
    words = ["explain", large / "dataset", "--limit", 100000, "--out", out, "--cache", cache]
    command = [*map(str, words), "--quiet"]
    with working("from rulerag.cli import main", f"raise SystemExit(main({command!r}))") as process:
        while not cache.exists():  # it is made just before the first answer is explained
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    rows = out.read_text().splitlines()
    assert rows and all(json.loads(row)["claims"] for row in rows)
    assert f"{len(rows)} of " in err and f"written to {out}" in err


# Ctrl-C in a destructor, whose exceptions Python drops, and then work of many short steps.
DROPPED = """
class Dies:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
def work():
    dies = Dies()
    del dies
    while True:
        time.sleep(0.01)
"""
# What compiled code makes of it.
COMPILED = """
def work():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error
"""
# Cleaning up may take its time.
CLEANING = """
def work():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    finally:
        for _ in range(100):
            time.sleep(0.01)
        print("cleaned up")
"""


@pytest.mark.parametrize(
    ("work", "output"), [(DROPPED, ""), (COMPILED, ""), (CLEANING, "cleaned up\n")]
)
def test_ctrl_c_counts_wherever_it_falls(work: str, output: str) -> None:
    head = "import os, signal, sys, time; from rulerag.console import guarded"
    code = f"{head}\n{work}\nsys.exit(guarded(work, interrupted='stopped'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "stopped"
    assert done.stdout == output


def test_an_error_while_stopping_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ConfigError("cannot be put away", key="k") from None

    def work_that_chains() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConfigError("cannot be put away", key="k")

    for one in (work, work_that_chains):
        assert guarded(one) == 2
        assert "cannot be put away" in capsys.readouterr().err


@pytest.mark.timeout(0)  # which would set the same alarm
def test_guarded_leaves_the_signals_as_they_were() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)]
    guarded(lambda: None)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_ctrl_c_while_a_benchmark_is_built(
    tmp_path: Path, graph_folder: Callable[[str], Path]
) -> None:
    command = ["build", "--name", "ruleqa-i", "--kg", str(graph_folder("icews14")), "--quiet"]
    command += ["--out", str(tmp_path / "out")]
    code, err = interrupt(
        "import sys; from benchmarks.ruleqa.__main__ import main", f"sys.exit(main({command!r}))"
    )
    assert code == 130, err
    assert err.splitlines()[-1].startswith("interrupted; ")
    assert not (tmp_path / "out" / "manifest.json").exists()


def interrupt(start: str, work: str) -> tuple[int, str]:
    """Run Python code in a process of its own and press Ctrl-C once in the midst of its work."""
    for seconds in (0.7, 0.35, 0.15):  # sooner, where a quick machine has done the work by then
        with working(start, work) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        # 0 and -2: the work was done, and Python about to leave.
        if process.returncode not in (0, -signal.SIGINT):
            return process.returncode, err
    raise AssertionError(f"every run ended before the signal: {err}")


def working(start: str, work: str) -> subprocess.Popen[str]:
    """A process that has run ``start`` and is at ``work``."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{start}; print('ready', flush=True); {work}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process
