"""``rulerag mine`` stopped by a real signal in the middle, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rulerag.synthetic.world import World

ROOT = Path(__file__).resolve().parents[2]
# Long enough to be in the middle for a second: there are more than a hundred parts.
_OPTIONS = ("--lengths", "1,2,3", "--threads", "1", "--quiet")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    World.generate(10_000, kind="temporal").save(folder)
    return folder


def mine(graph: Path, out: Path, checkpoint: Path) -> subprocess.Popen[str]:
    command = ("mine", graph, "--out", out, "--checkpoint", checkpoint, *_OPTIONS)
    return subprocess.Popen(
        [sys.executable, "-m", "rulerag.cli", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def parts(checkpoint: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in checkpoint.rglob("*.npz")}


@pytest.fixture(scope="module")
def whole(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """The rules of a run that nothing stops, and the parts that it keeps."""
    folder = tmp_path_factory.mktemp("whole")
    process = mine(graph, folder / "rules.jsonl", folder / "checkpoint")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return (folder / "rules.jsonl").read_bytes(), len(parts(folder / "checkpoint"))


def stopped(graph: Path, folder: Path, by: signal.Signals) -> tuple[int, str, Path]:
    """A run that got the signal when its first parts were there: exit code, errors, checkpoint."""
    for attempt in range(5):
        checkpoint = folder / f"checkpoint-{attempt}"
        process = mine(graph, folder / "rules.jsonl", checkpoint)
        while process.poll() is None and len(parts(checkpoint)) < 2:
            time.sleep(0.002)
        process.send_signal(by)  # nothing happens where it has ended: then try once more
        _, errors = process.communicate(timeout=300)
        if process.returncode != 0:
            return process.returncode, errors, checkpoint
        (folder / "rules.jsonl").unlink()
    raise AssertionError("every run ended before the signal")


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on_where_it_was(
    by: signal.Signals, graph: Path, whole: tuple[bytes, int], tmp_path: Path
) -> None:
    code, errors, checkpoint = stopped(graph, tmp_path, by)
    assert code == {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[by], errors
    assert "Traceback" not in errors
    rules, count = whole
    kept = parts(checkpoint)
    assert 2 <= len(kept) < count
    out = tmp_path / "rules.jsonl"
    assert not out.exists()
    process = mine(graph, out, checkpoint)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert out.read_bytes() == rules
    after = parts(checkpoint)
    assert len(after) == count
    assert {path: after[path] for path in kept} == kept  # what was there was read, not made anew
