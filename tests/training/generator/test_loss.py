"""The loss of fine-tuning equals that of transformers over whole sequences; steps by length."""

from __future__ import annotations

import pytest
import torch

from benchmarks.speed.generation import small_llama
from training.generator.batches import StepsByLength
from training.generator.loss import IGNORED, LeftPadded, answer_loss
from training.generator.model import adapter_config, restore_start
from training.generator.settings import GeneratorSettings

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = [
    {"input_ids": [5, 6, 7, 8, 9, 10, 11], "labels": [IGNORED] * 5 + [10, 11]},
    {"input_ids": [12, 13, 14, 15], "labels": [IGNORED, 13, 14, 15]},
]


def test_the_loss_and_its_gradient_are_those_of_each_example_alone() -> None:
    model, tokenizer = small_llama(["a b c"], width=32, layers=2)
    batch = LeftPadded(tokenizer)(ROWS)
    assert batch["input_ids"].tolist()[1] == [2, 2, 2, 12, 13, 14, 15]
    assert batch["labels"].tolist()[1] == [IGNORED] * 4 + [13, 14, 15]
    assert batch["attention_mask"].tolist()[1] == [0, 0, 0, 1, 1, 1, 1]
    assert batch["position_ids"].tolist()[1] == [0, 0, 0, 0, 1, 2, 3]
    loss = answer_loss(model, batch)
    loss.backward()
    weight = model.model.layers[0].self_attn.q_proj.weight
    gradient = weight.grad.clone()
    model.zero_grad()
    whole = torch.zeros(())
    for row in ROWS:
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
        tokens = int((labels[:, 1:] != IGNORED).sum())
        whole = whole + model(ids, labels=labels).loss * tokens / 5
    whole.backward()
    assert loss.item() == pytest.approx(whole.item(), rel=1e-5)
    assert torch.allclose(gradient, weight.grad, atol=1e-5, rtol=1e-3)
    halved = answer_loss(model, batch, items=10)
    assert halved.item() == pytest.approx(loss.item() / 2, rel=1e-5)


def test_absolute_positions_are_those_of_each_example_alone() -> None:
    """GPT-2's positions are absolute: left padding moves them unless they are given."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=32, n_positions=32, n_embd=16, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(config).eval()
    _, tokenizer = small_llama(["a b c"], width=32, layers=1)
    padded = LeftPadded(tokenizer)
    both = answer_loss(model, padded(ROWS), items=1)
    alone = sum(answer_loss(model, padded([row]), items=1).item() for row in ROWS)
    assert both.item() == pytest.approx(alone, rel=1e-5)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_start_that_was_better_comes_back() -> None:
    peft = pytest.importorskip("peft")
    model, _ = small_llama(["a b c"], width=32, layers=1)
    ids = torch.tensor([[5, 6, 7, 8]])
    before = model(ids).logits.detach()
    settings = GeneratorSettings(
        dataset={"path": "none"}, model={"base": "none"}, retriever={}, out="none", lora={"rank": 2}
    )
    adapted = peft.get_peft_model(model, adapter_config(settings)).eval()
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.5)
    assert not torch.allclose(adapted(ids).logits, before, atol=1e-3)
    restore_start(adapted, settings)
    assert torch.allclose(adapted(ids).logits, before, atol=1e-5)


def test_each_epoch_draws_its_steps_and_puts_each_in_order_of_length() -> None:
    lengths = [5, 9, 2, 7, 7, 1, 8, 3, 6, 4]
    sampler = StepsByLength(lengths, per_step=4, seed=0)
    first, again = list(sampler), list(sampler)
    assert first == again and len(sampler) == 10
    sampler.set_epoch(1)
    second = list(sampler)
    assert sorted(first) == sorted(second) == list(range(10)), "every example once"
    steps = [[epoch[n : n + 4] for n in (0, 4, 8)] for epoch in (first, second)]
    assert [set(step) for step in steps[0]] != [set(step) for step in steps[1]]
    for step in (*steps[0], *steps[1]):
        assert [lengths[n] for n in step] == sorted((lengths[n] for n in step), reverse=True)
    assert list(StepsByLength(lengths, 4, seed=1)) != first
    filled = StepsByLength(lengths, 4, seed=0, multiple=4)
    assert list(filled) == [*first, 10, 10] and len(filled) == 12
