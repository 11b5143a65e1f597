"""The model that is fine-tuned: opened, perhaps quantized, with its tokens of every example."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rulerag.errors import ConfigError, GenerationError, MissingDependencyError
from rulerag.generation.huggingface import (
    HuggingFaceGenerator,
    Loading,
    open_model,
    shipped,
    stated_chat,
)
from rulerag.generation.prompts import Case
from rulerag.io import read_json, write_json
from training.generator.data import Instruction
from training.generator.loss import IGNORED
from training.generator.settings import GeneratorSettings

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def opened_in(settings: GeneratorSettings) -> str:
    """The dtype that the base is opened in, and that quantized weights are multiplied in.

    Frozen weights have the precision of the run; weights that are trained have float32, and are
    multiplied in that precision by autocast.
    """
    return _DTYPES[settings.training.precision] if settings.lora.rank else "float32"


def open_reader(
    settings: GeneratorSettings, device: str = "", cases: tuple[Case, ...] = ()
) -> HuggingFaceGenerator:
    """The base model as the generator that it will be used as.

    Args:
        settings: of the run.
        device: that of this process; that of the settings when empty.
        cases: shown before every query.

    Raises:
        GenerationError: the model or its tokenizer cannot be opened.
        MissingDependencyError: a package of the training extra is missing.
    """
    for package in ("trl", "peft", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, "train")
    loading = Loading.read(
        {
            "device": device or settings.device or "auto",
            "dtype": opened_in(settings),
            "quantization": settings.model.quantization or None,
        }
    )
    model = open_model(shipped(settings.model.base), loading)
    for layer in model.modules():
        # On some CPUs validation would pack 4-bit weights into a form that gives no gradient.
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False
    prompts, chat = settings.prompts, settings.model.chat
    return HuggingFaceGenerator(
        model,
        tokenizer=shipped(settings.model.base),
        template=prompts.model_copy(update={"cases": cases}) if cases else prompts,
        max_new_tokens=settings.validation.max_new_tokens,
        max_input_tokens=max(1, settings.training.max_length - settings.validation.max_new_tokens),
        device=loading.device,
        chat=stated_chat(settings.model.base) if chat is None else chat,
    )


def compile_layers(model: Any) -> None:
    """Compile the layers of a model, each once for prompts of every length.

    The whole model would be compiled again for each way in which it is called.

    Args:
        model: as it is trained, with its adapter where it has one.

    Raises:
        ConfigError: nothing can be compiled on this machine.
    """
    layers: Any = importlib.import_module("transformers.modeling_layers")
    try:
        torch.compile(lambda values: values * 2 + 1)(
            torch.ones(8, device=next(model.parameters()).device)
        )
    except Exception as error:  # the compiler's own kinds share no base
        raise ConfigError(
            f"layers cannot be compiled here: {(str(error).splitlines() or [''])[0]}",
            key="training.compile",
            hint="install a C++ compiler (g++), or training.compile=false",
        ) from error
    for part in model.modules():
        if isinstance(part, layers.GradientCheckpointingLayer):
            part.compile(dynamic=True)


def restore_start(model: Any, settings: GeneratorSettings) -> None:
    """Give a model the weights back that it had before training.

    Args:
        model: trained, with its adapter where it has one.
        settings: of the run.
    """
    if settings.lora.rank:  # an adapter changes nothing while one of its two matrices is zero
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.zero_()
    else:
        model.load_state_dict(open_reader(settings).model.state_dict())


def whole_model(settings: GeneratorSettings, weights: Mapping[str, Any]) -> Any:
    """The model of a run whose processes each hold a part of it, in one process.

    Args:
        settings: of the run.
        weights: the whole tensors, by name.
    """
    model, adapter = open_reader(settings, "cpu").model, adapter_config(settings)
    if adapter is not None:
        peft: Any = importlib.import_module("peft")
        model = peft.get_peft_model(model, adapter)
    model.load_state_dict(weights)
    return model


def save_model(model: Any, settings: GeneratorSettings, folder: Path) -> None:
    """Write an adapter, or the whole model, into a folder.

    Args:
        model: trained.
        settings: of the run.
        folder: an adapter there names its base as the settings do, not by where it happens to be
            installed or cached.
    """
    if settings.lora.rank and settings.lora.merged:
        model = model.merge_and_unload()
    model.save_pretrained(folder)
    adapter, base = folder / "adapter_config.json", settings.model.base
    if shipped(base) != base and adapter.exists():
        write_json(adapter, {**read_json(adapter), "base_model_name_or_path": base})


def adapter_config(settings: GeneratorSettings) -> Any:
    """PEFT's LoRA configuration; None for full fine-tuning."""
    if not settings.lora.rank:
        return None
    peft: Any = importlib.import_module("peft")
    return peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.lora.rank,
        lora_alpha=settings.lora.alpha,
        lora_dropout=settings.lora.dropout,
        target_modules=list(settings.lora.targets) or "all-linear",
    )


def tokenized(
    reader: HuggingFaceGenerator, examples: Sequence[Instruction], max_length: int
) -> list[dict[str, list[int]]]:
    """Prompt and answer of each example as token ids; labels are the answer's tokens alone.

    Args:
        reader: makes prompts and their tokens, as it does when it answers.
        examples: what is trained on.
        max_length: the most tokens of one example.

    Raises:
        GenerationError: an answer does not fit.
    """
    encoded = reader.encode([example.request for example in examples])
    rows = []
    for example, (prompt, tokens) in zip(examples, encoded, strict=True):
        text = reader.template.completion(example.answer, example.fact)
        answer = reader.encode_completion(prompt.text, text).tolist()
        begin = tokens.tolist()
        if len(begin) + len(answer) > max_length:
            raise GenerationError(
                f"the answer {example.answer!r} has {len(answer)} tokens, and "
                f"{max_length - len(begin)} of {max_length} are left behind its prompt",
                hint="raise training.max_length or validation.max_new_tokens",
            )
        ids = begin + answer
        rows.append({"input_ids": ids, "labels": [IGNORED] * len(begin) + answer})
    return rows
