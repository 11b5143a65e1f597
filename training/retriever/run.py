"""RGFT-retriever: a query encoder learns to follow rules, the document encoder stays frozen.

``python -m training.retriever configs/training/rgft-ruleqa-i.yaml`` trains on F_R; the same with
``method=ssft`` trains without rules. A killed run goes on to the same result: batches and dropout
depend on seed and step alone, weights and optimizer are kept at every validation.

References:
    RuleRAG (arXiv:2410.22353), section 3.2.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rulerag.composition import Config
from rulerag.errors import ConfigError
from rulerag.retrieval.dense.encoders import SentenceEncoder, load_encoder
from rulerag.ruleqa import RuleQADataset
from training.common.checkpoint import RunFolder
from training.common.command import run_training, write_card
from training.common.processes import Processes, first_process
from training.common.validation import CorpusMatrix
from training.retriever.data import prepare, with_latest_statements
from training.retriever.settings import RetrieverSettings
from training.retriever.trainer import RetrieverTrainer

__all__ = ["main", "retriever_card", "train_retriever"]

_TRAINED_ON = {
    "rgft": "query∘rule with the rule's oracle documents (RGFT)",
    "ssft": "queries with their oracle documents, without rules (SSFT)",
    "mixed": "queries and query∘rule with their oracle documents (SSFT and RGFT)",
}


def train_retriever(
    settings: RetrieverSettings,
    *,
    dataset: RuleQADataset | None = None,
    progress: bool = False,
    after_step: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Fine-tune a query encoder; write it as a sentence-transformers folder with a model card.

    A finished run is not repeated, an interrupted one goes on.

    Args:
        settings: what to do.
        dataset: what ``settings.path`` holds, where it is loaded already.
        progress: show progress bars and the measures of every validation.
        after_step: called with the number of every finished step.

    Returns:
        What ``metrics.json`` of the folder holds.

    Raises:
        ConfigError: a setting is wrong, or the folder belongs to other settings.
        DataError: the dataset cannot be read.
        RetrievalError: a checkpoint is no encoder.
        TrainingError: the loss is no number.
    """
    settings.check()
    processes = Processes(settings.device or None, settings.precision)
    progress = progress and processes.is_main
    folder = processes.first(lambda: RunFolder(settings.out, settings.fingerprint))
    done = processes.first(lambda: folder.finished)
    if done is not None:
        processes.end()
        return done
    if processes.is_main:
        folder.begin(asdict(settings))
    dataset = dataset or RuleQADataset.load(settings.path)
    if settings.latest:
        more = (settings.validation_split,) if settings.validation_split else ()
        dataset = with_latest_statements(dataset, settings.split, *more)
    data = prepare(dataset, settings)
    query, document = (
        _encoder(settings, "query", processes),
        _encoder(settings, "document", processes),
    )
    # One process encodes what all of them then read.
    if not processes.is_main:
        processes.wait()
    matrix = CorpusMatrix.encode(dataset.corpus, document, progress=progress)
    if processes.is_main:
        processes.wait()
    if query.dimension != matrix.vectors.shape[1]:
        raise ConfigError(
            f"queries have {query.dimension} dimensions, documents {matrix.vectors.shape[1]}",
            key="model.document",
            hint="name two encoders that were made for each other",
        )
    trainer = RetrieverTrainer(
        settings, dataset, query, matrix, data, processes, folder, progress=progress
    )
    metrics = trainer.run(after_step)
    if processes.is_main:
        query.model.load_state_dict(folder.best(trainer.best_step))
        folder.finish(query, document, retriever_card(settings, metrics), metrics)
    metrics = processes.first(lambda: metrics)
    del trainer, query  # a wrapped model that outlives its group of processes can hang at its end
    gc.collect()
    processes.end()
    return metrics


def _encoder(settings: RetrieverSettings, role: str, processes: Processes) -> SentenceEncoder:
    name = settings.document if role == "document" and settings.document else settings.query
    return load_encoder(
        name,
        role=role,
        pooling=settings.pooling or None,
        # Raw products divided by 0.01 explode; both sides are trained and saved as cosine.
        similarity="cosine",
        max_length=settings.max_length or None,
        device=str(processes.device),
        batch_size=128,
    )


def retriever_card(settings: RetrieverSettings, metrics: dict[str, Any]) -> str:
    """The model card in Markdown with the Hub's metadata.

    Args:
        settings: of the run.
        metrics: of the run: before, best, numbers of examples.
    """
    return write_card(
        Path(__file__).with_name("card.md"),
        metrics,
        settings=settings,
        method=settings.method.upper(),
        read=_TRAINED_ON[settings.method],
    )


def _train(config: Config, progress: bool) -> str:
    settings = RetrieverSettings.from_config(config)
    metrics = train_retriever(settings, progress=progress)
    if not first_process():
        return ""
    name = settings.metric
    return (
        f"{name}: {metrics['before'][name]:.4f} before, {metrics['best'][name]:.4f} at step "
        f"{metrics['best_step']} of {metrics['steps']}; written to {settings.out}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return run_training(
        argv,
        _train,
        program="training.retriever",
        description="Fine-tune a query encoder with rules (RGFT) or without (method=ssft); "
        "resumes, and writes a sentence-transformers folder with a model card.",
        example="python -m training.retriever configs/training/rgft-ruleqa-i.yaml "
        "method=ssft out=runs/ssft-ruleqa-i; on two processes: "
        "torchrun --standalone --nproc_per_node 2 -m training.retriever CONFIG",
    )
