"""Two CPU processes: they train as one with the doubled batch, and what one finds all know."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from transformers import TrainerCallback

from rulerag.errors import ConfigError
from rulerag.io import read_json
from tests.training.conftest import SECONDS, KilledAt, alike, changed, weights
from training.common.checkpoint import TrainingError
from training.common.processes import Processes, check_device, check_precision
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings
from training.retriever.run import train_retriever
from training.retriever.settings import RetrieverSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Make = Callable[..., GeneratorSettings]
Two = Callable[[Callable[[], object]], list[int | None]]
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"rank": 0}, marks=pytest.mark.slow),
        pytest.param({"gradient_checkpointing": True}, marks=pytest.mark.slow),
        # Eight examples a step, then three: a process has none.
        pytest.param({"samples": 11}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_two_processes_train_every_weight_save_memory_and_share_what_is_left(
    changes: dict[str, object], short: Make, tmp_path: Path, two_processes: Two
) -> None:
    one = short(batch_size=8, out=str(tmp_path / "one"), learning_rate=1e-3, **changes)
    both = changed(one, batch_size=4, out=str(tmp_path / "two"))
    assert two_processes(lambda: train_generator(both)) == [0, 0]
    train_generator(one)
    alike(tmp_path / "one", tmp_path / "two")
    assert read_json(tmp_path / "two" / "metrics.json")["processes"] == 2
    assert "on 2 processes" in (tmp_path / "two" / "README.md").read_text(encoding="utf-8")


def sharding(work: Callable[[], object]) -> Callable[[], object]:
    """Some work as accelerate's launcher starts it for FSDP2."""

    def sharded() -> None:
        os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
        os.environ |= {"FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP"}
        work()

    return sharded


@pytest.mark.parametrize(
    "changes",
    [{}, pytest.param({"rank": 0, "gradient_checkpointing": True}, marks=pytest.mark.slow)],
    ids=str,
)
def test_two_processes_with_half_of_every_layer_train_as_one(
    changes: dict[str, object], short: Make, tmp_path: Path, two_processes: Two
) -> None:
    one = short(batch_size=8, out=str(tmp_path / "one"), learning_rate=1e-3, **changes)
    both = changed(one, batch_size=4, out=str(tmp_path / "two"))

    def work() -> None:
        parts: list[int] = []

        class Parts(TrainerCallback):
            def on_step_end(self, *_: Any, model: Any, **__: Any) -> None:
                weight = next(iter(model.parameters()))
                parts.append(2 * weight.to_local().numel() - weight.numel())

        train_generator(both, callbacks=[Parts()])
        assert parts and not any(parts), "each holds a half"

    assert two_processes(sharding(work)) == [0, 0]
    train_generator(one)
    alike(tmp_path / "one", tmp_path / "two", 1e-4)


@pytest.mark.slow
def test_a_model_that_no_step_made_better_is_kept_as_it_was(
    short: Make, tmp_path: Path, two_processes: Two
) -> None:
    for rank in (0, 8):
        out = tmp_path / str(rank)
        worse = short(rank=rank, learning_rate=1e-12, batch_size=4, out=str(out), max_queries=2)
        assert two_processes(sharding(partial(train_generator, worse))) == [0, 0]
        train_generator(changed(worse, out=f"{out}-one", batch_size=8))
        alike(Path(f"{out}-one"), out)


def test_quantized_weights_are_not_sharded(short: Make, two_processes: Two) -> None:
    def work() -> None:
        with pytest.raises(ConfigError, match="this one is needed whole"):
            train_generator(changed(short(), quantization="4bit"))

    assert two_processes(sharding(work)) == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("way", [lambda work: work, sharding], ids=["whole", "sharded"])
