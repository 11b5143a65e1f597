"""Runs of generator fine-tuning: what it writes, that it resumes, stops and refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rulerag.errors import ConfigError, GenerationError
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.prompts.template import PromptTemplate
from rulerag.io import read_json
from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import changed
from training.common.checkpoint import TrainingError
from training.generator.data import make_instructions
from training.generator.model import open_reader
from training.generator.run import main, train_generator
from training.generator.settings import GeneratorSettings
from training.generator.trainer import Validation

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Make = Callable[..., GeneratorSettings]


class Killed(Exception):
    """Stands for the end of a process."""


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    (place,) = Path(folder).glob("*.safetensors")
    return load_file(place)


def answers(generator: HuggingFaceGenerator, settings: GeneratorSettings) -> list[str]:
    dataset = RuleQADataset.load(settings.dataset.path)
    return [c.text for c in generator.generate(make_instructions(settings, dataset).tuning)]


def test_lora_lowers_the_loss_and_its_adapter_loads(
    make: Make, world_dataset: RuleQADataset
) -> None:
    made = make(epochs=8, every_epochs=4, learning_rate=0.02, rank=16)
    metrics = train_generator(made)
    out = Path(made.out)
    losses = [row["loss"] for row in metrics["history"]]
    assert losses[-1] < 0.9 * losses[0]
    assert [row["step"] for row in metrics["history"]] == [8, 16]
    assert metrics["examples"] == 16 and metrics["tuning_queries"] == 4
    reader = HuggingFaceGenerator(out, device="cpu", max_new_tokens=12)
    base = HuggingFaceGenerator(made.model.base, device="cpu", max_new_tokens=12)
    assert answers(reader, made) != answers(base, made)
    requests = make_instructions(made, world_dataset).tuning
    again = Validation(open_reader(made), made, requests)(reader.model)
    assert {key: again[key] for key in ("exact_match", "token_f1")} == metrics["best"]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: peft")
    assert "RGFT" in card and world_dataset.fingerprint in card
    assert not list((out / "run").glob("checkpoint-*"))
    assert train_generator(made) == read_json(out / "metrics.json")
    with pytest.raises(ConfigError, match="other settings"):
        train_generator(changed(made, seed=1))


def test_an_adapter_of_the_small_reader_names_it_and_no_folder(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    made = make(base="rulerag-nano-llama", max_steps=1, rank=2, max_length=1024)
    train_generator(made)
    config = read_json(Path(made.out) / "adapter_config.json")
    assert config["base_model_name_or_path"] == "rulerag-nano-llama"
    alone = HuggingFaceGenerator(made.out, device="cpu", max_new_tokens=12)
    both = HuggingFaceGenerator(
        "rulerag-nano-llama", adapter=made.out, device="cpu", max_new_tokens=12
    )
    assert answers(alone, made) == answers(both, made)
    assert "was trained on" not in caplog.text


def test_every_weight_can_be_trained(make: Make) -> None:
    made = make(rank=0, epochs=6, every_epochs=3)
    metrics = train_generator(made)
    losses = [row["loss"] for row in metrics["history"]]
    assert losses[-1] < 0.8 * losses[0]
    before, after = weights(made.model.base), weights(made.out)
    assert before.keys() == after.keys()
    assert all(not torch.equal(before[name], after[name]) for name in before)
    assert len(answers(HuggingFaceGenerator(made.out, device="cpu"), made)) == 4


def test_a_merged_model_answers_as_its_adapter_does(make: Make, tmp_path: Path) -> None:
    apart, merged = make(max_steps=2), make(max_steps=2, merged=True, out=str(tmp_path / "merged"))
    train_generator(apart)
    train_generator(merged)
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    one, other = (HuggingFaceGenerator(m.out, device="cpu").model for m in (apart, merged))
    for name, tensor in one.state_dict().items():
        torch.testing.assert_close(tensor, other.state_dict()[name])


def test_the_folder_states_the_cases_that_its_reader_was_trained_with(
    make: Make, world_dataset: RuleQADataset
) -> None:
    made = make(shots=2, top_k=1, max_steps=1, max_length=500)
    train_generator(made)
    data = make_instructions(made, world_dataset)
    reader = HuggingFaceGenerator(made.out, device="cpu", max_new_tokens=12)
    assert reader.template == PromptTemplate.rule_guided(cases=data.cases) and data.cases
    (prompt,) = reader.prompts(data.tuning[:1])
    assert all(case.query in prompt.text for case in data.cases)
    card = (Path(made.out) / "README.md").read_text(encoding="utf-8")
    assert 'HuggingFaceGenerator("FOLDER")' in card and "behind 2 solved ones" in card


def test_a_killed_run_goes_on_to_the_same_result(make: Make, tmp_path: Path) -> None:
    whole, cut = make(out=str(tmp_path / "whole")), make(out=str(tmp_path / "cut"))
    expected = train_generator(whole)

    def kill(step: int) -> None:
        if step == 5:
            raise Killed

    with pytest.raises(Killed):
        train_generator(cut, after_step=kill)
    # A checkpoint that was cut off while it was written.
    (tmp_path / "cut" / "run" / "checkpoint-6").mkdir()
    steps: list[int] = []
    resumed = train_generator(cut, after_step=steps.append)
    assert steps == [5, 6, 7, 8]
    assert resumed["history"] == expected["history"]
    one, other = weights(whole.out), weights(cut.out)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_state(make: Make) -> None:
    made = make(learning_rate=1e38, max_grad_norm=1e30, warmup_steps=2, rank=0, batch_size=16)
    with pytest.raises(TrainingError, match=r"is kept; with a lower learning_rate"):
        train_generator(made)
    (kept, *_) = sorted((Path(made.out) / "run").glob("checkpoint-*"))
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(kept).values())
    assert not (Path(made.out) / "metrics.json").exists()


def test_an_adapter_of_another_base_is_refused(make: Make, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    made = make(max_steps=1)
    train_generator(made)
    wider = LlamaConfig(
        vocab_size=2048,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    LlamaForCausalLM(wider).save_pretrained(tmp_path / "wider")
    with pytest.raises(GenerationError, match="does not fit the model"):
        HuggingFaceGenerator(
            tmp_path / "wider", tokenizer=made.model.base, adapter=made.out, device="cpu"
        )


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
    assert "at step 1 of 1" in capsys.readouterr().out
