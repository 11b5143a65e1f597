"""Dense retrieval from names alone: what a configuration or a command line can say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rulerag.composition import register
from rulerag.retrieval.base import latest_statements
from rulerag.retrieval.dense.encoders import NANO_ENCODER, load_encoder
from rulerag.retrieval.dense.faiss_index import EXACT
from rulerag.retrieval.dense.retriever import DenseRetriever
from rulerag.types import Document

__all__ = ["open_dense"]

_DOCUMENTS = "document_encoder"  # of a fine-tuned query encoder: the frozen one that it fits
_PARTNERS = (("ctx_encoder", "question_encoder"), ("context_encoder", "question_encoder"))


@register("retriever", "dense", load="open_dense")
def open_dense(
    documents: Sequence[Document],
    *,
    folder: str | Path | None = None,
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
    index: str = EXACT,
    search_parameters: str | None = None,
    cache_dir: str | Path | None = None,
    mmap: bool = False,
    threads: int | None = None,
    latest: bool = False,
    progress: bool = False,
) -> DenseRetriever:
    """A :class:`~rulerag.retrieval.dense.DenseRetriever` whose encoders are named.

    Args:
        documents: the corpus.
        folder: of a saved index, which is opened instead of making one; ``similarity``, ``index``
            and ``cache_dir`` then mean nothing, and where queries have an encoder of their own,
            only that one is opened.
        encoder: the folder or Hub name of the encoder of documents, and of queries where there is
            no ``query_encoder``; the small one that is installed when none is named. The folder
            that ``training.retriever`` wrote stands for both sides: it encodes queries, its
            ``document_encoder`` documents.
        query_encoder: that of queries. For a DPR context encoder named ``…ctx_encoder…`` it is
            the ``…question_encoder…`` of the same name when None.
        pooling: as in :func:`~rulerag.retrieval.dense.encoders.load_encoder`, for both sides,
            like all up to ``batch_size``.
        similarity: see there.
        query_prefix: see there.
        document_prefix: see there.
        max_length: see there.
        device: see there.
        dtype: see there.
        batch_size: see there.
        index: as in :class:`~rulerag.retrieval.dense.DenseRetriever`, like all that follow.
        search_parameters: see there; those that it was saved with when None.
        cache_dir: see there.
        mmap: leave the vectors of a saved index on disk.
        threads: see there.
        latest: index one document of each fact, the latest; for queries that come after the whole
            corpus (:func:`~rulerag.retrieval.base.latest_statements`).
        progress: see there.

    Raises:
        RetrievalError: a checkpoint cannot be opened, or the two do not fit, or the folder holds
            no dense index.
        FingerprintError: the index was built from other documents or by another encoder.
        ConfigError: an option is unknown or out of range.
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
    if folder is None:
        loading["similarity"] = similarity
    encoder, partner = _names(encoder, query_encoder)
    queries = None if partner is None else load_encoder(partner, role="query", **loading)
    corpus = latest_statements(documents) if latest else documents
    common: dict[str, Any] = {"query_encoder": queries, "threads": threads, "progress": progress}
    if folder is not None:
        checked = None if partner else load_encoder(encoder, **loading)
        common |= {"search_parameters": search_parameters, "mmap": mmap}
        return DenseRetriever.load(folder, corpus, checked, **common)
    return DenseRetriever(
        corpus,
        load_encoder(encoder, role="document" if partner else "both", **loading),
        similarity=similarity,
        index=index,
        search_parameters=search_parameters or "",
        cache_dir=cache_dir,
        **common,
    )


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