def test_two_killed_processes_go_on_and_one_alone_may_not(
    way: Callable[[Callable[[], object]], Callable[[], object]],
    make: Make,
    tmp_path: Path,
    two_processes: Two,
) -> None:
    changes = {"batch_size": 4, "epochs": 3, "max_queries": 3}
    whole, cut = (make(**changes, out=str(tmp_path / name)) for name in ("whole", "cut"))
    assert two_processes(way(lambda: train_generator(whole))) == [0, 0]
    assert two_processes(way(lambda: train_generator(cut, callbacks=[KilledAt(4)]))) == [1, 1]
    with pytest.raises(ConfigError, match=r"that 2 .*began, and here are 1"):
        train_generator(cut)
    assert two_processes(way(lambda: train_generator(cut))) == [0, 0]
    first, second = (read_json(tmp_path / name / "metrics.json") for name in ("whole", "cut"))
    assert second == first and len(first["history"]) == 4
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_one_process_finds_wrong_ends_all(
    make: Make, tmp_path: Path, two_processes: Two
) -> None:
    wild = make(learning_rate=1e38, max_grad_norm=1e30, warmup_steps=2, rank=0, batch_size=8)

    def work() -> None:
        with pytest.raises(TrainingError, match="is kept; with a lower learning_rate"):
            train_generator(wild)
        with pytest.raises(ConfigError, match="other settings"):
            train_generator(changed(wild, seed=1))

    assert two_processes(work) == [0, 0]


def test_processes_share_gather_and_take_turns(two_processes: Two, tmp_path: Path) -> None:
    def refuse() -> None:
        raise ConfigError("says the first")

    def work() -> None:
        several = Processes()  # of the CPU where no device is named, too
        items = list(range(5))
        parts: list[list[int]] = []
        tens = several.divided(lambda mine: parts.append(mine) or [10 * n for n in mine], items)
        assert tens == [0, 10, 20, 30, 40] and parts == [items[:3], items[3:]][several.rank :][:1]
        assert several.divided(lambda mine: mine, [7]) == [7], "one has nothing to do"
        assert several.first(lambda: several.rank) == 0
        place = tmp_path / "kept"
        there = several.in_turn(lambda: place.exists() or place.touch())
        assert bool(there) == (several.rank == 1), "who comes later finds what the first kept"
        with pytest.raises(ConfigError, match="says the first"):
            several.in_turn(refuse)
        several.end()

    if torch.cuda.device_count() < 2:
        assert two_processes(work) == [0, 0]
    assert Processes("cpu").divided(lambda mine: mine, [3, 4]) == [3, 4]


