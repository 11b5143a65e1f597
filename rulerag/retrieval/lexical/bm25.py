"""BM25 in this process, without Java: a compiled kernel searches scores that are stored."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from rulerag.cache import remembered_arrays
from rulerag.composition import check_range, register
from rulerag.errors import ConfigError, EmptyDataError
from rulerag.io import StoredRecords, fingerprint_object
from rulerag.retrieval.base import (
    CorpusIndex,
    Rows,
    broken_index,
    check_documents,
    check_manifest,
    check_threads,
    check_top_k,
    indexed_text,
    new_index_folder,
)
from rulerag.retrieval.lexical.tokenization import Tokenizer
from rulerag.retrieval.lexical.word_counts import bm25_scores, count_words
from rulerag.types import Document, Query

_KIND = "bm25"
_FILE = "scores.npz"
# Queries handed to a thread at once: large enough to hide the call, small enough to share.
_CHUNK = 256
# Queries after which the kernel is worth its loading, some 0.3 s and 80 MB.
_FEW = 40


@register("retriever", "bm25", load="load")
class BM25Retriever(CorpusIndex):
    """Ranks documents by BM25 and breaks ties by corpus order, exactly and at any depth.

    ``score(q, d) = Σ_t n_q(t) · idf(t) · f / (f + k1 · (1 − b + b · |d| / avg|d|))`` over the
    words t of the query, with ``n_q(t)`` the times t occurs in the query, ``f`` in the document,
    ``|d|`` the document's words and ``idf(t) = ln(1 + (N − n_t + 0.5) / (n_t + 0.5))``. A
    document that shares no word with the query is never returned.

    Corpora of facts tie in masses (one subject, one relation, many dates), so that which of them
    make the first k must not be left to chance.

    Args:
        documents: the corpus.
        k1: how soon repeats of a word stop counting.
        b: how much long documents are held back, from 0 to 1.
        dates: ``token`` (one word), ``split`` (year, month, day) or ``drop``.
        stopwords: ``en``, ``none`` or the words to leave out.
        min_token_length: shortest word kept, in characters.
        threads: threads of a search; every core when None.
        progress: show progress bars.

    Raises:
        EmptyDataError: the corpus holds no document, or not one word.
        ConfigError: an option is out of range.

    References:
        Robertson & Zaragoza 2009; the variant that Lucene uses, see Kamphuis et al. 2020. Scores of
        words in documents are stored as in BM25S (Lù 2024, arXiv:2407.03618).
    """

    def __init__(
        self,
        documents: Sequence[Document],
        *,
        k1: float = 1.5,
        b: float = 0.75,
        dates: str = "token",
        stopwords: str | Sequence[str] = "en",
        min_token_length: int = 1,
        threads: int | None = None,
        progress: bool = False,
    ) -> None:
        words = {"dates": dates, "stopwords": stopwords, "min_length": min_token_length}
        tokenizer = Tokenizer.read(words)
        self.documents = check_documents(documents)
        self._set(k1, b, tokenizer, threads, progress)
        self._arrays = self._remembered()

    def _set(
        self, k1: float, b: float, tokenizer: Tokenizer, threads: int | None, progress: bool
    ) -> None:
        check_range("k1", k1, 0)
        check_range("b", b, 0, 1)
        check_threads(threads)
        self.k1 = float(k1)
        self.b = float(b)
        self.tokenizer = tokenizer
        self._num_searched = 0
        self.threads = threads or os.cpu_count() or 1
        self.progress = progress

    def _remembered(self) -> _Arrays:
        """The arrays of the index, kept in the cache folder for a corpus that is stored."""
        if not isinstance(self.documents, StoredRecords):
            return self._counted()

        key = [self.documents.fingerprint, self._settings()]
        return _Arrays.unpacked(remembered_arrays(_KIND, key, lambda: self._counted().packed()))

    def _counted(self) -> _Arrays:
        bar = tqdm(self.documents, desc="Tokenize", disable=not self.progress)
        counts = count_words(map(indexed_text, bar), self.tokenizer)
        if not counts.vocabulary:
            raise EmptyDataError(
                "the corpus holds not one word", hint="check stopwords and min_token_length"
            )
        data = bm25_scores(counts, len(self.documents), self.k1, self.b)
        return _Arrays(counts.vocabulary, data, counts.indices, counts.starts)

    def __repr__(self) -> str:
        return f"BM25Retriever({len(self.documents):,} documents, k1={self.k1}, b={self.b})"

    @property
    def built_with(self) -> dict[str, Any]:
        """The settings that an index on disk has once and for all, by the constructor's names."""
        words = self.tokenizer
        of_words = {"stopwords": words.stopwords, "min_token_length": words.min_length}
        return {"k1": self.k1, "b": self.b, "dates": words.dates, **of_words}

    def _settings(self) -> dict[str, Any]:
        return {"k1": self.k1, "b": self.b, "tokenizer": self.tokenizer.settings()}

    @cached_property
    def fingerprint(self) -> str:
        """Names the corpus and every setting that changes results."""
        return fingerprint_object([_KIND, self.corpus_fingerprint, self._settings()])

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first.

        Raises:
            ConfigError: ``depth`` is below 1.
        """
        check_top_k(depth, "depth")
        depth = min(depth, len(self.documents))
        rows = np.full((len(queries), depth), -1, dtype=np.int64)
        scores = np.zeros((len(queries), depth), dtype=np.float64)
        self._num_searched += len(queries)
        best_documents: Any = _best_documents
        if self._num_searched > _FEW:
            from rulerag.retrieval.lexical.bm25_kernel import best_documents

        def search_chunk(start: int) -> None:
            stop = start + _CHUNK
            tokens = self._tokens(queries[start:stop])
            found = (rows[start:stop], scores[start:stop])
            best_documents(*self._arrays[1:], *tokens, len(self.documents), *found)

        starts = range(0, len(queries), _CHUNK)
        bar = tqdm(total=len(queries), desc="BM25", unit="query", disable=not self.progress)
        with bar, ThreadPoolExecutor(self.threads) as pool:
            for start, _ in zip(starts, pool.map(search_chunk, starts), strict=True):
                bar.update(min(_CHUNK, len(queries) - start))
        return Rows(rows, scores)

    def _tokens(
        self, queries: Sequence[Query]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """The queries' distinct known tokens, their counts, and where each query starts."""
        tokens: list[int] = []
        weights: list[int] = []
        bounds = [0]
        for query in queries:
            known = map(self._arrays.vocabulary.get, self.tokenizer(query.text))
            counts = Counter(token for token in known if token is not None)
            tokens.extend(counts)
            weights.extend(counts.values())
            bounds.append(len(tokens))
        return (
            np.array(tokens, dtype=np.int64),
            np.array(weights, dtype=np.float64),
            np.array(bounds, dtype=np.int64),
        )

    def save(self, folder: str | Path) -> None:
        """Write the index to a folder, whole or not at all; an index that stood there is replaced.

        Raises:
            OutputError: the folder holds something else, or cannot be written.
        """
        about = self.corpus_fingerprint, len(self.documents), self._settings()
        with new_index_folder(folder, _KIND, *about) as working:
            arrays: Any = self._arrays.packed()
            np.savez(working / _FILE, **arrays)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        documents: Sequence[Document],
        *,
        threads: int | None = None,
        progress: bool = False,
    ) -> BM25Retriever:
        """Read an index that :meth:`save` wrote; ``documents`` are those that it was built from.

        Raises:
            RetrievalError: the folder holds no BM25 index, or a damaged one.
            FingerprintError: the index was built from other documents.
        """
        self = cls.__new__(cls)
        self.documents = check_documents(documents)
        settings = check_manifest(folder, _KIND, corpus=self.corpus_fingerprint)
        try:
            tokenizer = Tokenizer(**settings["tokenizer"])
            self._set(settings["k1"], settings["b"], tokenizer, threads, progress)
            with open(Path(folder) / _FILE, "rb") as file, np.load(file) as stored:
                self._arrays = _Arrays.unpacked(stored)
            self._check_arrays()
        except (ConfigError, OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            reason = f"the index is damaged ({type(error).__name__}: {error})"
            raise broken_index(_KIND, folder, reason) from error
        return self

    def _check_arrays(self) -> None:
        """Make sure that no stored number leads the kernel out of its arrays."""
        words, data, rows, starts = self._arrays
        size = len(self.documents)
        whole = (
            len(rows) == len(data)
            and len(starts) == len(words) + 1
            and starts[0] == 0
            and starts[-1] == len(data)
            and bool((np.diff(starts) >= 0).all())
            and (not len(data) or 0 <= rows.min() <= rows.max() < size)
        )
        if not whole:
            raise ValueError("its arrays do not fit together")


def _best_documents(*arguments: Any) -> None:
    """What the compiled kernel does with its arguments, without a compiler to load."""
    data, indices, starts, tokens, weights, bounds, num_documents, rows, scores = arguments
    for query, (first, last) in enumerate(pairwise(bounds)):
        total = np.zeros(num_documents)
        for token, weight in zip(tokens[first:last], weights[first:last], strict=True):
            column = slice(starts[token], starts[token + 1])
            total[indices[column]] += weight * data[column]
        matching = np.flatnonzero(total)
        best = matching[np.argsort(-total[matching], kind="stable")[: rows.shape[1]]]
        rows[query, : len(best)] = best
        scores[query, : len(best)] = total[best]


class _Arrays(NamedTuple):
    """What the kernel reads.

    Args:
        vocabulary: the column of each word.
        data: scores, column by column.
        indices: the row of each.
        starts: where each column starts, and the end.
    """

    vocabulary: Mapping[str, int]
    data: npt.NDArray[np.float32]
    indices: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]

    def packed(self) -> dict[str, npt.NDArray[Any]]:
        """The same as arrays alone, for a file."""
        words = "\n".join(self.vocabulary).encode()
        return {**self._asdict(), "vocabulary": np.frombuffer(words, dtype=np.uint8)}

    @classmethod
    def unpacked(cls, stored: Mapping[str, npt.NDArray[Any]]) -> _Arrays:
        """What :meth:`packed` gave.

        Raises:
            KeyError: an array is missing.
            ValueError: the words are no text.
        """
        words = stored["vocabulary"].tobytes().decode().split("\n")
        return cls(
            {word: column for column, word in enumerate(words)},
            np.ascontiguousarray(stored["data"], dtype=np.float32),
            np.ascontiguousarray(stored["indices"], dtype=np.int32),
            np.ascontiguousarray(stored["starts"], dtype=np.int64),
        )
