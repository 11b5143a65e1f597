"""The settings of retriever fine-tuning, read from a configuration and checked before any work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from rulerag.config import Config
from training.command import fingerprint_settings, refuse_misfits
from training.data import METHODS
from training.processes import PRECISIONS

__all__ = ["RetrieverSettings"]

_TOP = ("metadata", "dataset", "model", "data", "training", "validation", "expected")
_SECTIONS = {
    "dataset": ("path", "split"),
    "model": ("query", "document", "pooling", "max_length"),
    "data": (
        "method",
        "max_rules",
        "rank_by",
        "tuning_share",
        "num_queries",
        "hard_negatives",
        "latest",
    ),
    "training": (
        "learning_rate",
        "batch_size",
        "temperature",
        "epochs",
        "max_steps",
        "warmup_share",
        "weight_decay",
        "max_grad_norm",
        "extra_negatives",
        "precision",
    ),
    "validation": ("split", "every", "metric", "top_k", "max_queries"),
}
_FIELDS = {("validation", "split"): "validation_split"}
"""Where a key's field has another name."""


@dataclass(frozen=True)
class RetrieverSettings:
    """Every setting; the defaults are the paper's where it states one (RuleRAG, section 4.2).

    Args:
        path: the dataset folder.
        query: the query encoder to start from: a folder or a Hub name.
        out: the folder to write.
        split: the training queries, F_R.
        document: the document encoder, frozen; the query encoder as it starts when empty.
        pooling: of a checkpoint that does not state it.
        max_length: tokens of a text; the model's window when 0.
        method: ``rgft``, ``ssft`` (no rules) or ``mixed``.
        max_rules: guiding rules of a query at most.
        rank_by: which rules come first.
        tuning_share: share of the queries kept for validation.
        num_queries: few-shot: train on so many queries, drawn by seed; 0 for all.
        hard_negatives: BM25-mined hard negatives of each example.
        latest: keep one document of each fact, the latest, as an index with ``latest`` does.
        learning_rate: of AdamW at its peak.
        batch_size: examples of a step, over all processes.
        temperature: of the softmax over cosines.
        epochs: passes over the examples.
        max_steps: stop earlier; 0 for all epochs.
        warmup_share: share of the steps in which the rate rises; then it falls to zero.
        weight_decay: of AdamW.
        max_grad_norm: gradients are clipped to it.
        extra_negatives: further documents drawn from the corpus as negatives of a whole batch;
            they cost next to nothing, since the matrix holds their vectors.
        precision: ``fp32`` or ``bf16``.
        validation_split: other queries to validate on than the kept share of ``split``, ``f_g`` for
            example: F_R holds only queries that some rule can answer, F_G all that come.
        every: steps between two validations, which are checkpoints too; 0 for once an epoch.
        metric: what chooses the best checkpoint.
        top_k: documents of a search.
        max_queries: tuning queries asked at most; 0 for all.
        device: ``cpu``, ``cuda``; a GPU where there is one when empty.
        seed: of the tuning queries, the batches and dropout.
    """

    path: str
    query: str
    out: str
    split: str = "f_r"
    document: str = ""
    pooling: str = ""
    max_length: int = 0
    method: str = "rgft"
    max_rules: int = 10
    rank_by: str = "support"
    tuning_share: float = 0.1
    num_queries: int = 0
    hard_negatives: int = 0
    latest: bool = False
    learning_rate: float = 1e-5
    batch_size: int = 32
    temperature: float = 0.01
    epochs: int = 3
    max_steps: int = 0
    warmup_share: float = 0.05
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    extra_negatives: int = 0
    precision: str = "fp32"
    validation_split: str = ""
    every: int = 0
    metric: str = "answer_recall@10"
    top_k: int = 10
    max_queries: int = 0
    device: str = ""
    seed: int = 0

    @classmethod
    def from_config(cls, config: Config) -> RetrieverSettings:
        """Read and check a configuration.

        Raises:
            ConfigError: an unknown key, a missing one, or a value out of range; names it.
        """
        config.check((*_TOP, "out", "device", "seed"), required=("dataset", "model", "out"))
        kinds = {"str": str, "int": int, "float": float, "bool": bool}
        types: dict[str, Any] = {f.name: kinds[str(f.type)] for f in fields(cls)}
        defaults = {f.name: f.default for f in fields(cls)}
        values: dict[str, Any] = {}
        for section, keys in _SECTIONS.items():
            required = {"dataset": ("path",), "model": ("query",)}.get(section, ())
            part = config.section(section).check(keys, required=required)
            for key in keys:
                name = _FIELDS.get((section, key), key)
                if part.get(key) is not None:
                    values[name] = part.read(key, types[name])
        for key in ("out", "device", "seed"):
            if config.get(key) is not None:
                values[key] = config.read(key, types[key], defaults[key])
        made = cls(**values)
        made.check(config)
        return made

    def check(self, config: Config | None = None) -> None:
        """Refuse values out of range.

        Raises:
            ConfigError: names the key and what would work.
        """
        ranges: dict[str, tuple[bool, str]] = {
            "method": (self.method in METHODS, f"one of {', '.join(METHODS)}"),
            "precision": (self.precision in PRECISIONS, " or ".join(PRECISIONS)),
            "tuning_share": (0 < self.tuning_share < 1, "between 0 and 1, say 0.1"),
            "learning_rate": (self.learning_rate > 0, "above 0, say 1e-5"),
            "temperature": (self.temperature > 0, "above 0, say 0.01"),
            "warmup_share": (0 <= self.warmup_share < 1, "from 0 to below 1"),
            "max_grad_norm": (self.max_grad_norm > 0, "above 0, say 1.0"),
            "weight_decay": (self.weight_decay >= 0, "0 or more"),
            "batch_size": (self.batch_size >= 2, "2 or more: the others are the negatives"),
            "metric": (self.metric in self.metrics, f"one of {', '.join(self.metrics)}"),
        }
        for key in ("max_rules", "epochs", "top_k"):
            ranges[key] = (getattr(self, key) >= 1, "1 or more")
        counts = ("num_queries", "hard_negatives", "extra_negatives", "max_steps", "every")
        for key in (*counts, "max_queries", "seed"):
            ranges[key] = (getattr(self, key) >= 0, "0 or more")
        refuse_misfits(self, ranges, _SECTIONS, config)

    @property
    def metrics(self) -> tuple[str, str]:
        """The measures that may choose the best checkpoint."""
        name = f"answer_recall@{self.top_k}"
        return name, f"{name}_union"

    @property
    def fingerprint(self) -> str:
        """Names every setting that changes the result."""
        return fingerprint_settings(asdict(self))