def test_several_processes_of_mpi_are_several_and_shards_are_refused(
    two_processes: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`accelerate launch --cpu --mpirun_hostfile …` names them as MPI does."""

    def work() -> None:
        os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1"}
        with pytest.raises(ConfigError, match="by FSDP, and FSDP2 alone does that here"):
            Processes("cpu", shards=True)
        os.environ["FSDP_VERSION"] = "2"
        with pytest.raises(ConfigError, match="by FSDP, and this one is needed whole"):
            Processes("cpu")
        del os.environ["ACCELERATE_USE_FSDP"]
        for name, mpi in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE"), ("LOCAL_WORLD_SIZE", None)):
            os.environ[f"OMPI_COMM_WORLD_{mpi or 'LOCAL_SIZE'}"] = os.environ.pop(name)
        os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = os.environ.pop("LOCAL_RANK")
        several = Processes("cpu")
        assert several.divided(lambda mine: [several.rank for _ in mine], "ab") == [0, 1]
        several.end()

    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    assert two_processes(work) == [0, 0]


def test_a_launcher_that_starts_one_process_for_several_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`accelerate launch --cpu --num_processes 2` without MPI: what it tells the one process."""
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    Processes("cpu")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(ConfigError, match="starts one process") as told:
        Processes("cpu")
    assert "--multi_gpu --num_processes 2" in str(told.value.hint)


def test_devices_and_precisions_that_do_not_go_are_named() -> None:
    for device, gpus, world in (("", 0, 4), ("cuda", 4, 4), ("cpu", 1, 2)):
        check_device(device, gpus=gpus, local_world=world)
    for device, gpus, world, message in (
        ("cuda", 1, 2, "2 processes on this machine, and 1 GPU"),
        ("", 1, 2, "2 processes on this machine, and 1 GPU"),
        ("cuda", 0, 1, "there is no GPU here"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_device(device, gpus=gpus, local_world=world)
    for precision, device, bf16 in (("bf16", "cpu", False), ("fp16", "cuda", False)):
        check_precision(precision, device, bf16=bf16, otherwise="fp16")
    with pytest.raises(ConfigError, match="does not compute in bf16") as told:
        check_precision("bf16", "cuda", bf16=False, otherwise="fp16")
    assert told.value.hint == "precision=fp16" and told.value.key == "training.precision"


@pytest.mark.slow
def test_launchers_go_on_to_the_same_end_when_a_process_is_killed(
    settings: Callable[..., RetrieverSettings], still_encoder: Path, tmp_path: Path
) -> None:
    """accelerate begins, and torchrun goes on."""
    one = settings(query=str(still_encoder), max_steps=60, every=4, out=str(tmp_path / "one"))
    one = changed(one, epochs=60)
    expected = train_retriever(one)
    two = changed(one, out=str(tmp_path / "two"))
    config, errors = tmp_path / "run.yaml", tmp_path / "errors.txt"
    config.write_text(json.dumps(two.model_dump(mode="json")), encoding="utf-8")

    def started(launcher: str) -> subprocess.Popen[str]:
        with open(errors, "w", encoding="utf-8") as written:
            return subprocess.Popen(
                [sys.executable, "-m", *launcher.split(), "-m", "training.retriever", str(config)],
                env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=written,
                text=True,
            )

    # On the CPU it starts two by this name too; `--cpu` starts one (see training.common.processes).
    run = started(
        "accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1 "
        "--mixed_precision no --dynamo_backend no --main_process_port 0"
    )
    end = time.monotonic() + 2 * SECONDS
    while not any((tmp_path / "two" / "run").glob("checkpoint-*/complete")):
        assert run.poll() is None and time.monotonic() < end, errors.read_text()
        time.sleep(0.01)
    for process in psutil.Process(run.pid).children(recursive=True):
        if process.environ().get("RANK") == "1":
            process.send_signal(signal.SIGKILL)
            break
    run.communicate(timeout=SECONDS)
    assert run.returncode, "the launcher says that a process failed"
    assert not (tmp_path / "two" / "metrics.json").exists()
    run = started("torch.distributed.run --standalone --nproc_per_node 2")
    try:
        written, _ = run.communicate(timeout=2 * SECONDS)  # imports take their time
    except subprocess.TimeoutExpired:
        run.terminate()  # the launcher ends those that it started
        run.communicate(timeout=60)
    assert run.returncode == 0, errors.read_text()
    assert written.count("written to") == 1, "the first process speaks for all"
    metrics = read_json(tmp_path / "two" / "metrics.json")
    for row, other in zip(expected["history"], metrics["history"], strict=True):
        assert other == pytest.approx(row, rel=1e-3, abs=1e-2)


@pytest.mark.slow
def test_the_files_of_accelerate_start_what_they_say(short: Make, tmp_path: Path) -> None:
    """The one for eight GPUs, with two processes on a CPU."""
    folder = ROOT / "configs" / "training" / "accelerate"
    for name, processes, kind in (
        ("1-gpu", 1, "NO"),
        ("8-gpus", 8, "FSDP"),
        ("64-gpus", 64, "FSDP"),
    ):
        read = load_config_from_file(str(folder / f"{name}.yaml"))
        assert (read.num_processes, read.distributed_type) == (processes, kind)
        assert kind == "NO" or read.fsdp_config["fsdp_version"] == 2
    config = tmp_path / "run.yaml"
    settings = short(batch_size=4, out=str(tmp_path / "out"))
    config.write_text(json.dumps(settings.model_dump(mode="json")), encoding="utf-8")
    launch = "-m accelerate.commands.launch --num_processes 2 --main_process_port 0 --config_file"
    subprocess.run(
        [
            *(sys.executable, *launch.split(), str(folder / "8-gpus.yaml")),
            *("-m", "training.generator", str(config)),
        ],
        check=True,
        cwd=ROOT,
        timeout=SECONDS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert read_json(tmp_path / "out" / "metrics.json")["processes"] == 2
