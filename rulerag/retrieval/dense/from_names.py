"""Dense retrieval from names alone: what a configuration or a command line can say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.composition import register
from rulerag.retrieval.base import latest_statements
from rulerag.retrieval.dense.encoders import NANO_ENCODER, EncoderSettings, load_encoder
from rulerag.retrieval.dense.retriever import DenseRetriever, IndexSettings
from rulerag.types import Document

_DOCUMENTS = "document_encoder"  # of a fine-tuned query encoder: the frozen one that it fits
_PARTNERS = (("ctx_encoder", "question_encoder"), ("context_encoder", "question_encoder"))


class DenseSettings(EncoderSettings, IndexSettings):
    """What a configuration can say of dense retrieval: the encoders, and how they are opened.

    Args:
        encoder: the folder or Hub name of the encoder of documents, and of queries where there is
            no ``query_encoder``; the small one that is installed when none is named. The folder
            that ``training.retriever`` wrote stands for both sides: it encodes queries, its
            ``document_encoder`` documents.
        query_encoder: that of queries. For a DPR context encoder named ``…ctx_encoder…`` it is
            the ``…question_encoder…`` of the same name when None.
        mmap: leave the vectors of a saved index on disk.
        latest: index one document of each fact, the latest; for queries that come after the whole
            corpus (:func:`~rulerag.retrieval.base.latest_statements`).
    """

    encoder: str | Path = NANO_ENCODER
    query_encoder: str | Path | None = None
    mmap: bool = False
    latest: bool = False


@register("retriever", "dense", load="open_dense")
def open_dense(
    documents: Sequence[Document],
    *,
    folder: str | Path | None = None,
    threads: int | None = None,
    progress: bool = False,
    settings: DenseSettings | None = None,
    **changes: Any,
) -> DenseRetriever:
    """A :class:`~rulerag.retrieval.dense.DenseRetriever` whose encoders are named.

    Args:
        documents: the corpus.
        folder: of a saved index, which is opened instead of making one; ``similarity``, ``index``
            and ``cache_dir`` then mean nothing, and where queries have an encoder of their own,
            only that one is opened.
        threads: as in :class:`~rulerag.retrieval.dense.DenseRetriever`.
        progress: see there.
        settings: all settings together.
        changes: settings one by one, fields of :class:`DenseSettings`, of those of
            :func:`~rulerag.retrieval.dense.encoders.load_encoder` (for both sides) and of
            :class:`~rulerag.retrieval.dense.retriever.IndexSettings`.

    Raises:
        RetrievalError: a checkpoint cannot be opened, or the two do not fit, or the folder holds
            no dense index.
        FingerprintError: the index was built from other documents or by another encoder.
        ConfigError: an option is unknown or out of range.
    """
    chosen = DenseSettings.joined(settings, changes)
    loading = chosen if folder is None else chosen.model_copy(update={"similarity": None})
    encoder, partner = _names(chosen.encoder, chosen.query_encoder)
    queries = None if partner is None else load_encoder(partner, role="query", settings=loading)
    corpus = latest_statements(documents) if chosen.latest else documents
    common: dict[str, Any] = {"query_encoder": queries, "threads": threads, "progress": progress}
    if folder is not None:
        checked = None if partner else load_encoder(encoder, settings=loading)
        common |= {"search_parameters": chosen.search_parameters, "mmap": chosen.mmap}
        return DenseRetriever.load(folder, corpus, checked, **common)
    side = load_encoder(encoder, role="document" if partner else "both", settings=loading)
    return DenseRetriever(corpus, side, settings=chosen, **common)


def _names(
    encoder: str | Path, query_encoder: str | Path | None
) -> tuple[str | Path, str | Path | None]:
    """The encoder of documents, and that of queries where it is another one."""
    path = Path(encoder)
    if (path / _DOCUMENTS).is_dir():
        return path / _DOCUMENTS, query_encoder or encoder
    if query_encoder is not None:
        return encoder, query_encoder
    for context, question in _PARTNERS:
        if context in path.name:
            return encoder, str(path.with_name(path.name.replace(context, question)))
    return encoder, None
