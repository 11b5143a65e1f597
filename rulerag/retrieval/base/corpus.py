"""What every index over a corpus shares: checks, fingerprint, and rows turned into results."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rulerag.cache import remembered
from rulerag.composition import check_range
from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.io import StoredRecords
from rulerag.types import Document, Query, RuleHit, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Retriever


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

    Wrappers that search deep and keep little of it use this where it is offered.
    """

    @property
    def documents(self) -> Sequence[Document]:
        """The corpus that the rows are of."""
        ...

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first."""
        ...


class RetrievedRows:
    """The lists of any retriever as rows: of the documents that it has found so far.

    Args:
        retriever: the retriever.

    Attributes:
        documents: the documents found so far.
        found: the lists of the last search, records with their own hits.
    """

    def __init__(self, retriever: Retriever) -> None:
        self.retriever = retriever
        self.documents: list[Document] = []
        self.found: list[list[ScoredDocument]] = []
        self._row: dict[str, int] = {}

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """What the retriever gives for each query, as rows of :attr:`documents`."""
        self.found = self.retriever.retrieve(queries, depth)
        width = max(map(len, self.found), default=0)
        rows = np.full((len(self.found), width), -1, dtype=np.int64)
        scores = np.zeros((len(self.found), width), dtype=np.float64)
        for line, listed in enumerate(self.found):
            rows[line, : len(listed)] = [self._row_of(scored.document) for scored in listed]
            scores[line, : len(listed)] = [scored.score for scored in listed]
        return Rows(rows, scores)

    def _row_of(self, document: Document) -> int:
        row = self._row.setdefault(document.id, len(self.documents))
        if row == len(self.documents):
            self.documents.append(document)
        return row


class CorpusIndex(ABC):
    """What BM25, Lucene and dense indexes share: a corpus, and records made of rows."""

    documents: Sequence[Document]

    @cached_property
    def corpus_fingerprint(self) -> str:
        """The fingerprint of the indexed ids and texts."""
        return corpus_fingerprint(self.documents)

    @abstractmethod
    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first."""

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        check_top_k(top_k)
        return scored_documents(self.documents, self.search(queries, top_k))


def check_threads(threads: int | None) -> None:
    """Raise a ConfigError unless a number of threads is 1 or more, or None."""
    check_range("threads", 1 if threads is None else threads, 1)


def check_top_k(top_k: int, key: str = "top_k") -> None:
    """Raise a ConfigError unless at least one document is asked for."""
    if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
        raise ConfigError(f"{top_k!r} documents cannot be retrieved", key=key, hint="1 or more")


def check_documents(documents: Sequence[Document]) -> Sequence[Document]:
    """Return the corpus as a tuple, or as it is stored where it was checked before.

    Raises:
        EmptyDataError: there is no document.
        DataFormatError: two documents share an id.
    """
    corpus = documents if isinstance(documents, StoredRecords) else tuple(documents)
    if not corpus:
        raise EmptyDataError("the corpus holds no documents", hint="give at least one document")
    if not isinstance(corpus, StoredRecords):
        (name, count), *_ = Counter(document.id for document in corpus).most_common(1)
        if count > 1:
            raise DataFormatError(
                f"two documents share the id {name!r}", hint="ids must be unique in a corpus"
            )
    return corpus


def indexed_text(document: Document) -> str:
    """The text that lexical indexes see: the title, where there is one, and the text (BEIR)."""
    return f"{document.title} {document.text}" if document.title else document.text


def corpus_fingerprint(documents: Sequence[Document]) -> str:
    """A fingerprint (16 hex digits) of ids and indexed texts, in corpus order."""
    if isinstance(documents, StoredRecords):
        key = ["corpus", documents.file_fingerprint]  # ids and texts, whatever stands beside them
        return str(remembered("datasets", key, lambda: corpus_fingerprint(list(documents))))
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
