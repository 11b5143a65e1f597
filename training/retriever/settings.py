"""The settings of retriever fine-tuning, read from a configuration and checked before any work."""

from __future__ import annotations

from typing import Literal, Self

import pydantic
from pydantic import Field

from rulerag.composition import check_choice
from training.common.settings import Section, TrainingSettings


class DatasetSection(Section):
    """What is trained on.

    Args:
        path: the dataset folder.
        split: the training queries, F_R.
    """

    path: str
    split: str = "f_r"


class ModelSection(Section):
    """What is trained.

    Args:
        query: the query encoder to start from: a folder or a Hub name.
        document: the document encoder, frozen; the query encoder as it starts when empty.
        pooling: of a checkpoint that does not state it.
        max_length: tokens of a text; the model's window when 0.
    """

    query: str
    document: str = ""
    pooling: str = ""
    max_length: int = 0


class DataSection(Section):
    """The examples.

    Args:
        method: ``rgft``, ``ssft`` (no rules) or ``mixed``.
        max_rules: guiding rules of a query at most.
        rank_by: which rules come first.
        tuning_share: fraction of the queries kept for validation.
        num_queries: few-shot: train on so many queries, drawn by seed; 0 for all.
        latest: keep one document of each fact, the latest, as an index with ``latest`` does.
    """

    method: Literal["rgft", "ssft", "mixed"] = "rgft"
    max_rules: int = Field(default=10, ge=1)
    rank_by: str = "support"
    tuning_share: float = Field(default=0.1, gt=0, lt=1)
    num_queries: int = Field(default=0, ge=0)
    latest: bool = False


class OptimizationSection(Section):
    """How it is trained.

    Args:
        learning_rate: of AdamW at its peak.
        batch_size: examples of a step, over all processes; the others are the negatives.
        accumulation: passes of one step, which save memory and change nothing but dropout: each
            query meets the documents of the whole step.
        temperature: of the softmax over cosines.
        epochs: passes over the examples.
        max_steps: stop earlier; 0 for all epochs.
        warmup_share: fraction of the steps in which the rate rises; then it falls to zero.
        weight_decay: of AdamW.
        max_grad_norm: gradients are clipped to it.
        extra_negatives: further documents drawn from the corpus as negatives of a whole batch;
            they cost next to nothing, since the matrix holds their vectors.
        precision: ``fp32`` or ``bf16``.
    """

    learning_rate: float = Field(default=1e-5, gt=0)
    batch_size: int = Field(default=32, ge=2)
    accumulation: int = Field(default=1, ge=1)
    temperature: float = Field(default=0.01, gt=0)
    epochs: int = Field(default=3, ge=1)
    max_steps: int = Field(default=0, ge=0)
    warmup_share: float = Field(default=0.05, ge=0, lt=1)
    weight_decay: float = Field(default=0.01, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    extra_negatives: int = Field(default=0, ge=0)
    precision: Literal["fp32", "bf16"] = "fp32"


class ValidationSection(Section):
    """How checkpoints are compared.

    Args:
        split: other queries to validate on than the kept fraction of the training split, ``f_g``
            for example: F_R holds only queries that some rule can answer, F_G all that come.
        every: steps between two validations, which are checkpoints too; 0 for once an epoch.
        metric: what chooses the best checkpoint.
        top_k: documents of a search.
        max_queries: tuning queries used at most; 0 for all.
    """

    split: str = ""
    every: int = Field(default=0, ge=0)
    metric: str = "answer_recall@10"
    top_k: int = Field(default=10, ge=1)
    max_queries: int = Field(default=0, ge=0)

    @property
    def metrics(self) -> tuple[str, str]:
        """The measures that may choose the best checkpoint."""
        name = f"answer_recall@{self.top_k}"
        return name, f"{name}_union"


class RetrieverSettings(TrainingSettings):
    """Every setting; the defaults are the paper's where it states one (RuleRAG, section 4.2).

    The seed is that of the tuning queries, the batches and dropout.
    """

    dataset: DatasetSection
    model: ModelSection
    data: DataSection = DataSection()
    training: OptimizationSection = OptimizationSection()
    validation: ValidationSection = ValidationSection()

    @pydantic.model_validator(mode="after")
    def _metric_is_measured(self) -> Self:
        check_choice(
            "validation.metric", self.validation.metric, self.validation.metrics, "measure"
        )
        return self
