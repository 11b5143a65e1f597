"""What a run reports while it goes on, read back from TensorBoard's own files."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.composition.config import Config
from rulerag.errors import ConfigError, MissingDependencyError
from tests.training.conftest import changed
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings
from training.retriever.run import train_retriever
from training.retriever.settings import RetrieverSettings

needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed"
)


@needs_tensorboard
def test_tensorboard_shows_losses_rates_and_measures(
    settings: Callable[..., RetrieverSettings],
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    made = changed(settings(), report_to=["tensorboard"])  # six steps, validated at every second
    metrics = train_retriever(made)
    (folder,) = (Path(made.out) / "run" / "runs").iterdir()
    board = EventAccumulator(str(folder))
    board.Reload()

    def curve(tag: str) -> list[float]:
        return [event.value for event in board.Scalars(tag)]

    losses = curve("train/loss")
    means = [sum(losses[n : n + 2]) / 2 for n in range(0, 6, 2)]
    assert means == pytest.approx([row["loss"] for row in metrics["history"][1:]], rel=1e-3)
    rates = pytest.approx([0, 1e-3, 8e-4, 6e-4, 4e-4, 2e-4])
    assert curve("train/learning_rate") == rates, "warm, then falling"
    recalls = [row["answer_recall@10"] for row in metrics["history"]]
    assert curve("eval/answer_recall@10") == pytest.approx(recalls)


def test_a_tracker_that_is_not_installed_is_named_before_any_work(
    make: Callable[..., GeneratorSettings], settings: Callable[..., RetrieverSettings]
) -> None:
    if importlib.util.find_spec("swanlab") is not None:
        pytest.skip("swanlab is installed")
    made = changed(make(), report_to=["swanlab"])
    with pytest.raises(MissingDependencyError, match="'swanlab' is needed") as told:
        train_generator(made)
    assert told.value.hint == "pip install swanlab"
    with pytest.raises(MissingDependencyError, match="swanlab"):
        train_retriever(changed(settings(), report_to=["swanlab"]))
    assert not Path(made.out).exists()


def test_trackers_do_not_change_what_a_folder_is_for(
    settings: Callable[..., RetrieverSettings],
) -> None:
    made = settings()
    assert changed(made, report_to=["wandb"]).fingerprint == made.fingerprint
    stated = made.model_dump(mode="json") | {"report_to": "tensorboard"}
    assert RetrieverSettings.from_config(Config(stated)).report_to == ("tensorboard",)
    stated["report_to"] = "none"
    assert RetrieverSettings.from_config(Config(stated)).report_to == ()
    stated["report_to"] = ["tensorbord"]
    with pytest.raises(ConfigError, match="report_to"):
        RetrieverSettings.from_config(Config(stated))
