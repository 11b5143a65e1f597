"""Two runs at once in one folder, and killed runs."""

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

from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset

ROOT = Path(__file__).resolve().parents[2]
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def many(dated_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that takes an evaluation several batches."""
    asked = dated_dataset.query_set("full")
    copies = 4000 // len(asked)
    folder = tmp_path_factory.mktemp("many") / "dataset"
    RuleQADataset(
        corpus=dated_dataset.corpus,
        queries={"test": [replace(q, id=f"{q.id}-{n}") for n in range(copies) for q in asked]},
        rules=dated_dataset.rules,
        info=DatasetInfo(calendar=dated_dataset.calendar),
    ).save(folder)
    return folder


def evaluate(file: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rulerag.cli", "evaluate", str(file), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--quiet"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def halted(file: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """An evaluation that stands still after its first batch."""
    process = evaluate(file, out)
    predictions = out / "predictions.jsonl"
    while process.poll() is None and not (
        predictions.exists() and b"\n" in predictions.read_bytes()
    ):
        time.sleep(0.002)
    assert process.poll() is None, "it must not have ended"
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


def test_the_second_of_two_evaluations_is_refused_and_the_first_is_whole(
    experiment: Write, many: Path, tmp_path: Path
) -> None:
    file, out = experiment(dataset=many), tmp_path / "out"
    with halted(file, out) as first:
        second = evaluate(file, out)
        _, err = second.communicate(timeout=120)
        assert second.returncode == 2
        assert err.startswith(f"error: {out}: is being written by process {first.pid} on ")
        assert err.count("\n") == 1
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate(timeout=240)
        assert first.returncode == 0, err
    expected = [query.id for query in RuleQADataset.load(many).query_set("full")]
    assert asked(out) == expected
    assert json.loads((out / "run.json").read_text())["complete"] is True
    assert not list(out.glob(".*")), "no lock is left"


def test_after_kill_9_the_same_command_goes_on(
    experiment: Write, many: Path, tmp_path: Path
) -> None:
    file, out = experiment(dataset=many), tmp_path / "out"
    with halted(file, out) as first:
        os.kill(first.pid, signal.SIGKILL)
        first.wait(timeout=30)
        stood = len(asked(out))
        again = evaluate(file, out)
        _, err = again.communicate(timeout=240)
    assert again.returncode == 0, err
    assert f"{stood} of " in err and "stand already" in err
    expected = [query.id for query in RuleQADataset.load(many).query_set("full")]
    assert asked(out) == expected


def test_a_second_build_of_an_index_is_refused(dated: Path, refused: Any, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom rulerag.retrieval.base.index_folder import new_index_folder\n"
        "with new_index_folder(sys.argv[1], 'bm25', corpus='x', settings={}, num_documents=1):\n"
        "    print('building', flush=True)\n    sys.stdin.read()\n"
    )
    out = tmp_path / "new" / "index"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(out)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "building\n"
        message = refused("index", dated, "--out", out, "--quiet")
        assert f"{out}: is being written by process {process.pid} on " in message
        process.communicate("", timeout=30)
    assert [path.name for path in out.parent.iterdir()] == ["index"]


def test_a_folder_that_is_being_built_is_not_built_twice(
    dated_dataset: RuleQADataset, tmp_path: Path
) -> None:
    code = (
        "import sys\nfrom rulerag.output_folder import output_folder\n"
        "with output_folder(sys.argv[1]):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(Exception, match=f"is being written by process {process.pid}"):
            dated_dataset.save(tmp_path)
        process.communicate("", timeout=30)
    dated_dataset.save(tmp_path)
