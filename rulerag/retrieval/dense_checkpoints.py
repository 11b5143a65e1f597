"""Dense retrieval from names alone: what a configuration or a command line can say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.retrieval.dense import DenseRetriever
from rulerag.retrieval.encoders import SentenceEncoder
from rulerag.retrieval.encoders_loading import NANO_ENCODER, load_encoder
from rulerag.retrieval.latest import latest_statements
from rulerag.types import Document

__all__ = ["dense_from_checkpoints", "load_dense"]

_DOCUMENTS = "document_encoder"  # of a fine-tuned query encoder: the frozen one that it fits
_PARTNERS = (("ctx_encoder", "question_encoder"), ("context_encoder", "question_encoder"))


def dense_from_checkpoints(
    documents: Sequence[Document],
    *,
    encoder: str | Path = NANO_ENCODER,
    query_encoder: str | Path | None = None,
    pooling: str | None = None,
    similarity: str | None = None,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
    dtype: str = "fp32",
    batch_size: int = 64,
    index: str = "flat",
    nlist: int | None = None,
    nprobe: int | None = None,
    links: int = 32,
    ef_construction: int = 200,
    ef_search: int = 128,
    cache_dir: str | Path | None = None,
    threads: int | None = None,
    latest: bool = False,
    progress: bool = False,
) -> DenseRetriever:
    """A :class:`~rulerag.retrieval.dense.DenseRetriever` whose encoders are named.

    Args:
        documents: the corpus.
        encoder: the folder or Hub name of the encoder of documents, and of queries where there is
            no ``query_encoder``; the small one that is installed when none is named. The folder
            that ``training.retriever`` wrote stands for both sides: it encodes queries, its
            ``document_encoder`` documents.
        query_encoder: that of queries. For a DPR context encoder named ``…ctx_encoder…`` it is
            the ``…question_encoder…`` of the same name when None.
        pooling: as in :func:`~rulerag.retrieval.encoders_loading.load_encoder`, for both sides,
            like all up to ``batch_size``.
        similarity: see there.
        query_prefix: see there.
        document_prefix: see there.
        max_length: see there.
        device: see there.
        dtype: see there.
        batch_size: see there.
        index: as in :class:`~rulerag.retrieval.dense.DenseRetriever`, like all that follow.
        nlist: see there.
        nprobe: see there.
        links: see there.
        ef_construction: see there.
        ef_search: see there.
        cache_dir: see there.
        threads: see there.
        latest: index one document of each fact, the latest; for queries that come after the whole
            corpus (:func:`~rulerag.retrieval.latest.latest_statements`).
        progress: see there.

    Raises:
        RetrievalError: a checkpoint cannot be opened, or the two do not fit.
        ConfigError: an option is unknown or out of range.
    """
    loading: dict[str, Any] = {
        "pooling": pooling,
        "similarity": similarity,
        "query_prefix": query_prefix,
        "document_prefix": document_prefix,
        "max_length": max_length,
        "device": device,
        "dtype": dtype,
        "batch_size": batch_size,
    }
    of_documents, of_queries = _sides(encoder, query_encoder, loading)
    return DenseRetriever(
        latest_statements(documents) if latest else documents,
        of_documents,
        query_encoder=of_queries,
        similarity=similarity,
        index=index,
        nlist=nlist,
        nprobe=nprobe,
        links=links,
        ef_construction=ef_construction,
        ef_search=ef_search,
        cache_dir=cache_dir,
        threads=threads,
        progress=progress,
    )


def load_dense(
    folder: str | Path,
    documents: Sequence[Document],
    *,
    encoder: str | Path = NANO_ENCODER,
    query_encoder: str | Path | None = None,
    pooling: str | None = None,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
    dtype: str = "fp32",
    batch_size: int = 64,
    nprobe: int | None = None,
    ef_search: int | None = None,
    mmap: bool = False,
    threads: int | None = None,
    latest: bool = False,
    progress: bool = False,
) -> DenseRetriever:
    """A saved dense index with its encoders by name.

    Where queries have an encoder of their own, only that one is opened.

    Args:
        folder: the index folder.
        documents: the documents that it was built from.
        encoder: as in :func:`dense_from_checkpoints`, like all up to ``batch_size``.
        query_encoder: see there.
        pooling: see there.
        query_prefix: see there.
        document_prefix: see there.
        max_length: see there.
        device: see there.
        dtype: see there.
        batch_size: see there.
        nprobe: as in :meth:`~rulerag.retrieval.dense.DenseRetriever.load`, like all that follow.
        ef_search: see there.
        mmap: see there.
        threads: see there.
        latest: as in :func:`dense_from_checkpoints`; the index must have been built so.
        progress: see there.

    Raises:
        RetrievalError: the folder holds no dense index, or a checkpoint cannot be opened.
        FingerprintError: the index was built from other documents or by another encoder.
    """
    loading: dict[str, Any] = {
        "pooling": pooling,
        "query_prefix": query_prefix,
        "document_prefix": document_prefix,
        "max_length": max_length,
        "device": device,
        "dtype": dtype,
        "batch_size": batch_size,
    }
    encoder, partner = _names(encoder, query_encoder)
    checked = None if partner else load_encoder(encoder, **loading)
    queries = load_encoder(partner, role="query", **loading) if partner else None
    return DenseRetriever.load(
        folder,
        latest_statements(documents) if latest else documents,
        checked,
        query_encoder=queries,
        nprobe=nprobe,
        ef_search=ef_search,
        mmap=mmap,
        threads=threads,
        progress=progress,
    )


def _sides(
    encoder: str | Path, query_encoder: str | Path | None, loading: dict[str, Any]
) -> tuple[SentenceEncoder, SentenceEncoder | None]:
    encoder, partner = _names(encoder, query_encoder)
    if partner is None:
        return load_encoder(encoder, **loading), None
    documents = load_encoder(encoder, role="document", **loading)
    return documents, load_encoder(partner, role="query", **loading)


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
