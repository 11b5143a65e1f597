"""What the generator's training computes in: settings of the libraries, and dtypes as they run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.speed.generation import small_llama
from rulerag.errors import ConfigError
from rulerag.ruleqa.dataset import RuleQADataset
from tests.training.conftest import weights
from training.common.processes import Processes
from training.generator.loss import LeftPadded
from training.generator.model import open_reader, opened_in
from training.generator.run import train_generator
from training.generator.settings import GeneratorSettings
from training.generator.trainer import Validation, make_trainer, trainer_arguments

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # PEFT and TRL on transformers 5.23
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
Make = Callable[..., GeneratorSettings]
ROWS = [{"input_ids": [5, 6, 7, 8, 9], "labels": [-100, -100, -100, 8, 9]}] * 4
ONE = Processes("cpu")


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_frozen_weights_have_the_precision_of_the_run_whatever_a_launcher_asks(
    precision: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bitsandbytes")
    from rulerag.generation.huggingface.load import _quantized

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    lora = make(precision=precision)
    assert getattr(torch, opened_in(lora)) == dtype
    assert opened_in(make(precision=precision, rank=0)) == "float32", "autocast multiplies these"
    config = _quantized("4bit", opened_in(lora))
    assert config.bnb_4bit_compute_dtype == dtype
    assert config.bnb_4bit_use_double_quant and config.bnb_4bit_quant_type == "nf4"
    if precision != "fp16":  # for which the library asks for a GPU
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
        told = trainer_arguments(lora, tmp_path, ONE)
        assert (told.bf16, told.fp16) == (precision == "bf16", False)
        assert told.mixed_precision == {"fp32": "no", "bf16": "bf16"}[precision]
        assert told.world_size == 1 and told.n_gpu <= 1


def test_what_a_device_does_not_compute_is_refused_before_any_work(
    make: Make, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="fp16 is not trained on cpu") as told:
        train_generator(make(precision="fp16"))
    assert told.value.key == "training.precision" and "bf16" in str(told.value.hint)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"rank": 8}, {"rank": 0, "learning_rate": 1e-3}], ids=str)
def test_bf16_and_compiled_layers_follow_fp32_and_train_float32(
    changes: dict[str, object], short: Make, tmp_path: Path
) -> None:
    losses = {}
    # Compiling a layer whose weights are trained warns inside PyTorch, which is an error here.
    compiled = [{"compile": True}] if changes["rank"] else []
    for way in ({"precision": "fp32"}, {"precision": "bf16"}, *compiled):
        made = short(**way, out=str(tmp_path / str(*way.values())), epochs=4, **changes)
        losses[str(*way.values())] = [row["loss"] for row in train_generator(made)["history"][1:]]
        assert {tensor.dtype for tensor in weights(made.out).values()} == {torch.float32}
        assert sorted(weights(made.out)) == sorted(weights(tmp_path / "fp32")), "the same names"
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.01)
    assert losses["bf16"] != losses["fp32"], "another arithmetic"
    assert losses.get("True", losses["fp32"]) == pytest.approx(losses["fp32"], rel=1e-3)
    assert losses["fp32"][-1] < 0.97 * losses["fp32"][0], "it learned meanwhile"


@pytest.mark.slow
def test_a_machine_without_a_compiler_is_told_so(base_folder: Path, tmp_path: Path) -> None:
    code = (
        "from transformers import LlamaForCausalLM; "
        "from training.generator.model import compile_layers; "
        f"compile_layers(LlamaForCausalLM.from_pretrained({str(base_folder)!r}))"
    )
    nothing = {"PATH": str(tmp_path), "CXX": str(tmp_path / "none"), "HOME": str(tmp_path)}
    environment = {**os.environ, **nothing, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "ConfigError" in done.stderr.splitlines()[-1], done.stderr[-800:]
    assert "layers cannot be compiled here" in done.stderr and "g++" in done.stderr


def test_adapters_read_what_the_layer_above_wrote(make: Make, tmp_path: Path) -> None:
    """The copies in float32 that PEFT makes are left out in bf16, and the loss is the same."""
    made = make(precision="bf16", rank=2)
    reader = open_reader(made)
    validation = Validation(reader, made, [], ONE)
    trainer = make_trainer(made, reader.model, reader.tokenizer, ROWS, validation, tmp_path, ONE)
    read: set[torch.dtype] = set()
    for name, module in trainer.model.named_modules():
        if name.endswith("lora_A.default"):
            module.register_forward_pre_hook(lambda _, inputs: read.add(inputs[0].dtype))
    batch = LeftPadded(reader.tokenizer)(ROWS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        short = trainer.compute_loss(trainer.model, batch)
        assert read == {torch.bfloat16}
        trainer.uncast = False
        long = trainer.compute_loss(trainer.model, batch)
        assert read == {torch.bfloat16, torch.float32}
    assert short.item() == long.item()


@pytest.mark.slow  # it loads a quantized model
def test_quantized_weights_get_an_adapter_in_float32(
    make: Make, world_dataset: RuleQADataset, tmp_path: Path
) -> None:
    """TRL puts it into bfloat16, which a scaler of fp16 refuses and V100s emulate."""
    bnb = pytest.importorskip("bitsandbytes")
    model, tokenizer = small_llama([document.text for document in world_dataset.corpus], width=64)
    for part in (model, tokenizer):  # 64 weights share a scale
        part.save_pretrained(tmp_path / "base")
    made = make(base=str(tmp_path / "base"), precision="bf16", quantization="4bit", max_steps=2)
    reader = open_reader(made)
    layers = [m for m in reader.model.modules() if isinstance(m, bnb.nn.Linear4bit)]
    assert layers and all(layer.compute_dtype == torch.bfloat16 for layer in layers)
    validation = Validation(reader, made, [], ONE)
    trainer = make_trainer(made, reader.model, reader.tokenizer, ROWS, validation, tmp_path, ONE)
    trained = [weight for weight in trainer.model.parameters() if weight.requires_grad]
    assert {weight.dtype for weight in trained} == {torch.float32}
    assert train_generator(made)["steps"] == 2
