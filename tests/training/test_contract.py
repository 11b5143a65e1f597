"""What every training by a library's trainer promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rulerag.errors import ConfigError
from rulerag.io import read_json
from tests.training.conftest import Killed, KilledAt, changed, weights
from training.common.checkpoint import TrainingError
from training.generator.run import train_generator
from training.retriever.run import train_retriever

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT, TRL and accelerate
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Training = tuple[Callable[..., dict[str, Any]], Callable[..., Any], dict[str, object]]


@pytest.fixture(params=["retriever", "generator"])
def training(
    request: pytest.FixtureRequest, settings: Callable[..., Any], make: Callable[..., Any]
) -> Training:
    """What trains, its settings, and changes of them with which no loss stays a number."""
    wild: dict[str, object] = {"max_grad_norm": 1e30}
    if request.param == "retriever":
        wild |= {"learning_rate": 1e30, "every": 1, "warmup_share": 0.5}
        return train_retriever, settings, wild
    wild |= {"learning_rate": 1e38, "warmup_steps": 2, "rank": 0, "batch_size": 16}
    return train_generator, make, wild


def test_a_killed_run_goes_on_to_the_same_weights(training: Training, tmp_path: Path) -> None:
    """With dropout: its random numbers come back too."""
    train, make, _ = training
    whole, cut = make(out=str(tmp_path / "whole")), make(out=str(tmp_path / "cut"))
    expected = train(whole)
    with pytest.raises(Killed):
        train(cut, callbacks=[KilledAt(5)])
    # A checkpoint that was cut off while it was written.
    (tmp_path / "cut" / "run" / "checkpoint-6").mkdir()
    resumed = train(cut)
    assert resumed["history"] == expected["history"], "losses and measures of every validation"
    one, other = weights(whole.out), weights(cut.out)
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    assert not list((tmp_path / "cut" / "run").glob("checkpoint-*")), "it is not needed any more"
    assert train(cut) == read_json(tmp_path / "cut" / "metrics.json"), "it is not trained again"
    with pytest.raises(ConfigError, match="other settings"):
        train(changed(cut, seed=1))


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_state(training: Training) -> None:
    train, make, wild = training
    made = make(**wild)
    with pytest.raises(TrainingError, match=r"the checkpoint checkpoint-\d is kept") as told:
        train(made)
    assert "with a lower learning_rate" in str(told.value.hint)
    kept = [place.parent for place in (Path(made.out) / "run").glob("checkpoint-*/complete")]
    assert kept
    assert all(bool(w.isfinite().all()) for place in kept for w in weights(place).values())
    assert not (Path(made.out) / "metrics.json").exists()
