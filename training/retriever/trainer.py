"""The trainer of the retriever: sentence-transformers' own, with a loss over frozen documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch.utils.data import BatchSampler, SequentialSampler
from transformers import TrainerCallback

from rulerag.arrays import Floats, Longs
from rulerag.errors import ConfigError
from rulerag.retrieval.dense.encoders import SentenceEncoder
from training.common.processes import Processes
from training.common.trainer import (
    MeasuredTrainer,
    Measures,
    make_arguments,
    prepare_trainer,
)
from training.retriever.data import Example, TrainingData
from training.retriever.loss import contrastive_loss, negatives_mask
from training.retriever.settings import RetrieverSettings


class TrainingSteps:
    """What each step reads: its examples and its documents, by seed and number alone.

    Epochs follow one another without a gap, so that every step is full.

    Args:
        data: the examples.
        documents: how many the corpus has.
        settings: of the run.
    """

    def __init__(self, data: TrainingData, documents: int, settings: RetrieverSettings) -> None:
        self.data = data
        self.documents = documents
        self.seed = settings.seed
        self.batch_size = settings.training.batch_size
        self.extra_negatives = settings.training.extra_negatives
        self.per_epoch = math.ceil(len(data.examples) / self.batch_size)
        whole = math.ceil(len(data.examples) * settings.training.epochs / self.batch_size)
        self.count = min(whole, settings.training.max_steps or whole)
        epochs = math.ceil(self.count * self.batch_size / len(data.examples))
        order = [
            np.random.default_rng([self.seed, 1, epoch]).permutation(len(data.examples))
            for epoch in range(epochs)
        ]
        self._order = np.concatenate(order)

    def __getitem__(self, step: int) -> tuple[list[Example], Longs]:
        """The examples of a step, and its corpus rows: each one's positive, then the negatives."""
        numbers = self._order[step * self.batch_size : (step + 1) * self.batch_size]
        examples = [self.data.examples[number] for number in numbers.tolist()]
        random = np.random.default_rng([self.seed, 2, step])
        positives = np.array([random.choice(example.positives) for example in examples])
        extra = random.integers(0, self.documents, self.extra_negatives)
        return examples, np.concatenate([positives, extra]).astype(np.int64)

    def dataset(self, prefix: str) -> Dataset:
        """The texts of all steps in order; the label of a text is its step and its place there.

        Args:
            prefix: stands before every query.
        """
        steps = [self[step][0] for step in range(self.count)]
        texts = [prefix + example.text for examples in steps for example in examples]
        labels = [(step, place) for step, some in enumerate(steps) for place in range(len(some))]
        return Dataset.from_dict({"text": texts, "label": labels})


class FrozenDocumentsLoss(torch.nn.Module):
    """The contrastive loss of the queries of a pass against all documents of its step.

    Args:
        model: the query encoder.
        steps: say which documents belong to a step.
        vectors: those of the corpus, shape (documents, dimension), of any length.
        temperature: of the softmax over cosines.

    References:
        RuleRAG (arXiv:2410.22353, section 3.2): in-batch negatives, of which no oracle document of
        the query is one.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        steps: TrainingSteps,
        vectors: Floats,
        temperature: float,
    ) -> None:
        super().__init__()
        self.model = model
        self.steps = steps
        self.vectors = vectors
        self.temperature = temperature

    def forward(
        self, features: Sequence[dict[str, torch.Tensor]], labels: torch.Tensor
    ) -> torch.Tensor:
        """The mean loss over some queries of one step.

        Args:
            features: the tokens of the queries, in one dictionary.
            labels: shape (q, 2), their step and their places in it.
        """
        queries = self.model(features[0])["sentence_embedding"]
        examples, documents = self.steps[int(labels[0, 0])]
        places = labels[:, 1]
        mine = places.cpu().numpy()
        oracle = [self.steps.data.oracle[examples[place].query] for place in mine.tolist()]
        excluded = torch.from_numpy(negatives_mask(documents, mine, oracle))
        return contrastive_loss(
            queries,
            torch.from_numpy(np.asarray(self.vectors[documents])).to(queries.device),
            places,
            excluded.to(queries.device),
            temperature=self.temperature,
        )


class RetrieverTrainer(MeasuredTrainer, SentenceTransformerTrainer):
    """Reads the texts of the steps in their order."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: the run writes a card of its own."""

    def get_batch_sampler(
        self, dataset: Dataset, batch_size: int, drop_last: bool, *_: Any, **__: Any
    ) -> BatchSampler:
        """Batches of texts that follow one another."""
        return BatchSampler(SequentialSampler(dataset), batch_size, drop_last)


def make_trainer(
    settings: RetrieverSettings,
    encoder: SentenceEncoder,
    steps: TrainingSteps,
    vectors: Floats,
    measure: Callable[[Any], Measures],
    processes: Processes,
    work: Path,
    *,
    progress: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> RetrieverTrainer:
    """A trainer over the steps of a run.

    Args:
        settings: of the run.
        encoder: that of the queries, trained in place.
        steps: what each step reads.
        vectors: those of the corpus.
        measure: of the model, see :class:`~training.common.trainer.MeasuredTrainer`.
        processes: where it runs.
        work: the folder of its checkpoints.
        progress: show a progress bar.
        callbacks: further ones of the trainer.

    Raises:
        ConfigError: the examples of a step cannot be shared out evenly.
    """
    training = settings.training
    passes = training.accumulation * processes.world
    if training.batch_size % passes:
        raise ConfigError(
            f"{training.batch_size} examples cannot be shared by {processes.world} processes with "
            f"{training.accumulation} passes each",
            key="training.batch_size",
            hint=f"a multiple of {passes}",
        )
    arguments = make_arguments(
        SentenceTransformerTrainingArguments,
        settings,
        work,
        processes,
        every=settings.validation.every or steps.per_epoch,
        progress=progress,
        per_device_train_batch_size=training.batch_size // passes,
        num_train_epochs=1,  # all epochs stand in the dataset
        warmup_steps=training.warmup_share,
        ddp_find_unused_parameters=True,  # encoders carry a pooler that sentence vectors never see
    )
    trainer = RetrieverTrainer(
        model=encoder.model,
        args=arguments,
        train_dataset=steps.dataset(encoder.query_prefix),
        evaluator=[],  # none of the library's, which asks for one: ours measures
        loss=FrozenDocumentsLoss(encoder.model, steps, vectors, training.temperature),
    )
    prepare_trainer(trainer, measure, callbacks)
    return trainer
