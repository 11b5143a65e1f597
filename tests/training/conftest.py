"""A small dataset over a generated world, and a tiny encoder that can read it."""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback

from benchmarks.speed.generation import small_llama
from rulerag.folders import LOCK
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.io import read_json
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World
from rulerag.types import GenerationRequest, Query
from training.common.settings import TrainingSettings
from training.common.tiny import make_encoder, train_tokenizer
from training.generator.settings import GeneratorSettings
from training.retriever.settings import RetrieverSettings

RETRIEVAL: dict[str, dict[str, Any]] = {
    "selector": {"type": "head", "max_rules": 2},
    "retriever": {"type": "guided", "compose": "substitute", "retriever": {"type": "bm25"}},
}
S = TypeVar("S", bound=TrainingSettings)


def changed(settings: S, **changes: object) -> S:
    """Settings with some changed: each by its own name, in the section that has it."""
    sections = settings.model_dump()
    for name, value in changes.items():
        owners = [s for s in sections.values() if isinstance(s, dict) and name in s]
        (sections if name in sections else owners[0])[name] = value
    return type(settings)(**sections)


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One thread (more of them only wait for each other), and a cache of the test's own."""
    torch.set_num_threads(1)
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def world_dataset() -> RuleQADataset:
    settings = RuleQASettings(num_queries=40, miner="tlogic", min_support=5, min_confidence=0.1)
    return build("ruleqa-i", World.generate(4000, seed=3).graph, settings=settings)


