"""The settings of generator fine-tuning, read from a configuration and checked before any work."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from rulerag.composition import Config
from rulerag.generation.huggingface import stated_template
from rulerag.generation.prompts import CompactTemplate, PromptTemplate
from training.common.settings import Settings, setting

__all__ = ["METHODS", "GeneratorSettings"]

METHODS = ("rgft", "ssft")
_SCHEDULES = ("linear", "cosine", "constant_with_warmup")
# How documents are found for an example: the sections of an experiment file, read by
# rulerag.assembly.build.
_RETRIEVAL = ("selector", "retriever")


@dataclass(frozen=True)
class GeneratorSettings(Settings):
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
        reader_rules: which rules a prompt shows (see :class:`~rulerag.RuleRAGPipeline`).
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

    TOP: ClassVar = (*Settings.TOP, *_RETRIEVAL)

    path: str = setting("dataset")
    base: str = setting("model")
    out: str = setting("")
    split: str = setting("dataset", "f_g")
    tokenizer: str = setting("model", "")
    quantization: str = setting("model", "", known=("", "4bit", "8bit"))
    chat: bool | None = setting("model", None)
    template: Any = setting("model", None)  # noqa: RUF009  (makes a field)
    rank: int = setting("lora", 8, least=0)
    alpha: int = setting("lora", 32, least=1)
    dropout: float = setting("lora", 0.05, least=0, below=1)
    targets: tuple[str, ...] = setting("lora", ())
    merged: bool = setting("lora", False)
    method: str = setting("data", "rgft", known=METHODS)
    samples: int = setting("data", 2048, least=0)
    shots: int = setting("data", 0, least=0)
    tuning_share: float = setting("data", 0.1, above=0, below=1, say="say 0.1")
    retrieval: Config = field(default_factory=lambda: Config({}))
    top_k: int = setting("", 10, least=1)
    reader_rules: str = setting("", "selected")
    learning_rate: float = setting("training", 3e-4, above=0, say="say 3e-4")
    batch_size: int = setting("training", 8, least=1)
    accumulation: int = setting("training", 1, least=1)
    epochs: int = setting("training", 50, least=1)
    max_steps: int = setting("training", 0, least=0)
    warmup_steps: int = setting("training", 5, least=0)
    schedule: str = setting("training", "linear", known=_SCHEDULES)
    weight_decay: float = setting("training", 0.0, least=0)
    max_grad_norm: float = setting("training", 1.0, above=0, say="say 1.0")
    max_length: int = setting("training", 5120, least=1)
    precision: str = setting("training", "fp32", known=("fp32", "bf16", "fp16"))
    gradient_checkpointing: bool = setting("training", False)
    every_epochs: int = setting("validation", 3, least=1)
    parts: int = setting("validation", 0, least=0)
    max_queries: int = setting("validation", 0, least=0)
    max_new_tokens: int = setting("validation", 32, least=1)
    device: str = setting("", "")
    seed: int = setting("", 0, least=0)

    @classmethod
    def read(cls, config: Config) -> dict[str, Any]:
        """As :meth:`Settings.read`; ``lora: null`` trains every weight."""
        values = super().read(config)
        if config.get("lora") is None:
            values["rank"] = 0
        if config.get("retriever") is None:
            raise config.error("is missing", "retriever", hint="retriever: {type: bm25}")
        kept = {key: config[key] for key in _RETRIEVAL if config.get(key) is not None}
        return {**values, "retrieval": Config(kept, source=config.source)}

    def check(self, config: Config | None = None) -> None:
        """As :meth:`Settings.check`; also refuses values that do not fit each other."""
        super().check(config)
        one_gpu = not self.device.startswith("cuda:") or self.device == "cuda:0"
        for name, fits, hint in (
            ("quantization", self.rank or not self.quantization, "null, or lora beside it"),
            (
                "merged",
                not self.merged or (self.rank and not self.quantization),
                "an adapter on quantized weights cannot be merged without loss; keep it apart",
            ),
            ("targets", "lm_head" not in self.targets, "leave lm_head out: TRL skips it"),
            (
                "device",
                one_gpu,
                "the trainer takes the first GPU that it sees: CUDA_VISIBLE_DEVICES says which",
            ),
            (
                "shots",
                not self.shots or not isinstance(self.prompts, CompactTemplate),
                "0: compact prompts show no cases",
            ),
        ):
            if not fits:
                raise self.misfit(name, hint, config)

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
        if self.method != "ssft":
            return self.retrieval
        section = self.retrieval["retriever"]
        while section["type"] in ("guided", "fused"):
            section = section["retriever" if section["type"] == "guided" else "retrievers"]
            section = section[0] if isinstance(section, tuple) else section
        return Config({"retriever": section}, source=self.retrieval.source)

    def to_json(self) -> dict[str, Any]:
        """Every setting as JSON."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        if not self.shots:  # folders of runs from before there were cases stay of these settings
            del values["shots"]
        return {**values, "retrieval": self.retrieval.to_dict(), "targets": list(self.targets)}
