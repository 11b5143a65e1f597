"""RGFT-retriever: a query encoder learns to follow rules, the document encoder stays frozen.

``python -m training.retriever configs/training/rgft-ruleqa-i.yaml`` trains on F_R; the same with
``method=ssft`` trains without rules. A killed run goes on to the same result: batches and dropout
depend on seed and step alone, weights and optimizer are kept at every validation.

References:
    RuleRAG (arXiv:2410.22353), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rulerag.errors import ConfigError
from rulerag.retrieval.dense.encoders import SentenceEncoder, load_encoder
from rulerag.ruleqa import RuleQADataset
from training.common.checkpoint import RunFolder, saving
from training.common.processes import Processes
from training.common.runner import run_training, train_in_folder, write_card
from training.common.validation import CorpusMatrix
from training.retriever.data import prepare, with_latest_statements
from training.retriever.settings import RetrieverSettings
from training.retriever.trainer import RetrieverTrainer

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
        dataset: what ``settings.dataset.path`` holds, where it is loaded already.
        progress: show progress bars and the measures of every validation.
        after_step: called with the number of every finished step.

    Returns:
        What ``metrics.json`` of the folder holds.

    Raises:
        ConfigError: a setting is wrong, or the folder belongs to other settings.
        DataError: the dataset cannot be read.
        RetrievalError: a checkpoint is no encoder.
        OutputError: the folder cannot be written, or the disk is full.
        TrainingError: the loss is no number.
    """
    processes = Processes(settings.device or None, settings.training.precision)

    def work(processes: Processes, folder: RunFolder) -> dict[str, Any]:
        shown = progress and processes.is_main
        return _trained(settings, dataset, processes, folder, shown, after_step)

    return train_in_folder(settings, work, processes)


def _trained(
    settings: RetrieverSettings,
    dataset: RuleQADataset | None,
    processes: Processes,
    folder: RunFolder,
    progress: bool,
    after_step: Callable[[int], None] | None,
) -> dict[str, Any]:
    """Train in the folder, write the encoders there, and return the metrics."""
    dataset = dataset or RuleQADataset.load(settings.dataset.path)
    other_split = settings.validation.split
    if settings.data.latest:
        more = (other_split,) if other_split else ()
        dataset = with_latest_statements(dataset, settings.dataset.split, *more)
    data = prepare(dataset, settings)
    query, document = (_encoder(settings, role, processes) for role in ("query", "document"))
    made: list[CorpusMatrix] = []

    def encode() -> None:
        made.append(CorpusMatrix.encode(dataset.corpus, document, progress=progress))

    processes.first(encode)  # what the others then read; what fails fails in all of them
    if not made:
        encode()
    (matrix,) = made
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
        with saving(folder.home):
            # sentence-transformers folders: the query encoder in the folder itself.
            document.save(folder.home / "document_encoder")
            query.save(folder.home)
        folder.finish(retriever_card(settings, metrics), metrics)
    return processes.first(lambda: metrics)


def _encoder(settings: RetrieverSettings, role: str, processes: Processes) -> SentenceEncoder:
    name = (
        settings.model.document
        if role == "document" and settings.model.document
        else settings.model.query
    )
    return load_encoder(
        name,
        role=role,
        pooling=settings.model.pooling or None,
        # Raw products divided by 0.01 explode; both sides are trained and saved as cosine.
        similarity="cosine",
        max_length=settings.model.max_length or None,
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
        model=settings.model,
        data=settings.data,
        training=settings.training,
        seed=settings.seed,
        method=settings.data.method.upper(),
        read=_TRAINED_ON[settings.data.method],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    return run_training(
        argv,
        RetrieverSettings,
        train_retriever,
        measure=lambda settings: settings.validation.metric,
        program="training.retriever",
        description="Fine-tune a query encoder with rules (RGFT) or without (method=ssft); "
        "resumes, and writes a sentence-transformers folder with a model card.",
        example="python -m training.retriever configs/training/rgft-ruleqa-i.yaml "
        "method=ssft out=runs/ssft-ruleqa-i; on two processes: "
        "torchrun --standalone --nproc_per_node 2 -m training.retriever CONFIG",
    )
