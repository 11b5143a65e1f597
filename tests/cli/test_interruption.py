"""Ctrl-C, kill -9, two writers: what stands afterwards is whole, and the same command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.console import guarded
from rulerag.errors import RuleRAGError
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World

ROOT = Path(__file__).resolve().parents[2]
Write = Callable[..., Path]


def command(*words: object, folder: Path = ROOT) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "rulerag.cli", *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    while not there():
        assert process.poll() is None, "it must not have ended"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that keeps a command busy for more than a second."""
    world = World.generate(20_000, max_body_atoms=1)
    folder = tmp_path_factory.mktemp("large") / "dataset"
    world_dataset(world, mine_world(world)[0]).save(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "final"),
    [
        ("answer {large} --out {out}/a.jsonl", "a.jsonl"),
        ("retrieve {large} --rules guided --out {out}/run.trec", "run.trec"),
        ("demo --facts 30000 --out {out}", "metrics.json"),
    ],
)
def test_ctrl_c_ends_a_long_command_with_one_line(
    words: str, final: str, large: Path, tmp_path: Path
) -> None:
    filled = [*words.format(large=large, out=tmp_path).split(), "--quiet"]
    code = f"from rulerag.cli import main; print('ready', flush=True); main({filled!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.8)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    last = err.splitlines()[-1]
    assert last == "interrupted; no half-written file was left, run the same command again"
    assert not (tmp_path / final).exists()
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]


def test_ctrl_c_keeps_the_explanations_that_are_done(large: Path, tmp_path: Path) -> None:
    out, cache = tmp_path / "e.jsonl", tmp_path / "answers.db"
    words = ("explain", large, "--limit", 100000, "--out", out, "--cache", cache, "--quiet")
    with command(*words) as process:
        wait_for(process, cache.exists)  # it is made just before the first answer is explained
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    rows = out.read_text().splitlines()
    assert rows and all(json.loads(row)["claims"] for row in rows)
    assert f"{len(rows)} of " in err and f"written to {out}" in err


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_mining_goes_on_where_it_was_stopped(
    by: signal.Signals, graphs: dict[str, Path], rulerag: Any, tmp_path: Path
) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "rules.jsonl"
    words = ("mine", graphs["temporal"], "--lengths", "1,2,3", "--threads", 1, "--quiet")
    with command(*words, "--out", out, "--checkpoint", checkpoint) as process:
        wait_for(process, lambda: len(list(checkpoint.rglob("*.npz"))) > 1)
        process.send_signal(by)
        _, err = process.communicate(timeout=120)
    assert process.returncode == {signal.SIGINT: 130}.get(by, -by), err
    assert "Traceback" not in err and not out.exists()
    parts = {path: path.stat().st_mtime_ns for path in checkpoint.rglob("*.npz")}
    assert rulerag(*words, "--out", out, "--checkpoint", checkpoint).code == 0
    assert {path: path.stat().st_mtime_ns for path in parts} == parts  # read, not made anew
    assert rulerag(*words, "--out", tmp_path / "whole.jsonl").code == 0
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


# --- evaluate -----


@pytest.fixture(scope="module")
def many(dated_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that takes an evaluation several batches."""
    asked = dated_dataset.query_set("full")
    copies = 3000 // len(asked)
    folder = tmp_path_factory.mktemp("many") / "dataset"
    RuleQADataset(
        corpus=dated_dataset.corpus,
        queries={"test": [replace(q, id=f"{q.id}-{n}") for n in range(copies) for q in asked]},
        rules=dated_dataset.rules,
        info=DatasetInfo(calendar=dated_dataset.calendar),
    ).save(folder)
    return folder


@contextmanager
def halted(file: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """An evaluation that stands still after its first batch."""
    process = command("evaluate", file, "--out", out, "--quiet")
    predictions = out / "predictions.jsonl"
    wait_for(process, lambda: predictions.exists() and b"\n" in predictions.read_bytes())
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def asked(out: Path) -> list[str]:
    # Whole lines: a process may be killed in the midst of the last.
    lines = (out / "predictions.jsonl").read_text().rpartition("\n")[0].splitlines()
    return [json.loads(line)["query_id"] for line in lines]


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_evaluate_goes_on_where_it_was_stopped(
    by: signal.Signals, experiment: Write, many: Path, rulerag: Any, refused: Any, tmp_path: Path
) -> None:
    file, out = experiment(dataset=many), tmp_path / "out"
    with halted(file, out) as process:
        message = refused("evaluate", file, "--out", out, "--quiet")
        assert f"{out}: is being written by process {process.pid} on " in message
        process.send_signal(by)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=120)
        if by == signal.SIGINT:
            assert process.returncode == 130 and "Traceback" not in err
            last = "interrupted; answered queries are kept, the same command goes on from there"
            assert err.splitlines()[-1] == last
    stood = len(asked(out))
    assert stood and not (out / "metrics.json").exists()
    again = rulerag("evaluate", file, "--out", out, "--quiet")
    assert again.code == 0, again.err
    assert f"{stood} of " in again.err and "stand already" in again.err
    assert asked(out) == [query.id for query in RuleQADataset.load(many).query_set("full")]
    assert not list(out.glob(".*")), "no lock is left"


# --- guarded -----

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


def test_an_error_that_is_its_own_cause_is_an_error() -> None:
    """Some libraries raise an error from itself: its causes never end."""

    def work() -> None:
        error = RuleRAGError("no server")
        raise error from error

    assert guarded(work) == 2


@pytest.mark.timeout(0)  # which would set the same alarm
def test_guarded_leaves_the_signals_as_they_were() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)]
    guarded(lambda: None)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