@pytest.fixture(scope="session")
def world_folder(world_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world-dataset")
    world_dataset.save(folder)
    return folder


def _encoder(dataset: RuleQADataset, folder: Path, dropout: float) -> Path:
    texts = [document.text for document in dataset.corpus] + [rule.text for rule in dataset.rules]
    tokenizer = train_tokenizer(texts, vocabulary=600)
    make_encoder(tokenizer, width=32, layers=1, dropout=dropout, seed=1).save(str(folder))
    return folder


@pytest.fixture(scope="session")
def encoder_folder(world_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With dropout, so that resuming must bring back its random numbers too."""
    return _encoder(world_dataset, tmp_path_factory.mktemp("encoder"), 0.1)


@pytest.fixture(scope="session")
def still_encoder(world_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without dropout, which would differ between one process and two."""
    return _encoder(world_dataset, tmp_path_factory.mktemp("still-encoder"), 0.0)


@pytest.fixture
def settings(
    world_folder: Path, encoder_folder: Path, tmp_path: Path
) -> Callable[..., RetrieverSettings]:
    """A function from changes to settings of a short run."""

    def make(**changes: object) -> RetrieverSettings:
        short = RetrieverSettings(
            dataset={"path": str(world_folder)},
            model={"query": str(encoder_folder)},
            data={"tuning_share": 0.2},
            training={"learning_rate": 1e-3, "batch_size": 8, "max_steps": 6},
            validation={"every": 2},
            out=str(tmp_path / "out"),
            device="cpu",
        )
        return changed(short, **changes)

    return make


def _llama(dataset: RuleQADataset, folder: Path, dropout: float) -> Path:
    texts = [document.text for document in dataset.corpus]
    rule = next(iter(dataset.rules))
    example = GenerationRequest(Query("q", "what does it do ?"), rules=(rule,))
    texts += [PromptTemplate().render(example).text, *(r.text for r in dataset.rules)]
    _, tokenizer = small_llama(texts)
    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,  # the head is never trained by LoRA, and must reach high scores
        attention_dropout=dropout,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def base_folder(world_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny LLaMA with random weights, dropout and a tokenizer of the dataset's texts."""
    return _llama(world_dataset, tmp_path_factory.mktemp("llama"), 0.1)


@pytest.fixture(scope="session")
def still_folder(world_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without dropout."""
    return _llama(world_dataset, tmp_path_factory.mktemp("still-llama"), 0.0)


@pytest.fixture
def make(world_folder: Path, base_folder: Path, tmp_path: Path) -> Callable[..., GeneratorSettings]:
    """A function from changes to settings of a short run of the generator."""

    def made(**changes: object) -> GeneratorSettings:
        short = GeneratorSettings(
            dataset={"path": str(world_folder)},
            model={"base": str(base_folder)},
            lora={"rank": 8},
            data={"samples": 16},
            **RETRIEVAL,
            top_k=2,
            training={
                "epochs": 4,
                "max_length": 400,
                "learning_rate": 1e-2,
                "warmup_steps": 1,
            },
            validation={"every": 0.25, "max_queries": 4, "max_new_tokens": 12},
            out=str(tmp_path / "out"),
            device="cpu",
        )
        return changed(short, **changes)

    return made


@pytest.fixture
def short(
    make: Callable[..., GeneratorSettings], still_folder: Path
) -> Callable[..., GeneratorSettings]:
    """The same, without dropout and with a batch of four."""

    def made(**changes: object) -> GeneratorSettings:
        values = {
            "base": str(still_folder),
            "dropout": 0.0,
            "batch_size": 4,
            "max_queries": 5,
            "every": 0.5,
        }
        return make(**{**values, "epochs": 2, **changes})

    return made


class Killed(Exception):
    """Stands for the end of a process."""


class KilledAt(TrainerCallback):
    """Ends a training behind a step, after what is done there: it validates and saves first."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step and "loss" in state.log_history[-1]:
            raise Killed


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    """What a finished folder of a generator holds."""
    from safetensors.torch import load_file

    (place,) = Path(folder).glob("*.safetensors")
    return load_file(place)


def files(folder: Path) -> set[str]:
    """Every file of a folder but the lock of who writes there."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != LOCK}


def alike(one: Path, two: Path, tolerance: float = 1e-3) -> None:
    """Two finished folders of a generator hold the same run, up to rounding."""
    first, second = (read_json(folder / "metrics.json") for folder in (one, two))
    for row, other in zip(first["history"], second["history"], strict=True):
        assert other == pytest.approx(row, rel=tolerance)
    assert second["best_step"] == first["best_step"] and second["steps"] == first["steps"]
    assert files(one) == files(two)
    start, end = weights(one), weights(two)
    assert start.keys() == end.keys()
    for name, tensor in start.items():
        torch.testing.assert_close(end[name], tensor, rtol=1e-3, atol=1e-4)


SECONDS = 120
"""How long processes that wait for each other may take; they are killed then."""


@pytest.fixture
def two_processes(tmp_path: Path) -> Callable[[Callable[[], object]], list[int | None]]:
    """A function that runs another one in two processes, as a launcher would, and says how each
    ended; a test whose processes hang fails with what they wrote, and where they stood."""
    importlib.import_module("accelerate")  # once, before the fork

    def run(work: Callable[[], object]) -> list[int | None]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        fork = multiprocessing.get_context("fork")
        outputs = [tmp_path / f"rank-{rank}.txt" for rank in range(2)]
        pair = [
            fork.Process(target=_one_of_two, args=(rank, port, work, output))
            for rank, output in enumerate(outputs)
        ]
        end = time.monotonic() + SECONDS
        for process in pair:
            process.start()
        for process in pair:
            process.join(timeout=max(0.0, end - time.monotonic()))
        hang = [process.is_alive() for process in pair]
        for process in pair:
            process.kill()
            process.join()
        written = "\n".join(output.read_text(errors="replace") for output in outputs)
        if any(hang):
            pytest.fail(f"still alive after {SECONDS} seconds, by rank: {hang}\n{written}")
        sys.stderr.write(written)
        return [process.exitcode for process in pair]

    return run


def _one_of_two(rank: int, port: int, work: Callable[[], object], output: Path) -> None:
    """What ``accelerate launch`` and ``torchrun`` set up, in a fork: nothing is imported again."""
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        WORLD_SIZE="2",
        LOCAL_WORLD_SIZE="2",
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        OMP_NUM_THREADS="1",
    )
    torch.set_num_threads(1)
    # What earlier tests of this process told accelerate (one process) would be inherited.
    state = importlib.import_module("accelerate.state")
    state.AcceleratorState._reset_state(reset_partial_state=True)
    with open(output, "w", buffering=1) as file, redirect_stdout(file), redirect_stderr(file):
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        faulthandler.dump_traceback_later(SECONDS - 5, file=file)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            raise
