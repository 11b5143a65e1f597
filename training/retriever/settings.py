"""The settings of retriever fine-tuning, read from a configuration and checked before any work."""

from __future__ import annotations

from dataclasses import dataclass

from rulerag.composition import Config
from training.common.processes import PRECISIONS
from training.common.settings import Settings, setting

__all__ = ["METHODS", "RetrieverSettings"]

METHODS = ("rgft", "ssft", "mixed")


@dataclass(frozen=True)
class RetrieverSettings(Settings):
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

    path: str = setting("dataset")
    query: str = setting("model")
    out: str = setting("")
    split: str = setting("dataset", "f_r")
    document: str = setting("model", "")
    pooling: str = setting("model", "")
    max_length: int = setting("model", 0)
    method: str = setting("data", "rgft", known=METHODS)
    max_rules: int = setting("data", 10, least=1)
    rank_by: str = setting("data", "support")
    tuning_share: float = setting("data", 0.1, above=0, below=1, say="say 0.1")
    num_queries: int = setting("data", 0, least=0)
    hard_negatives: int = setting("data", 0, least=0)
    latest: bool = setting("data", False)
    learning_rate: float = setting("training", 1e-5, above=0, say="say 1e-5")
    batch_size: int = setting("training", 32, least=2, say="the others are the negatives")
    temperature: float = setting("training", 0.01, above=0, say="say 0.01")
    epochs: int = setting("training", 3, least=1)
    max_steps: int = setting("training", 0, least=0)
    warmup_share: float = setting("training", 0.05, least=0, below=1)
    weight_decay: float = setting("training", 0.01, least=0)
    max_grad_norm: float = setting("training", 1.0, above=0, say="say 1.0")
    extra_negatives: int = setting("training", 0, least=0)
    precision: str = setting("training", "fp32", known=PRECISIONS)
    validation_split: str = setting("validation", "", key="split")
    every: int = setting("validation", 0, least=0)
    metric: str = setting("validation", "answer_recall@10")
    top_k: int = setting("validation", 10, least=1)
    max_queries: int = setting("validation", 0, least=0)
    device: str = setting("", "")
    seed: int = setting("", 0, least=0)

    def check(self, config: Config | None = None) -> None:
        """As :meth:`Settings.check`; the metric looks at ``top_k`` documents."""
        super().check(config)
        if self.metric not in self.metrics:
            raise self.misfit("metric", f"one of {', '.join(self.metrics)}", config)

    @property
    def metrics(self) -> tuple[str, str]:
        """The measures that may choose the best checkpoint."""
        name = f"answer_recall@{self.top_k}"
        return name, f"{name}_union"
