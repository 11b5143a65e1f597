"""What every index over a corpus shares: checks, fingerprint, and rows turned into results."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.types import Document, Query, RuleHit, ScoredDocument

__all__ = [
    "RowSearcher",
    "Rows",
    "check_documents",
    "check_top_k",
    "corpus_fingerprint",
    "indexed_text",
    "scored_documents",
]


class Rows(NamedTuple):
    """Search results as arrays: what a batch of queries found, best first.

    Args:
        rows: int64 array of shape (n_queries, depth); positions in the corpus, -1 where a query
            found fewer documents than asked for.
        scores: float64 array of the same shape; 0 where ``rows`` is -1.
    """

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]


@runtime_checkable
class RowSearcher(Protocol):
    """A retriever that can also answer in rows of its corpus, without building records.

    Wrappers that ask for a deep pool and keep little of it use this where it is offered.
    """

    documents: tuple[Document, ...]

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first."""
        ...


def check_top_k(top_k: int, key: str = "top_k") -> None:
    """Raise a ConfigError unless at least one document is asked for."""
    if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
        raise ConfigError(f"{top_k!r} documents cannot be retrieved", key=key, hint="1 or more")


def check_documents(documents: Sequence[Document]) -> tuple[Document, ...]:
    """Return the corpus as a tuple.

    Raises:
        EmptyDataError: there is no document.
        DataFormatError: two documents share an id.
    """
    corpus = tuple(documents)
    if not corpus:
        raise EmptyDataError("the corpus holds no documents", hint="give at least one document")
    seen: set[str] = set()
    for document in corpus:
        if document.id in seen:
            raise DataFormatError(
                f"two documents share the id {document.id!r}", hint="ids must be unique in a corpus"
            )
        seen.add(document.id)
    return corpus


def indexed_text(document: Document) -> str:
    """The text that lexical indexes see: the title, where there is one, and the text (BEIR)."""
    return f"{document.title} {document.text}" if document.title else document.text


def corpus_fingerprint(documents: Sequence[Document]) -> str:
    """A fingerprint (16 hex digits) of ids and indexed texts, in corpus order."""
    digest = hashlib.sha256()
    for document in documents:
        # The lengths keep apart what joining would make equal.
        text = indexed_text(document)
        digest.update(f"{len(document.id)},{len(text)};{document.id}{text}".encode())
    return digest.hexdigest()[:16]


def scored_documents(documents: Sequence[Document], found: Rows) -> list[list[ScoredDocument]]:
    """Turn rows into results; each document carries the plain search that found it."""
    results = []
    for rows, scores in zip(found.rows.tolist(), found.scores.tolist(), strict=True):
        results.append(
            [
                ScoredDocument(documents[row], score, rank, (RuleHit(None, rank, score),))
                for rank, (row, score) in enumerate(zip(rows, scores, strict=True), start=1)
                if row >= 0
            ]
        )
    return results
