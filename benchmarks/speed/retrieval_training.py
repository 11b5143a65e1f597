"""Speed of a fine-tuning step against the bare model's forward and backward on the same tokens.

Ours is everything that :class:`~training.retriever.trainer.RetrieverTrainer` does in its steps:
drawing the batch, finding what may not be a negative, cutting texts into tokens, forward, loss,
backward, clipping, AdamW, and the beginning and end of a run of some steps. The bare loop has its
tokens padded beforehand, and neither loss nor optimizer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.speed.timing import timed
from rulerag.retrieval.dense import embed_corpus
from rulerag.retrieval.dense.encoders import SentenceEncoder
from rulerag.ruleqa import RuleQADataset, RuleQASettings, build
from rulerag.synthetic import World
from training.common.processes import Processes
from training.retriever.data import prepare
from training.retriever.settings import RetrieverSettings
from training.retriever.trainer import TrainingSteps, make_trainer


def training_dataset(facts: int = 8000) -> RuleQADataset:
    """A benchmark over a generated world, with queries to train on."""
    settings = RuleQASettings(num_queries=100, miner="tlogic", min_support=5, min_confidence=0.1)
    return build("ruleqa-i", World.generate(facts, seed=1).graph, settings=settings)


def training_step(
    dataset: RuleQADataset, encoder: SentenceEncoder, *, batch_size: int = 32, steps: int = 32
) -> tuple[float, float]:
    """CPU seconds of fine-tuning for a few steps, and of the bare model over the same batches.

    Args:
        dataset: where examples come from.
        encoder: trained in place.
        batch_size: examples of a step.
        steps: steps of one measurement.
    """
    import torch

    with tempfile.TemporaryDirectory() as folder:
        values = {
            "dataset": {"path": ""},
            "model": {"query": ""},
            "training": {"batch_size": batch_size, "epochs": 1000, "max_steps": steps},
        }
        settings = RetrieverSettings.read({**values, "out": folder, "device": "cpu"})
        vectors = embed_corpus(dataset.corpus, encoder, cache=False).vectors
        drawn = TrainingSteps(prepare(dataset, settings), len(vectors), settings)
        trainer = make_trainer(
            settings,
            encoder,
            drawn,
            vectors,
            lambda _: {"merit": 0.0},
            Processes("cpu"),
            Path(folder),
        )
        # The steps alone: no validation, no checkpoint.
        arguments = trainer.args
        arguments.eval_strategy = arguments.save_strategy = "no"
        arguments.eval_on_start = arguments.load_best_model_at_end = False
        first: Any = encoder.model[0]
        texts = [[e.text for e in drawn[step][0]] for step in range(steps)]
        batches = [encoder.model.preprocess(batch) for batch in texts]

        def ours() -> None:
            trainer.train()

        def bare() -> None:
            encoder.model.train()
            for batch in batches:
                hidden = first.auto_model(
                    input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
                ).last_hidden_state
                torch.autograd.backward(hidden.mean())
                encoder.model.zero_grad(set_to_none=True)

        ours()
        _, _, *seconds = timed(ours, bare)
    return seconds[0], seconds[1]
