"""A sample of the kills whose whole is a benchmark: nothing is lost, doubled or changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale.kills import compared

QUICK = ["command, evaluating", "database, filling", "database, searching", "node, mining"]


def test_what_is_lost_doubled_or_changed_is_counted() -> None:
    one, other = np.ones(3, np.float32), np.zeros(3, np.float32)
    wanted = {"a": ["x"], "b": ["y"], "c": [one], "d": [one]}
    found = {"a": ["x", "x"], "c": [one + 1e-7], "d": [other], "e": ["new"]}
    assert compared(found, wanted) == Counter(lost=1, doubled=1, changed=2)
    assert compared(wanted, wanted).total() == 0


def can_mount(place: Path) -> bool:
    if shutil.which("mount") is None:
        return False
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    mounted = subprocess.run(words, capture_output=True).returncode == 0
    return mounted and subprocess.run(["umount", str(place)]).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [*QUICK, "full disk, encoding", "node, encoding"])
def test_two_kills(name: str, tmp_path: Path) -> None:
    for package in ("ray", "milvus_lite", "pyarrow"):
        pytest.importorskip(package)
    if name.startswith("full disk") and not can_mount(tmp_path):
        pytest.skip("no small disk can be mounted here")
    # In a process of its own: a cluster in ruins would stay connected to the tests that follow.
    words = [sys.executable, "-m", "benchmarks.scale.kills", "run", "--kills", "2", "--only", name]
    subprocess.run([*words, "--out", str(tmp_path)], check=True, timeout=280)
    (row,) = json.loads((tmp_path / "kills.json").read_text())["rows"]
    assert row["records"] > 10
    assert (row["kills"], row["lost"], row["doubled"], row["changed"]) == (2, 0, 0, 0)
