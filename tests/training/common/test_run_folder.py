"""The folder of a training: one process trains in it, and a full disk loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import OutputError
from training.common.checkpoint import RunFolder
from training.common.settings import TrainingSettings
from training.retriever.run import train_retriever
from training.retriever.settings import RetrieverSettings

ROOT = Path(__file__).resolve().parents[3]
TRAINING = """
import sys
from training.common.checkpoint import RunFolder
from training.common.settings import TrainingSettings

RunFolder.begun(TrainingSettings(out=sys.argv[1]))
print("training", flush=True)
sys.stdin.read()
"""
# Files may get so long and no longer: what is written says "File too large", as a disk that is full
# says "No space left on device".
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def test_a_second_training_in_one_folder_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINING, str(tmp_path / "run")]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "training\n"
        settings = TrainingSettings(out=str(tmp_path / "run"))
        here = RunFolder(settings.out, settings.fingerprint)
        assert here.finished is None, "who only reads is not in the way"
        with pytest.raises(OutputError, match=f"is being written by process {process.pid} on "):
            RunFolder.begun(settings)
        process.communicate("", timeout=60)
    RunFolder.begun(settings)


@pytest.mark.slow
def test_a_training_goes_on_when_there_is_room_again(
    settings: Callable[..., RetrieverSettings], tmp_path: Path
) -> None:
    pytest.importorskip("resource", reason="this system limits no file sizes")
    whole, cut = (settings(out=str(tmp_path / name)) for name in ("whole", "cut"))
    expected = train_retriever(whole)  # and the vectors of the corpus are kept
    weights = (tmp_path / "whole" / "model.safetensors").stat().st_size
    config = tmp_path / "run.yaml"
    config.write_text(json.dumps(cut.model_dump(mode="json")), encoding="utf-8")
    # Room for weights, and not for the optimizer's two numbers for each of them.
    command = [sys.executable, "-c", LIMITED, str(int(1.6 * weights)), "training.retriever"]
    done = subprocess.run(
        [*command, str(config), "--quiet"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"error: {cut.out}") and "cannot be written (" in said
    assert said.endswith("make room and start it again: it goes on from what it kept last")
    assert train_retriever(cut)["history"] == expected["history"]
