"""Both trainings under ``torchrun`` and ``accelerate launch``, two processes on the CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from rulerag.io import read_json
from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import SECONDS, alike, changed
from training.common.settings import TrainingSettings
from training.common.tiny import make_encoder, train_tokenizer
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings
from training.retriever.run import train_retriever
from training.retriever.settings import RetrieverSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROOT = Path(__file__).resolve().parents[3]
TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
# On the CPU it starts two by this name too; `--cpu` starts one (see training.common.processes).
ACCELERATE = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
ACCELERATE += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
ACCELERATE += ["--main_process_port", "0"]


def started(
    launcher: list[str], program: str, settings: TrainingSettings, errors: Path
) -> subprocess.Popen[str]:
    """A training of some settings, in processes of its own."""
    config = errors.with_suffix(".yaml")
    config.write_text(json.dumps(settings.model_dump(mode="json")), encoding="utf-8")
    with open(errors, "w", encoding="utf-8") as written:
        return subprocess.Popen(
            [sys.executable, "-m", *launcher, "-m", program, str(config), "--quiet"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
        )


def finished(run: subprocess.Popen[str], errors: Path) -> str:
    """What it wrote; fails with its errors."""
    try:
        written, _ = run.communicate(timeout=2 * SECONDS)  # imports take their time
    except subprocess.TimeoutExpired:
        run.terminate()  # the launcher ends those that it started
        run.communicate(timeout=60)
        pytest.fail(errors.read_text())
    assert run.returncode == 0, errors.read_text()
    return written


def kill_one(run: subprocess.Popen[str], begun: Callable[[], bool], errors: Path) -> None:
    """End the second process without warning as soon as the training has kept something."""
    end = time.monotonic() + 2 * SECONDS
    while not begun():
        assert run.poll() is None and time.monotonic() < end, errors.read_text()
        time.sleep(0.01)
    found = [
        process
        for process in psutil.Process(run.pid).children(recursive=True)
        if process.environ().get("RANK") == "1"
    ]
    found[0].send_signal(signal.SIGKILL)
    run.communicate(timeout=SECONDS)
    assert run.returncode, "the launcher says that a process failed"


@pytest.mark.slow
def test_torchrun_trains_what_one_process_does_with_the_doubled_batch(
    short: Callable[..., GeneratorSettings], tmp_path: Path
) -> None:
    one = short(batch_size=8, out=str(tmp_path / "one"))
    train_generator(one)
    two = changed(one, batch_size=4, out=str(tmp_path / "two"))
    errors = tmp_path / "errors.txt"
    written = finished(started(TORCHRUN, "training.generator", two, errors), errors)
    assert written.count("written to") == 1, "the first process speaks for all"
    alike(tmp_path / "one", tmp_path / "two")
    assert read_json(tmp_path / "two" / "metrics.json")["processes"] == 2
    assert "on 2 processes" in (tmp_path / "two" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_accelerate_trains_a_generator_to_the_same_end_when_a_process_is_killed(
    short: Callable[..., GeneratorSettings], tmp_path: Path
) -> None:
    one = short(batch_size=8, max_steps=24, learning_rate=1e-3, out=str(tmp_path / "one"))
    one = changed(one, epochs=12, parts=6)
    train_generator(one)
    two = changed(one, batch_size=4, out=str(tmp_path / "two"))
    errors = tmp_path / "errors.txt"
    run = started(ACCELERATE, "training.generator", two, errors)
    work = tmp_path / "two" / "run"
    kill_one(run, lambda: any(work.glob("checkpoint-*/complete")), errors)
    assert not (tmp_path / "two" / "metrics.json").exists()
    kept = max(int(place.parent.name[11:]) for place in work.glob("checkpoint-*/complete"))
    assert 4 <= kept < 24
    finished(started(ACCELERATE, "training.generator", two, errors), errors)
    alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_accelerate_trains_a_retriever_to_the_same_end_when_a_process_is_killed(
    settings: Callable[..., RetrieverSettings], world_dataset: RuleQADataset, tmp_path: Path
) -> None:
    texts = [document.text for document in world_dataset.corpus]
    still = tmp_path / "still"  # dropout would differ between one process and two
    make_encoder(train_tokenizer(texts, vocabulary=600), width=32, layers=1).save(str(still))
    one = settings(query=str(still), max_steps=60, every=4, out=str(tmp_path / "one"))
    one = changed(one, epochs=60)
    expected = train_retriever(one)
    two = changed(one, out=str(tmp_path / "two"))
    errors = tmp_path / "errors.txt"
    state = tmp_path / "two" / "run" / "state.pt"
    run = started(ACCELERATE, "training.retriever", two, errors)

    def begun() -> bool:
        return state.exists() and torch.load(state, weights_only=True)["step"] > 0

    kill_one(run, begun, errors)
    assert not (tmp_path / "two" / "metrics.json").exists()
    assert 0 < torch.load(state, weights_only=True)["step"] < 60
    finished(started(ACCELERATE, "training.retriever", two, errors), errors)
    metrics = read_json(tmp_path / "two" / "metrics.json")
    for row, other in zip(expected["history"], metrics["history"], strict=True):
        assert other["loss"] == pytest.approx(row["loss"], rel=1e-3) if "loss" in row else True
    assert metrics["best_step"] == expected["best_step"]
