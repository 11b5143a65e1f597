"""What a run reports while it goes on, read back from TensorBoard's own files."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.composition.config import Config
from rulerag.errors import ConfigError, MissingDependencyError
from tests.training.conftest import changed
from training.common.trackers import TENSORBOARD, check_trackers
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings
from training.retriever.run import train_retriever
from training.retriever.settings import RetrieverSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec(TENSORBOARD) is None, reason="tensorboard is not installed"
)


class Killed(Exception):
    """Stands for the end of a process."""


def killed_at(step: int) -> Callable[[int], None]:
    def kill(now: int) -> None:
        if now == step:
            raise Killed

    return kill


def shown(folder: str) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of every curve that TensorBoard shows of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(Path(folder) / TENSORBOARD))
    board.Reload()
    return {
        tag: [(event.step, event.value) for event in board.Scalars(tag)]
        for tag in board.Tags()["scalars"]
    }


@needs_tensorboard
def test_a_generator_that_was_killed_shows_every_step_once(
    make: Callable[..., GeneratorSettings],
) -> None:
    made = changed(make(), report_to=["tensorboard"], epochs=4)  # eight steps, two an epoch
    with pytest.raises(Killed):
        train_generator(made, after_step=killed_at(5))
    metrics = train_generator(made)
    curves = shown(made.out)
    assert [step for step, _ in curves["train/loss"]] == list(range(1, 9))
    rates = [value for _, value in curves["train/learning_rate"]]
    assert rates[0] == 0 and max(rates) == pytest.approx(1e-2) and rates[-1] < 2e-3
    for name in ("exact_match", "token_f1"):
        measured = {row["step"]: row[name] for row in metrics["history"]}
        assert dict(curves[f"eval/{name}"]) == pytest.approx(measured)
    losses = [value for _, value in curves["train/loss"]]
    means = [sum(losses[n : n + 2]) / 2 for n in range(0, 8, 2)]
    assert means == pytest.approx([row["loss"] for row in metrics["history"]], rel=1e-3)


@needs_tensorboard
def test_a_retriever_that_was_killed_shows_every_step_once(
    settings: Callable[..., RetrieverSettings],
) -> None:
    made = changed(settings(), report_to=["tensorboard"])  # six steps, validated at every second
    with pytest.raises(Killed):
        train_retriever(made, after_step=killed_at(3))
    metrics = train_retriever(made)
    curves = shown(made.out)
    assert [step for step, _ in curves["train/loss"]] == [1, 2, 3, 4, 5, 6]
    losses = [value for _, value in curves["train/loss"]]
    means = [sum(losses[n : n + 2]) / 2 for n in range(0, 6, 2)]
    assert means == pytest.approx([row["loss"] for row in metrics["history"][1:]], rel=1e-5)
    rates = [value for _, value in curves["train/learning_rate"]]
    falling = [1e-3 * left / 5.7 for left in (5, 4, 3, 2, 1)]  # 0.3 steps of warm-up
    assert rates == pytest.approx([1e-3 / 1.3, *falling])
    measured = {row["step"]: row["answer_recall@10"] for row in metrics["history"]}
    assert dict(curves["eval/answer_recall_at_10"]) == pytest.approx(measured)


def test_a_tracker_that_is_not_installed_is_named_before_any_work(
    make: Callable[..., GeneratorSettings], settings: Callable[..., RetrieverSettings]
) -> None:
    if importlib.util.find_spec("swanlab") is not None:
        pytest.skip("swanlab is installed")
    with pytest.raises(MissingDependencyError, match="'swanlab' is needed") as told:
        check_trackers(["swanlab"])
    assert told.value.hint == "pip install swanlab"
    made = changed(make(), report_to=["swanlab"])
    with pytest.raises(MissingDependencyError, match="swanlab"):
        train_generator(made)
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
