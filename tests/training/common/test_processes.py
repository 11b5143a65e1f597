"""The generator on two CPU processes: as one with the doubled batch, and one set of files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rulerag.errors import ConfigError
from rulerag.io import read_json
from tests.training.conftest import SECONDS, changed
from training.common.processes import Processes, check_precision, own_device
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROOT = Path(__file__).resolve().parents[3]
Make = Callable[..., GeneratorSettings]
Two = Callable[[Callable[[], object]], list[int | None]]


class Killed(Exception):
    """Stands for the end of a process."""


@pytest.fixture(scope="session")
def still_folder(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny LLaMA without dropout, which would differ between one process and two."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("still-llama")
    model = AutoModelForCausalLM.from_pretrained(base_folder)
    model.config.attention_dropout = 0.0
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base_folder).save_pretrained(folder)
    return folder


@pytest.fixture
def short(make: Make, still_folder: Path) -> Make:
    def made(**changes: object) -> GeneratorSettings:
        values = {"base": str(still_folder), "dropout": 0.0, "batch_size": 4, "max_queries": 5}
        return make(**{**values, "epochs": 2, **changes})

    return made


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    (place,) = folder.glob("*.safetensors")
    return load_file(place)


LOCK = ".rulerag.lock"


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != LOCK}


def alike(one: Path, two: Path) -> None:
    """Two finished folders hold the same run, up to rounding."""
    first, second = (read_json(folder / "metrics.json") for folder in (one, two))
    for row, other in zip(first["history"], second["history"], strict=True):
        assert other == pytest.approx(row, rel=1e-3)
    assert second["best_step"] == first["best_step"] and second["steps"] == first["steps"]
    assert files(one) == files(two)
    start, end = weights(one), weights(two)
    assert start.keys() == end.keys()
    for name, tensor in start.items():
        torch.testing.assert_close(end[name], tensor, rtol=1e-3, atol=1e-4)


def test_torchrun_trains_what_one_process_does_with_the_doubled_batch(
    short: Make, tmp_path: Path
) -> None:
    one = short(batch_size=8, out=str(tmp_path / "one"))
    train_generator(one)
    (tmp_path / "run.yaml").write_text(
        f"dataset: {{path: {one.dataset.path}}}\nmodel: {{base: {one.model.base}}}\n"
        "lora: {dropout: 0.0}\ndata: {samples: 16}\n"
        "selector: {type: head, max_rules: 2}\n"
        "retriever: {type: guided, compose: substitute, retriever: {type: bm25}}\n"
        "top_k: 2\ndevice: cpu\n"
        "training: {batch_size: 4, epochs: 2, max_length: 400, warmup_steps: 1, "
        "learning_rate: 0.01}\n"
        "validation: {max_queries: 5, every_epochs: 1, max_new_tokens: 12}\n"
        f"out: {tmp_path / 'two'}\n",
        encoding="utf-8",
    )
    command = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command += ["-m", "training.generator", str(tmp_path / "run.yaml"), "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            written, errors = run.communicate(timeout=2 * SECONDS)  # imports take their time
        except subprocess.TimeoutExpired:
            run.terminate()  # the launcher ends those that it started
            pytest.fail("\n".join(run.communicate(timeout=60)))
    assert run.returncode == 0, errors
    assert written.count("written to") == 1, "the first process speaks for all"
    alike(tmp_path / "one", tmp_path / "two")
    assert read_json(tmp_path / "two" / "metrics.json")["processes"] == 2
    assert "on 2 processes" in (tmp_path / "two" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("changes", [{"rank": 0}, {"gradient_checkpointing": True}], ids=str)
def test_two_processes_train_every_weight_and_save_memory(
    changes: dict[str, object], short: Make, tmp_path: Path, two_processes: Two
) -> None:
    one = short(batch_size=8, out=str(tmp_path / "one"), learning_rate=1e-3, **changes)
    both = changed(one, batch_size=4, out=str(tmp_path / "two"))
    assert two_processes(lambda: train_generator(both)) == [0, 0]
    train_generator(one)
    alike(tmp_path / "one", tmp_path / "two")


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
