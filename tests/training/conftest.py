"""A small dataset over a generated world, and a tiny encoder that can read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.ruleqa import RuleQASettings, build
from rulerag.dataset import RuleQADataset
from rulerag.kg.worlds import World
from training.settings import RetrieverSettings
from training.tiny import make_encoder, train_tokenizer


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


@pytest.fixture(scope="session")
def encoder_folder(world_dataset: RuleQADataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With dropout, so that resuming must bring back its random numbers too."""
    folder = tmp_path_factory.mktemp("tiny-encoder")
    texts = [document.text for document in world_dataset.corpus]
    texts += [rule.text for rule in world_dataset.rules]
    tokenizer = train_tokenizer(texts, vocabulary=600)
    make_encoder(tokenizer, width=32, layers=1, dropout=0.1, seed=1).save(str(folder))
    return folder


@pytest.fixture
def settings(
    world_folder: Path, encoder_folder: Path, tmp_path: Path
) -> Callable[..., RetrieverSettings]:
    """A function from changes to settings of a short run."""

    def make(**changes: object) -> RetrieverSettings:
        values: dict[str, object] = {
            "path": str(world_folder),
            "query": str(encoder_folder),
            "out": str(tmp_path / "out"),
            "learning_rate": 1e-3,
            "batch_size": 8,
            "max_steps": 6,
            "every": 2,
            "tuning_share": 0.2,
            "device": "cpu",
        }
        return RetrieverSettings(**{**values, **changes})  # type: ignore[arg-type]

    return make
