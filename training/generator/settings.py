"""The settings of generator fine-tuning, read from a configuration and checked before any work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import pydantic
from pydantic import Field

from rulerag.composition import Config
from rulerag.errors import ConfigError
from rulerag.generation.huggingface import stated_template
from rulerag.generation.prompts import CompactTemplate, PromptTemplate
from training.common.settings import Section, TrainingSettings


class DatasetSection(Section):
    """What is trained on.

    Args:
        path: the dataset folder.
        split: the training queries, F_G.
    """

    path: str
    split: str = "f_g"


class ModelSection(Section):
    """What is trained.

    Args:
        base: the model to start from: a folder or a Hub name.
        quantization: ``4bit`` (NF4, its scales quantized again) or ``8bit`` for the base's weights;
            none when empty.
        chat: whether prompts are put into the chat template; as the base states, else as the
            tokenizer has one, when null.
        template: the prompts, as in an experiment file; those that the base states when null.
    """

    base: str
    quantization: Literal["", "4bit", "8bit"] = ""
    chat: bool | None = None
    template: str | Mapping[str, Any] | None = None


class LoraSection(Section):
    """The adapter.

    Args:
        rank: of the LoRA matrices; 0 trains every weight.
        alpha: LoRA's scale times its rank.
        dropout: in front of the LoRA matrices.
        targets: names of the linear layers with an adapter; every one but the output when empty.
        merged: write one whole model instead of an adapter.
    """

    rank: int = Field(default=8, ge=0)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.05, ge=0, lt=1)
    targets: tuple[str, ...] = ()
    merged: bool = False


class DataSection(Section):
    """The examples.

    Args:
        method: ``rgft``, or ``ssft``: no rules, neither in retrieval nor in the prompt.
        samples: pairs of query and answer to train on, drawn by seed; 0 for all.
        shots: solved cases in front of every prompt, drawn by seed from queries of the split that
            are neither trained on nor validated on.
        tuning_share: fraction of the queries kept for validation.
    """

    method: Literal["rgft", "ssft"] = "rgft"
    samples: int = Field(default=2048, ge=0)
    shots: int = Field(default=0, ge=0)
    tuning_share: float = Field(default=0.1, gt=0, lt=1)


class OptimizationSection(Section):
    """How it is trained.

    Args:
        learning_rate: of AdamW at its peak.
        batch_size: examples of one forward pass of one process.
        accumulation: passes of one step.
        epochs: passes over the examples.
        max_steps: stop earlier; 0 for all epochs.
        warmup_steps: steps in which the rate rises.
        schedule: how the rate goes on.
        weight_decay: of AdamW.
        max_grad_norm: gradients are clipped to it.
        max_length: tokens of prompt and answer together; documents that do not fit are left out.
        precision: ``fp32``; ``bf16`` (GPUs from Ampere on, and CPUs) or ``fp16`` (any GPU, its loss
            scaled): what is multiplied, frozen weights included; trained weights stay in float32.
        gradient_checkpointing: compute activations twice to save memory.
        compile: compile the layers before the first step (`torch.compile`: a minute, then
            faster steps); needs a C++ compiler on a CPU.
    """

    learning_rate: float = Field(default=3e-4, gt=0)
    batch_size: int = Field(default=8, ge=1)
    accumulation: int = Field(default=1, ge=1)
    epochs: int = Field(default=50, ge=1)
    max_steps: int = Field(default=0, ge=0)
    warmup_steps: int = Field(default=5, ge=0)
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    max_length: int = Field(default=5120, ge=1)
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    gradient_checkpointing: bool = False
    compile: bool = False


class ValidationSection(Section):
    """How checkpoints are compared.

    Args:
        every: steps between two validations, which are checkpoints too; below 1 a fraction of all
            steps (three of fifty epochs, as the paper's).
        max_queries: tuning queries used at most; 0 for all.
        max_new_tokens: how long a validation answer may get.
    """

    every: float = Field(default=0.06, gt=0)
    max_queries: int = Field(default=0, ge=0)
    max_new_tokens: int = Field(default=32, ge=1)


class GeneratorSettings(TrainingSettings):
    """Every setting; the defaults are the paper's for LLaMA2-7B (RuleRAG, section 4.2, Table 7).

    The seed is that of the samples, the cases, the adapter, the batches and dropout. Without a
    section ``lora`` every weight is trained.

    Args:
        selector: how guiding rules are selected, as in an experiment file.
        retriever: how documents are found, as in an experiment file.
        top_k: documents of a prompt.
        reader_rules: which rules a prompt shows (see :class:`~rulerag.RuleRAGPipeline`).
    """

    dataset: DatasetSection
    model: ModelSection
    lora: LoraSection = LoraSection(rank=0)
    data: DataSection = DataSection()
    selector: Mapping[str, Any] | None = None
    retriever: Mapping[str, Any]
    top_k: int = Field(default=10, ge=1)
    reader_rules: str = "selected"
    training: OptimizationSection = OptimizationSection()
    validation: ValidationSection = ValidationSection()

    @pydantic.model_validator(mode="after")
    def _values_fit_each_other(self) -> Self:
        lora, quantization = self.lora, self.model.quantization
        for key, fits, hint in (
            ("model.quantization", lora.rank or not quantization, "null, or lora beside it"),
            (
                "lora.merged",
                not lora.merged or (lora.rank and not quantization),
                "an adapter on quantized weights cannot be merged without loss; keep it apart",
            ),
            ("lora.targets", "lm_head" not in lora.targets, "leave lm_head out: TRL skips it"),
            (
                "data.shots",
                not self.data.shots or not isinstance(self.prompts, CompactTemplate),
                "0: compact prompts show no cases",
            ),
        ):
            if not fits:
                raise ConfigError("does not fit the other settings", key=key, hint=hint)
        return self

    @property
    def stated_prompts(self) -> dict[str, Any]:
        """The prompts as a configuration states them: those of SSFT show no rules.

        Where neither the run nor its base states any, they are rule-guided ones.
        """
        template = self.model.template
        if template is None:
            template = stated_template(self.model.base)
        plain = self.data.method == "ssft"
        if template is None:
            return {"type": "standard" if plain else "rule-guided"}
        options = dict(template) if isinstance(template, Mapping) else {"type": template}
        return {**options, "rules": False} if plain else options

    @property
    def prompts(self) -> PromptTemplate:
        """The template of the prompts.

        Raises:
            ConfigError: the template is wrong.
        """
        return PromptTemplate.of(self.stated_prompts)

    @property
    def finding(self) -> Config:
        """How documents are found; SSFT finds them without rules."""
        sections = {"selector": self.selector, "retriever": self.retriever}
        if self.data.method == "ssft":
            sections = {"retriever": _unguided(self.retriever)}
        stated = {key: dict(value) for key, value in sections.items() if value is not None}
        return Config(stated, source=self._source)


def _unguided(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a retriever inside those that guide it or fuse several."""
    if section["type"] == "guided":
        return _unguided(section["retriever"])
    if section["type"] == "fused":
        return _unguided(section["retrievers"][0])
    return section
