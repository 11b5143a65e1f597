"""Two CPU processes: they train as one with the doubled batch, and what one finds all know."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rulerag.errors import ConfigError
from rulerag.io import read_json
from tests.training.conftest import alike, changed, weights
from training.common.processes import Processes, check_precision, own_device
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Make = Callable[..., GeneratorSettings]
Two = Callable[[Callable[[], object]], list[int | None]]


class Killed(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"rank": 0}, marks=pytest.mark.slow),
        pytest.param({"gradient_checkpointing": True}, marks=pytest.mark.slow),
        {"samples": 11, "epochs": 3},  # eight examples a step, then three: a process has none
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


@pytest.mark.slow
def test_two_killed_processes_go_on_and_one_alone_may_not(
    make: Make, tmp_path: Path, two_processes: Two
) -> None:
    changes = {"batch_size": 4, "epochs": 3, "max_queries": 3}
    whole, cut = (make(**changes, out=str(tmp_path / name)) for name in ("whole", "cut"))

    def kill(step: int) -> None:
        if step == 4:
            raise Killed

    assert two_processes(lambda: train_generator(whole)) == [0, 0]
    assert two_processes(lambda: train_generator(cut, after_step=kill)) == [1, 1]
    # A checkpoint that was cut off while it was written.
    (tmp_path / "cut" / "run" / "checkpoint-5").mkdir()
    with pytest.raises(ConfigError, match="that 2 processes began, and here are 1"):
        train_generator(cut)
    assert two_processes(lambda: train_generator(cut)) == [0, 0]
    first, second = (read_json(tmp_path / name / "metrics.json") for name in ("whole", "cut"))
    assert second == first and len(first["history"]) == 3
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert two_processes(lambda: train_generator(cut)) == [0, 0], "a finished run is not repeated"


def test_what_one_process_finds_wrong_ends_all(
    make: Make, tmp_path: Path, two_processes: Two
) -> None:
    def refused(out: str) -> None:
        with pytest.raises(ConfigError, match="other settings"):
            train_generator(make(out=out, seed=1))

    def diverged() -> None:
        from training.common.checkpoint import TrainingError

        with pytest.raises(TrainingError, match="is kept; with a lower learning_rate"):
            train_generator(
                make(learning_rate=1e38, max_grad_norm=1e30, warmup_steps=2, rank=0, batch_size=8)
            )

    train_generator(make(out=str(tmp_path / "done"), max_steps=1))
    assert two_processes(lambda: refused(str(tmp_path / "done"))) == [0, 0]
    assert two_processes(diverged) == [0, 0]


def test_processes_share_and_gather(two_processes: Two, tmp_path: Path) -> None:
    def work() -> None:
        several = Processes("cpu")
        items = list(range(5))
        mine = several.share(items)
        assert mine == items[several.rank :: 2]
        assert several.gather([item * 10 for item in mine]) == [0, 10, 20, 30, 40]
        assert several.first(lambda: several.rank) == 0
        assert several.total(torch.tensor(several.rank + 1.0)) == 3
        with pytest.raises(ConfigError, match="says the first"):
            several.first(_refuse)
        several.end()

    assert two_processes(work) == [0, 0]
    assert Processes("cpu").gather([3, 4]) == [3, 4] and Processes("cpu").total(torch.ones(())) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="each process takes a GPU here")
def test_processes_meet_without_a_gpu_even_where_no_device_is_named(two_processes: Two) -> None:
    def work() -> None:
        several = Processes()
        assert several.gather([several.rank]) == [0, 1], "two first processes would both write"
        several.end()

    assert two_processes(work) == [0, 0]


def _refuse() -> None:
    raise ConfigError("says the first")


def test_a_launcher_that_shards_the_model_is_refused(
    two_processes: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")

    def work() -> None:
        with pytest.raises(ConfigError, match="shards the model by FSDP"):
            Processes("cpu")

    assert two_processes(work) == [0, 0]


def test_several_processes_of_mpi_are_several(
    two_processes: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`accelerate launch --cpu --mpirun_hostfile …` names them as MPI does."""

    def work() -> None:
        for name, mpi in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE"), ("LOCAL_WORLD_SIZE", None)):
            os.environ[f"OMPI_COMM_WORLD_{mpi or 'LOCAL_SIZE'}"] = os.environ.pop(name)
        os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = os.environ.pop("LOCAL_RANK")
        several = Processes("cpu")
        assert several.gather([several.rank]) == [0, 1]
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


def test_devices_are_each_process_own() -> None:
    own_device("", gpus=0, local_world=4)
    own_device("cuda", gpus=4, local_world=4)
    own_device("cuda:1", gpus=2, local_world=1)
    own_device("cpu", gpus=1, local_world=2)
    with pytest.raises(ConfigError, match="2 processes on this machine, and 1 GPU") as told:
        own_device("cuda", gpus=1, local_world=2)
    assert "device=cpu" in str(told.value.hint)
    with pytest.raises(ConfigError, match="2 processes cannot share cuda:0"):
        own_device("cuda:0", gpus=2, local_world=2)
    with pytest.raises(ConfigError, match="there is no GPU here"):
        own_device("cuda", gpus=0, local_world=1)
    with pytest.raises(ConfigError, match="device"):
        Processes("gpu")


def test_a_precision_that_a_device_lacks_is_named() -> None:
    check_precision("bf16", "cpu", bf16=False, otherwise="fp16")
    check_precision("fp16", "cuda:0", bf16=False, otherwise="fp16")
    check_precision("bf16", "cuda:0", bf16=True, otherwise="fp16")
    with pytest.raises(ConfigError, match="does not compute in bf16") as told:
        check_precision("bf16", "cuda:0", bf16=False, otherwise="fp16")
    assert told.value.hint == "precision=fp16" and told.value.key == "training.precision"
    with pytest.raises(ConfigError, match="fp16 is not trained on cpu"):
        Processes("cpu", "fp16")
