"""The loss of fine-tuning equals that of transformers over whole sequences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.speed.generation import small_llama
from training.generator.loss import IGNORED, LeftPadded, answer_loss
from training.generator.model import adapter_config, restore_start
from training.generator.settings import GeneratorSettings

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = [
    {"input_ids": [5, 6, 7, 8, 9, 10, 11], "labels": [IGNORED] * 5 + [10, 11]},
    {"input_ids": [12, 13, 14, 15], "labels": [IGNORED, 13, 14, 15]},
]


def test_answers_stand_below_one_another_at_the_end() -> None:
    _, tokenizer = small_llama(["a b c"], width=32, layers=1)
    batch = LeftPadded(tokenizer)(ROWS)
    assert batch["input_ids"].tolist()[1] == [2, 2, 2, 12, 13, 14, 15]
    assert batch["labels"].tolist()[1] == [IGNORED] * 4 + [13, 14, 15]
    assert batch["attention_mask"].tolist()[1] == [0, 0, 0, 1, 1, 1, 1]
    assert batch["position_ids"].tolist()[1] == [0, 0, 0, 0, 1, 2, 3]


def test_the_loss_and_its_gradient_are_those_of_each_example_alone() -> None:
    model, tokenizer = small_llama(["a b c"], width=32, layers=2)
    loss = answer_loss(model, LeftPadded(tokenizer)(ROWS))
    loss.backward()
    gradient = model.model.layers[0].self_attn.q_proj.weight.grad.clone()
    model.zero_grad()
    whole = torch.zeros(())
    for row in ROWS:
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
        tokens = int((labels[:, 1:] != IGNORED).sum())
        whole = whole + model(ids, labels=labels).loss * tokens
    whole = whole / 5
    whole.backward()
    assert loss.item() == pytest.approx(whole.item(), rel=1e-5)
    assert torch.allclose(
        gradient, model.model.layers[0].self_attn.q_proj.weight.grad, atol=1e-5, rtol=1e-3
    )
    halved = answer_loss(model, LeftPadded(tokenizer)(ROWS), items=10)
    assert halved.item() == pytest.approx(loss.item() / 2, rel=1e-5)


def test_what_several_processes_wrap_counts_positions_too(tmp_path: Path) -> None:
    """GPT-2's positions are absolute: left padding moves them unless they are given."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=32, n_positions=32, n_embd=16, n_layer=1, n_head=2)
    ).eval()
    _, tokenizer = small_llama(["a b c"], width=32, layers=1)
    batch = LeftPadded(tokenizer)(ROWS)
    alone = answer_loss(model, batch)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1
    )
    try:
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        assert answer_loss(wrapped, batch).item() == pytest.approx(alone.item(), rel=1e-6)
    finally:
        torch.distributed.destroy_process_group()


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
