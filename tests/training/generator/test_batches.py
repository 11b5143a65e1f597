"""The batches of a step: little padding, and one update however the step is cut into passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import alike
from training.generator.batches import StepsByLength
from training.generator.data import make_instructions
from training.generator.model import open_reader, tokenized
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_each_epoch_draws_its_steps_and_puts_each_in_order_of_length() -> None:
    lengths = [5, 9, 2, 7, 7, 1, 8, 3, 6, 4]
    sampler = StepsByLength(lengths, per_step=4, seed=0)
    first, again = list(sampler), list(sampler)
    assert first == again and len(sampler) == 10
    sampler.set_epoch(1)
    second = list(sampler)
    assert sorted(first) == sorted(second) == list(range(10)), "every example once"
    steps = [[first[n : n + 4] for n in (0, 4, 8)], [second[n : n + 4] for n in (0, 4, 8)]]
    assert [set(step) for step in steps[0]] != [set(step) for step in steps[1]]
    for step in (*steps[0], *steps[1]):
        assert [lengths[n] for n in step] == sorted((lengths[n] for n in step), reverse=True)
    assert list(StepsByLength(lengths, 4, seed=1)) != first
    assert [lengths[n] for n in first] != sorted(lengths, reverse=True), "steps stay random"
    filled = StepsByLength(lengths, 4, seed=0, multiple=4)
    assert list(filled) == [*first, 10, 10] and len(filled) == 12


@pytest.mark.slow
@pytest.mark.parametrize("counts", [True, False], ids=["counted", "by a model that does not count"])
def test_accumulation_gives_the_update_of_the_bigger_batch(
    counts: bool,
    short: Callable[..., GeneratorSettings],
    world_dataset: RuleQADataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps of eight and of four examples: a mean over the tokens of a step, not of a pass."""
    changes = {"samples": 12, "epochs": 3, "learning_rate": 1e-3}
    whole = short(batch_size=8, out=str(tmp_path / "whole"), **changes)
    reader = open_reader(whole)
    rows = tokenized(reader, make_instructions(whole, world_dataset).examples, 400)
    answers = {sum(label != -100 for label in row["labels"]) for row in rows}
    assert len(answers) > 1, "answers of different lengths"
    assert train_generator(whole)["steps"] == 6
    monkeypatch.setattr(LlamaForCausalLM, "accepts_loss_kwargs", counts, raising=False)
    train_generator(short(batch_size=2, accumulation=4, out=str(tmp_path / "parts"), **changes))
    alike(tmp_path / "whole", tmp_path / "parts")
