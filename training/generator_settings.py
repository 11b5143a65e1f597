"""The settings of generator fine-tuning, read from a configuration and checked before any work."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from rulerag.config import Config
from rulerag.generation.hf_shipped import stated_template
from rulerag.generation.prompts import PromptTemplate
from rulerag.generation.prompts_compact import CompactTemplate
from training.command import fingerprint_settings, refuse_misfits

__all__ = ["METHODS", "GeneratorSettings"]

METHODS = ("rgft", "ssft")
_PRECISIONS = ("fp32", "bf16", "fp16")

# How documents are found for an example: the sections of an experiment file, read by rulerag.build.
_RETRIEVAL = ("selector", "retriever", "time_aware", "pooled", "guided", "fusion", "evidence")
_TOP = ("metadata", "dataset", "model", "lora", "data", "training", "validation", "expected")
_SECTIONS = {
    "dataset": ("path", "split"),
    "model": ("base", "tokenizer", "quantization", "chat"),
    "lora": ("rank", "alpha", "dropout", "targets", "merged"),
    "data": ("method", "samples", "shots", "tuning_share"),
    "training": (
        "learning_rate",
        "batch_size",
        "accumulation",
        "epochs",
        "max_steps",
        "warmup_steps",
        "schedule",
        "weight_decay",
        "max_grad_norm",
        "max_length",
        "precision",
        "gradient_checkpointing",
    ),
    "validation": ("every_epochs", "parts", "max_queries", "max_new_tokens"),
}


@dataclass(frozen=True)
class GeneratorSettings:
    """Every setting; the defaults are the paper's for LLaMA2-7B (RuleRAG, section 4.2, Table 7).

    Args:
        path: the dataset folder.
        base: the model to start from: a folder or a Hub name.
        out: the folder to write.
        split: the training queries, F_G.
        tokenizer: that of the base when empty.
        quantization: ``4bit`` (NF4, its scales quantized again) or ``8bit`` for the base's weights;
            none when empty.
        chat: whether prompts are put into the chat template; as the tokenizer has one when null.
        template: the prompts, as in an experiment file; those that the base states when null.
        rank: of the LoRA matrices; 0 trains every weight.
        alpha: LoRA's scale times its rank.
        dropout: in front of the LoRA matrices.
        targets: names of the linear layers with an adapter; every one but the output when empty.
        merged: write one whole model instead of an adapter.
        method: ``rgft``, or ``ssft``: no rules, neither in retrieval nor in the prompt.
        samples: pairs of query and answer to train on, drawn by seed; 0 for all.
        shots: solved cases in front of every prompt, drawn by seed from queries of the split that
            are neither trained on nor validated on.
        tuning_share: share of the queries kept for validation.
        retrieval: how documents are found: the sections of an experiment file.
        top_k: documents of a prompt.
        reader_rules: which rules a prompt shows (see :class:`~rulerag.pipeline.RuleRAGPipeline`).
        learning_rate: of AdamW at its peak.
        batch_size: examples of one forward pass of one process.
        accumulation: passes of one step.
        epochs: passes over the examples.
        max_steps: stop earlier; 0 for all epochs.
        warmup_steps: steps in which the rate rises.
        schedule: how the rate goes on: ``linear``, ``cosine``, ``constant_with_warmup``.
        weight_decay: of AdamW.
        max_grad_norm: gradients are clipped to it.
        max_length: tokens of prompt and answer together; documents that do not fit are left out.
        precision: ``fp32``; ``bf16`` (GPUs from Ampere on, and CPUs) or ``fp16`` (any GPU, its loss
            scaled): what is multiplied, frozen weights included; trained weights stay in float32.
        gradient_checkpointing: compute activations twice to save memory.
        every_epochs: epochs between two validations, which are checkpoints too.
        parts: validate after each of so many equal parts of the run instead; 0 for by epochs.
        max_queries: tuning queries asked at most; 0 for all.
        max_new_tokens: how long a validation answer may get.
        device: ``cpu``, ``cuda``; a GPU where there is one when empty. Several processes take one
            GPU each.
        seed: of the samples, the cases, the adapter, the batches and dropout.
    """

    path: str
    base: str
    out: str
    split: str = "f_g"
    tokenizer: str = ""
    quantization: str = ""
    chat: bool | None = None
    template: Any = None
    rank: int = 8
    alpha: int = 32
    dropout: float = 0.05
    targets: tuple[str, ...] = ()
    merged: bool = False
    method: str = "rgft"
    samples: int = 2048
    shots: int = 0
    tuning_share: float = 0.1
    retrieval: Config = field(default_factory=lambda: Config({}))
    top_k: int = 10
    reader_rules: str = "selected"
    learning_rate: float = 3e-4
    batch_size: int = 8
    accumulation: int = 1
    epochs: int = 50
    max_steps: int = 0
    warmup_steps: int = 5
    schedule: str = "linear"
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    max_length: int = 5120
    precision: str = "fp32"
    gradient_checkpointing: bool = False
    every_epochs: int = 3
    parts: int = 0
    max_queries: int = 0
    max_new_tokens: int = 32
    device: str = ""
    seed: int = 0

    @classmethod
    def from_config(cls, config: Config) -> GeneratorSettings:
        """Read and check a configuration.

        ``lora: null`` trains every weight.

        Raises:
            ConfigError: an unknown key, a missing one, or a value out of range; names it.
        """
        plain = ("out", "device", "seed", "top_k", "reader_rules")
        required = ("dataset", "model", "retriever", "out")
        config.check((*_TOP, *_RETRIEVAL, *plain), required=required)
        kinds: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
        types = {f.name: kinds.get(str(f.type), tuple) for f in fields(cls)} | {"chat": bool}
        values: dict[str, Any] = {}
        for section, keys in _SECTIONS.items():
            needed = {"dataset": ("path",), "model": ("base",)}.get(section, ())
            allowed = (*keys, "template") if section == "model" else keys
            part = config.section(section).check(allowed, required=needed)
            read = [key for key in keys if part.get(key) is not None]
            values |= {key: part.read(key, types[key]) for key in read}
        for key in plain:
            if config.get(key) is not None:
                values[key] = config.read(key, types[key])
        if config.get("lora") is None:
            values["rank"] = 0
        kept = {key: config[key] for key in _RETRIEVAL if config.get(key) is not None}
        values["retrieval"] = Config(kept, source=config.source)
        template = config.section("model").get("template")
        values["template"] = template.to_dict() if isinstance(template, Config) else template
        made = cls(**values)
        made.check(config)
        return made

    def check(self, config: Config | None = None) -> None:
        """Refuse values out of range and parts that do not fit each other.

        Raises:
            ConfigError: names the key and what would work.
        """
        ranges: dict[str, tuple[bool, str]] = {
            "method": (self.method in METHODS, f"one of {', '.join(METHODS)}"),
            "precision": (self.precision in _PRECISIONS, f"one of {', '.join(_PRECISIONS)}"),
            "quantization": (
                self.quantization in ("", "4bit", "8bit")
                and not (self.quantization and not self.rank),
                "null, or '4bit' or '8bit' together with lora",
            ),
            "merged": (
                not self.merged or (self.rank > 0 and not self.quantization),
                "an adapter on quantized weights cannot be merged without loss; keep it apart",
            ),
            "targets": ("lm_head" not in self.targets, "leave lm_head out: TRL skips it"),
            "dropout": (0 <= self.dropout < 1, "from 0 to below 1"),
            "tuning_share": (0 < self.tuning_share < 1, "between 0 and 1, say 0.1"),
            "learning_rate": (self.learning_rate > 0, "above 0, say 3e-4"),
            "weight_decay": (self.weight_decay >= 0, "0 or more"),
            "max_grad_norm": (self.max_grad_norm > 0, "above 0, say 1.0"),
        }
        schedules = ("linear", "cosine", "constant_with_warmup")
        ranges["schedule"] = (self.schedule in schedules, f"one of {', '.join(schedules)}")
        least_one = ("batch_size", "accumulation", "epochs", "top_k", "alpha")
        for key in (*least_one, "every_epochs", "max_length", "max_new_tokens"):
            ranges[key] = (getattr(self, key) >= 1, "1 or more")
        counts = ("rank", "parts", "samples", "shots", "max_steps", "warmup_steps", "max_queries")
        for key in (*counts, "seed"):
            ranges[key] = (getattr(self, key) >= 0, "0 or more")
        one_gpu = not self.device.startswith("cuda:") or self.device == "cuda:0"
        ranges["device"] = (
            one_gpu,
            "the trainer takes the first GPU that it sees: CUDA_VISIBLE_DEVICES says which",
        )
        if self.shots > 0:
            shows = not isinstance(self.prompts, CompactTemplate)
            ranges["shots"] = (shows, "0: compact prompts show no cases")
        refuse_misfits(self, ranges, _SECTIONS, config)

    @property
    def prompts(self) -> PromptTemplate:
        """The template of the prompts; without rules for SSFT.

        Raises:
            ConfigError: the template is wrong.
        """
        template = stated_template(self.base) if self.template is None else self.template
        if self.method == "ssft" and template is None:
            return PromptTemplate.standard()
        made = PromptTemplate.of(template)
        return made.without_rules() if self.method == "ssft" else made

    @property
    def finding(self) -> Config:
        """How documents are found; SSFT finds them without rules."""
        if self.method == "ssft":
            return self.retrieval.without("selector", "guided", "fusion")
        return self.retrieval

    def to_json(self) -> dict[str, Any]:
        """Every setting as JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "retrieval"}
        if (
            not self.shots
        ):  # folders of runs from before there were cases stay those of these settings
            plain.pop("shots")
        return {**plain, "retrieval": self.retrieval.to_dict(), "targets": list(self.targets)}

    @property
    def fingerprint(self) -> str:
        """Names every setting that changes the result."""
        return fingerprint_settings(self.to_json())
