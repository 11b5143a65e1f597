"""A training run's folder: one process trains in it, others may read what is finished."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rulerag.errors import OutputError
from training.common.checkpoint import RunFolder

ROOT = Path(__file__).resolve().parents[3]

TRAINING = """
import sys
from pathlib import Path
from training.common.checkpoint import RunFolder

RunFolder(Path(sys.argv[1]), "settings").begin({"steps": 3})
print("training", flush=True)
sys.stdin.read()
"""


def test_a_second_training_in_one_folder_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINING, str(tmp_path / "run")]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "training\n"
        here = RunFolder(tmp_path / "run", "settings")
        assert here.finished is None, "who only reads is not in the way"
        with pytest.raises(OutputError, match=f"is being written by process {process.pid} on "):
            here.begin({"steps": 3})
        process.communicate("", timeout=60)
    here.begin({"steps": 3})
