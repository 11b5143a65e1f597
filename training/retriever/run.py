"""RGFT-retriever: a query encoder learns to follow rules, the document encoder stays frozen.

``python -m training.retriever configs/training/rgft-ruleqa-i.yaml`` trains on F_R; the same with
``method=ssft`` trains without rules. The trainer is that of sentence-transformers: weights,
optimizer and random state are kept at every validation, and a killed run goes on from there to the
same result.

References:
    RuleRAG (arXiv:2410.22353), section 3.2.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rulerag.console import guarded
from rulerag.errors import ConfigError
from rulerag.models import saving
from rulerag.retrieval.dense import DenseRetriever, embed_corpus
from rulerag.retrieval.dense.encoders import SentenceEncoder, load_encoder
from rulerag.ruleqa import RuleQADataset
from training.common.checkpoint import ROOM, RunFolder
from training.common.processes import Processes
from training.common.runner import begin_run, print_outcome, training_parser, write_card
from training.retriever.data import prepare, with_latest_statements
from training.retriever.settings import RetrieverSettings

if TYPE_CHECKING:
    from transformers import TrainerCallback

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
    callbacks: Sequence[TrainerCallback] = (),
) -> dict[str, Any]:
    """Fine-tune a query encoder; write it as a sentence-transformers folder with a model card.

    A finished run is not repeated, an interrupted one goes on from its last validation.

    Args:
        settings: what to do.
        dataset: what ``settings.dataset.path`` holds, where it is loaded already.
        progress: show progress bars and the measures of every validation.
        callbacks: further ones of the trainer.

    Returns:
        What ``metrics.json`` of the folder holds.

    Raises:
        ConfigError: a setting is wrong, or the folder belongs to other settings.
        DataError: the dataset cannot be read.
        RetrievalError: a checkpoint is no encoder.
        OutputError: the folder cannot be written, or the disk is full.
        TrainingError: the loss is no number; the last good checkpoint is kept.
    """
    processes = Processes(settings.device, settings.training.precision)
    folder = begin_run(settings, processes)
    metrics = folder.finished
    if metrics is None:
        dataset = dataset or RuleQADataset.load(settings.dataset.path)
        metrics = _trained(settings, dataset, processes, folder, progress, callbacks)
    processes.end()
    return metrics


def _trained(
    settings: RetrieverSettings,
    dataset: RuleQADataset,
    processes: Processes,
    folder: RunFolder,
    progress: bool,
    callbacks: Sequence[TrainerCallback],
) -> dict[str, Any]:
    """Train in the folder, write the encoders there, and return the metrics."""
    # Here: they load the libraries of training, which `--help` does not need.
    from training.common.trainer import outcome, train
    from training.retriever.trainer import TrainingSteps, make_trainer
    from training.retriever.validation import Validation

    def encoder(role: str) -> SentenceEncoder:
        chosen = settings.model
        return load_encoder(
            (role == "document" and chosen.document) or chosen.query,
            role=role,
            pooling=chosen.pooling or None,
            # Raw products divided by 0.01 explode; both sides are trained and saved as cosine.
            similarity="cosine",
            max_length=chosen.max_length or None,
            device=str(processes.device),
            batch_size=128,
        )

    # 1. The examples: query∘rule, and the oracle documents that ground the rule.
    if settings.data.latest:
        more = filter(None, [settings.validation.split])
        dataset = with_latest_statements(dataset, settings.dataset.split, *more)
    data = prepare(dataset, settings)

    # 2. The encoders: that of the documents is frozen, so that the corpus is encoded once.
    progress = progress and processes.is_main
    query, document = encoder("query"), encoder("document")
    if query.dimension != document.dimension:
        raise ConfigError(
            f"queries have {query.dimension} dimensions, documents {document.dimension}",
            key="model.document",
            hint="name two encoders that were made for each other",
        )
    corpus = processes.in_turn(partial(embed_corpus, dataset.corpus, document, progress=progress))

    # 3. The steps: in-batch negatives; answer recall, with the rules, chooses the best checkpoint.
    retriever = DenseRetriever(
        dataset.corpus,
        document,
        query_encoder=query,
        similarity="cosine",
        threads=torch.get_num_threads(),
    )
    trainer = make_trainer(
        settings,
        query,
        TrainingSteps(data, len(dataset.corpus), settings),
        corpus.vectors,
        Validation(settings, dataset, data, retriever, processes),
        processes,
        folder.work,
        progress=progress,
        callbacks=callbacks,
    )
    started = time.perf_counter()
    train(trainer, processes)

    # 4. The folder: a sentence-transformers model that encodes queries, its partner inside.
    metrics = {
        "method": settings.data.method,
        "dataset": dataset.name,
        "dataset_fingerprint": dataset.fingerprint,
        "examples": len(data.examples),
        "training_queries": len(data.queries),
        "tuning_queries": len(data.tuning),
        "truncated_documents": corpus.truncated,
        **outcome(trainer, (*settings.validation.metrics, "documents_per_query_union")),
        "seconds": {"training": round(time.perf_counter() - started, 2)},
        "processes": processes.world,
        "seed": settings.seed,
    }
    if processes.is_main:
        if metrics["best_step"] == 0:
            query = encoder("query")
        with saving(folder.home, ROOM):
            document.save(folder.home / "document_encoder")
            query.save(folder.home)
        card = write_card(
            Path(__file__).with_name("card.md"),
            metrics,
            model=settings.model,
            training=settings.training,
            seed=settings.seed,
            method=settings.data.method.upper(),
            read=_TRAINED_ON[settings.data.method],
        )
        folder.finish(card, metrics)
    processes.wait()
    return metrics


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = training_parser(
        "training.retriever",
        "Fine-tune a query encoder with rules (RGFT) or without (method=ssft); "
        "resumes, and writes a sentence-transformers folder with a model card.",
        "python -m training.retriever configs/training/rgft-ruleqa-i.yaml "
        "method=ssft out=runs/ssft-ruleqa-i; on two processes: "
        "torchrun --standalone --nproc_per_node 2 -m training.retriever CONFIG",
    )
    return guarded(partial(_command, parser.parse_intermixed_args(argv)))


def _command(arguments: Namespace) -> None:
    settings = RetrieverSettings.load(arguments.config, arguments.overrides)
    metrics = train_retriever(settings, progress=not arguments.quiet)
    print_outcome(metrics, settings.validation.metric, settings.out)
