"""The vectors of a corpus: encoded once, kept under its fingerprint, resumed where a run ended."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Floats
from rulerag.cache import cache_folder
from rulerag.composition import check_range
from rulerag.errors import (
    ConfigError,
    DataError,
    EmptyDataError,
    FingerprintError,
    OutputError,
    RetrievalError,
)
from rulerag.folders import LOCK, locked
from rulerag.io import fingerprint_object, prepare_folder, read_json, write_json
from rulerag.retrieval.base import corpus_fingerprint, indexed_text
from rulerag.retrieval.dense.encoders import SentenceEncoder
from rulerag.retrieval.dense.encoding import open_vectors
from rulerag.types import Document

if TYPE_CHECKING:
    from rulerag.parallel import Backend
    from rulerag.protocols import Encoder

_log = logging.getLogger(__name__)

_VECTORS = "vectors.npy"
_PROGRESS = "progress.json"  # how many rows are done


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
    backend: Backend | None = None,
    vectors: str = "",
) -> CorpusEmbeddings:
    """Encode a corpus, or read the vectors that the same encoder gave to the same corpus before.

    Work is kept chunk by chunk, so that a killed run goes on where it ended, to the same vectors;
    another process that needs the same vectors waits for them.
    Documents with the same text are encoded once and get the same vector.

    Args:
        documents: the corpus.
        encoder: what encodes documents; of one for both sides, the document side is taken. One
            without a ``fingerprint`` cannot be cached.
        cache: keep the vectors on disk.
        cache_dir: the folder to keep them in; rulerag's cache folder when None.
        chunk_size: documents encoded between two writes.
        progress: show a progress bar.
        backend: workers that encode chunks; this process when None.
        vectors: where :func:`~rulerag.retrieval.dense.encoding.encode_files` wrote them already.

    Raises:
        FingerprintError: those vectors are of other documents or of another encoder.
        EmptyDataError: there is no document, or one without text; names it.
        ConfigError: the encoder is one of queries, or there are vectors and no cache.
        RetrievalError: the encoder gives something else than one vector for each text.
        OutputError: the cache cannot be written.
    """
    check_range("chunk_size", chunk_size, 1)
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
        if vectors:
            raise ConfigError("vectors of files are put into the cache", key="cache", hint="true")
        return _encode(texts, encoder, chunk_size, progress, backend)
    folder = Path(cache_dir) if cache_dir is not None else cache_folder("embeddings")
    folder = folder / f"{corpus_fingerprint(documents)}-{name}-{chunk_size}"
    stored = _stored(folder, len(texts))
    if stored is None or stored.rows < len(texts):
        prepare_folder(folder)
        with locked(folder / LOCK, folder, wait=True):  # another process may make the same
            if vectors:
                return _copied(vectors, documents, name, folder)
            return _encode(texts, encoder, chunk_size, progress, backend, folder)
    _warn_truncated(stored.truncated, len(texts))
    return CorpusEmbeddings(stored.vectors, stored.truncated)


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


def _encode(
    texts: Sequence[str],
    encoder: Encoder,
    chunk_size: int,
    progress: bool,
    backend: Backend | None,
    folder: Path | None = None,
) -> CorpusEmbeddings:
    """One pass over a corpus, chunk by chunk; in a folder it goes on where a killed one ended."""
    first: dict[str, int] = {}
    original = np.array([first.setdefault(text, row) for row, text in enumerate(texts)])
    vectors: Any = None
    done = truncated = 0
    if folder and (stored := _stored(folder, len(texts))) is not None:
        vectors, done, truncated = np.load(folder / _VECTORS, mmap_mode="r+"), *stored[1:]
    with tqdm(total=len(texts), desc="Encode", unit="document", disable=not progress) as bar:
        bar.update(done)
        left = np.arange(done, len(texts))
        parts = np.split(left, range(chunk_size, len(left), chunk_size)) if len(left) else []
        own_rows = [rows[original[rows] == rows] for rows in parts]
        work = ([texts[row] for row in own] for own in own_rows)
        found = (
            map(partial(_encode_part, encoder, bar=bar), work)
            if backend is None
            else backend.map(partial(_encode_elsewhere, encoder), work)
        )
        for rows, own, part in zip(parts, own_rows, found, strict=True):
            if part is not None:
                truncated += part.truncated
                if vectors is None:  # the first text is the first of its kind
                    vectors = _storage(folder, (len(texts), part.vectors.shape[1]))
                vectors[own] = part.vectors
            vectors[rows] = vectors[original[rows]]
            bar.update(len(rows) - len(own) * (backend is None))
            if folder is not None:
                vectors.flush()
                # Written last: a chunk counts when this file says so.
                write_json(folder / _PROGRESS, {"rows": int(rows[-1]) + 1, "truncated": truncated})
    _warn_truncated(truncated, len(texts))
    return CorpusEmbeddings(vectors, truncated)


def _copied(
    place: str, documents: Sequence[Document], encoder: str, folder: Path
) -> CorpusEmbeddings:
    """The vectors that were written elsewhere, in one file here."""
    made: Any = None
    row = 0
    about, shards = open_vectors(place, encoder)
    for texts, vectors in shards:
        part = documents[row : row + len(vectors)]
        if texts != fingerprint_object([[d.id for d in part], [indexed_text(d) for d in part]]):
            break
        if made is None:
            made = _storage(folder, (len(documents), vectors.shape[1]))
        made[row : row + len(part)] = vectors
        row += len(part)
    if row != len(documents):
        message = f"these vectors are not those of the documents, from document {row} on"
        raise FingerprintError(message, path=place, hint="encode this corpus: `rulerag encode`")
    made.flush()
    write_json(folder / _PROGRESS, {"rows": row, "truncated": about.truncated})
    return CorpusEmbeddings(made, about.truncated)


def _encode_part(
    encoder: Encoder, texts: Sequence[str], bar: tqdm[Any] | None = None
) -> CorpusEmbeddings | None:
    """The vectors of some texts, and how many were cut; None where there is no text."""
    if not texts:
        return None
    vectors = encode_checked(encoder, texts, bar=bar)
    return CorpusEmbeddings(vectors, int(getattr(encoder, "truncated", 0)))


def _encode_elsewhere(encoder: Encoder, texts: Sequence[str]) -> CorpusEmbeddings | None:
    """The same in a worker, on its GPU where it has one."""
    import torch

    if isinstance(encoder, SentenceEncoder) and torch.cuda.is_available():
        encoder.model.to("cuda")
    return _encode_part(encoder, texts)


def _storage(folder: Path | None, shape: tuple[int, int]) -> Any:
    """Room for the vectors of a corpus, in memory or in a file."""
    if folder is None:
        return np.empty(shape, dtype=np.float32)
    path = folder / _VECTORS
    try:
        (folder / _PROGRESS).unlink(missing_ok=True)  # of vectors that were damaged
        made = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not by a crash later
            with open(path, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, os.stat(path).st_size)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", path=folder) from error
    return made


class _StoredVectors(NamedTuple):
    """Vectors on disk, how many rows of them are done, and how many documents were cut."""

    vectors: Floats
    rows: int
    truncated: int


def _stored(folder: Path, size: int) -> _StoredVectors | None:
    """What an earlier run left, finished or not."""
    if not (folder / _PROGRESS).exists():
        return None
    try:
        noted = read_json(folder / _PROGRESS)
        # To read it fails where the file is cut; opened to write it would be filled up with zeros.
        vectors = np.load(folder / _VECTORS, mmap_mode="r")
        if vectors.shape[:-1] == (size,):
            return _StoredVectors(vectors, int(noted["rows"]), int(noted["truncated"]))
    except (OSError, ValueError, EOFError, KeyError, TypeError, DataError):
        pass
    _log.warning("%s is damaged and encoded again", folder / _VECTORS)
    return None


def _warn_truncated(truncated: int, size: int) -> None:
    if truncated:
        _log.warning(
            "%d of %d documents are longer than the encoder's window and are cut", truncated, size
        )
