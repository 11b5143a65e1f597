"""Names of weights: by content whatever their size, and as they are when the name is asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rulerag.explanation.probing.cache import AnswerCache, CachedGenerator
from rulerag.generation.huggingface.generator import HuggingFaceGenerator
from rulerag.generation.huggingface.identity import tokenizer_identity
from rulerag.generation.prompts.template import PromptTemplate
from tests.generation.huggingface.test_generator import SIZES, requests, write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")

BIG = 65 << 20  # over the size up to which files once counted by content


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(3)
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2)  # type: ignore[arg-type]
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def opened(folder: Path) -> tuple[Any, Any]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def reader(model: Any, **options: Any) -> HuggingFaceGenerator:
    return HuggingFaceGenerator(model, max_new_tokens=4, device="cpu", **options)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT on transformers 5.23
def test_two_adapters_of_one_size_never_share_an_answer(llama: Path, tmp_path: Path) -> None:
    """The second is written over the first, in place, as a training that runs again does."""
    peft = pytest.importorskip("peft")
    safetensors = pytest.importorskip("safetensors.torch")
    folder, path = tmp_path / "adapter", tmp_path / "answers.sqlite"
    model, _ = opened(llama)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", r=32, target_modules=["q_proj", "v_proj"], init_lora_weights=False
    )
    peft.get_peft_model(model, config).save_pretrained(folder)
    asked = requests(6)
    first = reader(llama, adapter=folder)
    answers = CachedGenerator(first, AnswerCache(path)).generate(asked)
    weights = folder / "adapter_model.safetensors"
    turned = {
        name: -tensor if "lora_B" in name else tensor
        for name, tensor in safetensors.load_file(weights).items()
    }
    safetensors.save_file(turned, weights, metadata={"format": "pt"})
    second = reader(llama, adapter=folder)
    assert second.fingerprint != first.fingerprint
    again = CachedGenerator(second, AnswerCache(path)).generate(asked)
    assert again == second.generate(asked) != answers


def test_what_a_training_leaves_beside_the_weights_does_not_count(
    llama: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(llama, folder)
    name = reader(llama).fingerprint
    for left in ("trainer_state.json", "training_args.bin", "optimizer.pt", "README.md"):
        (folder / left).write_text("{}")
    assert reader(folder).fingerprint == name
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 5]}')
    assert reader(folder).fingerprint != name


def test_an_open_model_has_the_name_of_its_parameters(llama: Path) -> None:
    model, tokenizer = opened(llama)
    name = reader(model, tokenizer=tokenizer).fingerprint
    other, _ = opened(llama)
    assert reader(other, tokenizer=tokenizer).fingerprint == name
    generator = reader(model, tokenizer=tokenizer)
    names = [generator.fingerprint]
    with torch.no_grad():
        model.get_output_embeddings().weight[7, 3] += 1  # counted by torch
    names.append(generator.fingerprint)
    model.model.layers[1].mlp.up_proj.weight.data.mul_(2)  # not counted
    names.append(generator.fingerprint)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.tensor([[3, 4, 5]]), labels=torch.tensor([[3, 4, 5]])).loss.backward()
    optimizer.step()
    names.append(generator.fingerprint)
    assert len(set(names)) == 4 and names[0] == name
    assert generator.fingerprint == names[-1]


def test_settings_that_change_answers_or_scores_change_the_name(llama: Path) -> None:
    base = reader(llama)
    same = [
        reader(llama, batch_size=1),
        reader(llama, max_input_tokens=base.max_input_tokens),
    ]
    assert {one.fingerprint for one in same} == {base.fingerprint}
    others = [
        reader(llama, max_input_tokens=200),
        reader(llama, dtype="bfloat16"),
        reader(llama, template="standard"),
        HuggingFaceGenerator(llama, max_new_tokens=5, device="cpu"),
        reader(llama, template=PromptTemplate.citation(instruction="", answer_cue=":")),
        reader(llama, template="compact"),
    ]
    assert len({base.fingerprint, *(one.fingerprint for one in others)}) == 7


def test_a_tokenizer_of_its_own_belongs_to_the_name(llama: Path, tmp_path: Path) -> None:
    shutil.copytree(llama, tmp_path, dirs_exist_ok=True)
    chat = write_tokenizer(tmp_path, chat=True)
    plain = transformers.AutoTokenizer.from_pretrained(llama)
    assert tokenizer_identity(chat) != tokenizer_identity(plain)
    name = tokenizer_identity(plain)
    plain(["some text"], padding=True, truncation=True, max_length=3)
    assert tokenizer_identity(plain) == name, "how it pads changes with every call"
    assert reader(llama, tokenizer=tmp_path).fingerprint != reader(llama).fingerprint
