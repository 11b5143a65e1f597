"""The vectors of a corpus: encoded once, kept under its fingerprint, resumed where a run ended."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from rulerag.errors import ConfigError, DataError, EmptyDataError, RetrievalError
from rulerag.io import atomic_write, cache_folder, prepare_folder, read_json, write_json
from rulerag.retrieval.corpus import corpus_fingerprint, indexed_text
from rulerag.retrieval.encoders import SentenceEncoder
from rulerag.types import Document

if TYPE_CHECKING:
    from rulerag.protocols import Encoder

__all__ = ["CorpusEmbeddings", "embed_corpus", "encode_checked"]

_log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
_WHOLE = "vectors.npy"
_SUMMARY = "summary.json"


class CorpusEmbeddings(NamedTuple):
    """The vectors of a corpus.

    Args:
        vectors: float32 array of shape (n_documents, dimension), in corpus order; memory-mapped
            where it is cached.
        truncated: documents that were longer than the encoder's window.
    """

    vectors: Floats
    truncated: int


def embed_corpus(
    documents: Sequence[Document],
    encoder: Encoder,
    *,
    cache: bool = True,
    cache_dir: str | Path | None = None,
    chunk_size: int = 8192,
    progress: bool = False,
) -> CorpusEmbeddings:
    """Encode a corpus, or read the vectors that the same encoder gave to the same corpus before.

    Work is kept chunk by chunk, so that a killed run goes on where it ended, to the same vectors.
    Documents with the same text are encoded once and get the same vector.

    Args:
        documents: the corpus.
        encoder: what encodes documents; of one for both sides, the document side is taken. One
            without a ``fingerprint`` cannot be cached.
        cache: keep the vectors on disk.
        cache_dir: the folder to keep them in; rulerag's cache folder when None.
        chunk_size: documents encoded between two writes.
        progress: show a progress bar.

    Raises:
        EmptyDataError: there is no document, or one without text; names it.
        ConfigError: the encoder is one of queries.
        RetrievalError: the encoder gives something else than one vector for each text.
        OutputError: the cache cannot be written.
    """
    if chunk_size < 1:
        raise ConfigError(
            f"{chunk_size} documents make no chunk", key="chunk_size", hint="say 8192"
        )
    texts = [indexed_text(document) for document in documents]
    for document, text in zip(documents, texts, strict=True):
        if not text.strip():
            raise EmptyDataError(
                f"the document {document.id!r} has no text", hint="leave it out of the corpus"
            )
    if not texts:
        raise EmptyDataError("the corpus holds no documents", hint="give at least one document")
    if isinstance(encoder, SentenceEncoder):
        encoder = encoder.with_role("document")
    name = getattr(encoder, "fingerprint", None)
    if not cache or name is None:
        return _Work(texts, encoder, chunk_size).run(progress)
    folder = Path(cache_dir) if cache_dir is not None else cache_folder("embeddings")
    folder = folder / f"{corpus_fingerprint(documents)}-{name}-{chunk_size}"
    return _read(folder, len(texts)) or _CachedWork(texts, encoder, chunk_size, folder).run(
        progress
    )


def encode_checked(
    encoder: Encoder, texts: Sequence[str], *, bar: tqdm[Any] | None = None
) -> Floats:
    """What an encoder gives for some texts, made sure to be one finite vector for each.

    Raises:
        RetrievalError: it is something else.
    """
    if isinstance(encoder, SentenceEncoder):
        return encoder.encode(texts, bar=bar)
    vectors = np.asarray(encoder.encode(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise RetrievalError(
            f"{type(encoder).__name__} gave an array of shape {vectors.shape} for "
            f"{len(texts)} texts",
            hint="an encoder returns shape (len(texts), dimension)",
        )
    if not np.isfinite(vectors).all():
        raise RetrievalError(f"{type(encoder).__name__} gave vectors that are no numbers")
    if bar is not None:
        bar.update(len(texts))
    return vectors


class _Work:
    """One pass over a corpus, in memory."""

    def __init__(self, texts: Sequence[str], encoder: Encoder, chunk_size: int) -> None:
        self.texts = texts
        self.encoder = encoder
        self.starts = range(0, len(texts), chunk_size)
        self.chunk_size = chunk_size
        self.done: dict[int, Floats] = {}
        self.truncated = 0
        first: dict[str, int] = {}
        rows = [first.setdefault(text, row) for row, text in enumerate(texts)]
        self.first = np.array(rows, dtype=np.int64)

    def run(self, progress: bool) -> CorpusEmbeddings:
        """Encode what is not done yet, and put it together."""
        bar = tqdm(total=len(self.texts), desc="Encode", unit="document", disable=not progress)
        with bar:
            for number in range(len(self.starts)):
                found = self.read(number)
                if found is None:
                    self.write(number, *self._encoded(number, bar))
                else:
                    self.done[number] = found[0]
                    self.truncated += found[1]
                    bar.update(len(found[0]))
        result = self.finish()
        if result.truncated:
            _tell(result.truncated, len(self.texts))
        return result

    def _encoded(self, number: int, bar: tqdm[Any]) -> tuple[Floats, int]:
        """The vectors of a chunk, and how many of its documents are cut."""
        start = self.starts[number]
        stop = min(start + self.chunk_size, len(self.texts))
        rows = np.arange(start, stop)
        own = rows[self.first[start:stop] == rows]
        truncated = 0
        dimension = next((chunk.shape[1] for chunk in self.done.values()), 0)
        values = np.empty((0, dimension), dtype=np.float32)
        if len(own):
            values = encode_checked(self.encoder, [self.texts[row] for row in own], bar=bar)
            truncated = int(getattr(self.encoder, "truncated", 0))
        vectors = np.empty((len(rows), values.shape[1]), dtype=np.float32)
        vectors[own - start] = values
        for row in np.setdiff1d(rows, own):
            place, offset = divmod(int(self.first[row]), self.chunk_size)
            vectors[row - start] = vectors[offset] if place == number else self.done[place][offset]
        bar.update(len(rows) - len(own))
        return vectors, truncated

    def read(self, number: int) -> tuple[Floats, int] | None:
        """A chunk that an earlier run left, and how many of its documents were cut."""
        return None

    def write(self, number: int, vectors: Floats, truncated: int) -> None:
        """Keep a chunk."""
        self.done[number] = vectors
        self.truncated += truncated

    def finish(self) -> CorpusEmbeddings:
        """All chunks as one array."""
        return CorpusEmbeddings(np.concatenate(list(self.done.values())), self.truncated)


class _CachedWork(_Work):
    """One pass over a corpus that leaves its chunks on disk, then one file in their place."""

    def __init__(
        self, texts: Sequence[str], encoder: Encoder, chunk_size: int, folder: Path
    ) -> None:
        super().__init__(texts, encoder, chunk_size)
        self.folder = prepare_folder(folder)

    def _paths(self, number: int) -> tuple[Path, Path]:
        return self.folder / f"{number:06d}.npy", self.folder / f"{number:06d}.json"

    def read(self, number: int) -> tuple[Floats, int] | None:
        vectors_path, note_path = self._paths(number)
        if not note_path.exists():
            return None
        start = self.starts[number]
        size = min(self.chunk_size, len(self.texts) - start)
        try:
            vectors = np.load(vectors_path, mmap_mode="r")
            truncated = int(read_json(note_path)["truncated"])
        except (OSError, ValueError, EOFError, KeyError, TypeError, DataError):
            vectors = None
        if vectors is None or vectors.ndim != 2 or len(vectors) != size:
            _log.warning("%s is damaged and encoded again", vectors_path)
            return None
        return vectors, truncated

    def write(self, number: int, vectors: Floats, truncated: int) -> None:
        vectors_path, note_path = self._paths(number)
        _save(vectors_path, vectors)
        # Written last: a chunk counts when its note is there.
        write_json(note_path, {"truncated": truncated})
        self.done[number] = np.load(vectors_path, mmap_mode="r")
        self.truncated += truncated

    def finish(self) -> CorpusEmbeddings:
        width = self.done[0].shape[1]
        target = self.folder / _WHOLE
        with atomic_write(target, "wb") as file:
            header = {
                "descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)),
                "fortran_order": False,
                "shape": (len(self.texts), width),
            }
            np.lib.format.write_array_header_1_0(file, header)
            for number in range(len(self.starts)):
                file.write(np.ascontiguousarray(self.done[number]).data)
        write_json(self.folder / _SUMMARY, {"truncated": self.truncated, "dimension": width})
        self.done.clear()
        for number in range(len(self.starts)):
            for path in self._paths(number):
                path.unlink(missing_ok=True)
        return CorpusEmbeddings(np.load(target, mmap_mode="r"), self.truncated)


def _save(path: Path, vectors: Floats) -> None:
    with atomic_write(path, "wb") as file:
        np.save(file, vectors)
        file.flush()
        os.fsync(file.fileno())


def _read(folder: Path, size: int) -> CorpusEmbeddings | None:
    """The vectors that an earlier run finished."""
    if not (folder / _SUMMARY).exists():
        return None
    try:
        vectors = np.load(folder / _WHOLE, mmap_mode="r")
        truncated = int(read_json(folder / _SUMMARY)["truncated"])
    except (OSError, ValueError, EOFError, KeyError, TypeError, DataError):
        vectors = None
    if vectors is None or vectors.ndim != 2 or len(vectors) != size:
        _log.warning("%s is damaged and encoded again", folder / _WHOLE)
        return None
    if truncated:
        _tell(truncated, size)
    return CorpusEmbeddings(vectors, truncated)


def _tell(truncated: int, size: int) -> None:
    _log.warning(
        "%d of %d documents are longer than the encoder's window and are cut", truncated, size
    )
