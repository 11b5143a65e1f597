"""Dense retrieval: documents and queries as vectors, the nearest by FAISS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from rulerag.errors import ConfigError, EmptyDataError, FingerprintError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.retrieval.corpus import (
    Rows,
    check_documents,
    check_top_k,
    corpus_fingerprint,
    scored_documents,
)
from rulerag.retrieval.dense_embeddings import Floats, embed_corpus, encode_checked
from rulerag.retrieval.encoders import SIMILARITIES, SentenceEncoder
from rulerag.retrieval.index_folder import check_manifest, new_index_folder
from rulerag.retrieval.vector_index import IndexOptions, VectorIndex, import_faiss, normalized
from rulerag.types import Document, Query, ScoredDocument

if TYPE_CHECKING:
    from rulerag.protocols import Encoder

__all__ = ["DenseRetriever"]

_KIND = "dense"
_FILE = "index.faiss"
_REBUILD = "build it anew: rulerag index CORPUS --retriever dense --out DIR"
_SEARCHED = 8192  # queries between two steps of the progress bar


class DenseRetriever:
    """Ranks documents by the similarity of their vectors to the query's; ties in corpus order.

    The vectors of the corpus are cached under the fingerprints of corpus and encoder: another
    index over them, or another query encoder, costs no second encoding. A batch of queries is
    encoded once for each distinct text and searched in one go.

    Every document has some similarity, so that a search finds as many documents as it is asked
    for; only ``ivf`` and ``hnsw`` indexes may find fewer.

    Args:
        documents: the corpus.
        encoder: encodes documents, and queries where there is no ``query_encoder``.
        query_encoder: encodes queries, into the same space.
        similarity: ``cosine`` or ``dot``; what the document encoder says when None, cosine where
            it says nothing.
        index: ``flat`` (exact), ``ivf``, ``hnsw``, ``sq8`` or ``ivf-sq8``; see
            :data:`~rulerag.retrieval.vector_index.INDEXES`.
        nlist: cells of ``ivf``; chosen by corpus size when None.
        nprobe: cells that a search of ``ivf`` looks into; a 32nd, at least 8, when None.
        links: neighbours of a vector in ``hnsw``.
        ef_construction: candidates looked at for each vector while ``hnsw`` is built.
        ef_search: candidates looked at by a search in ``hnsw``.
        cache: keep the vectors of the corpus on disk.
        cache_dir: the folder to keep them in; rulerag's cache folder when None.
        chunk_size: documents encoded between two writes to the cache.
        threads: threads of FAISS; its own choice when None.
        progress: show progress bars.

    Attributes:
        truncated_documents: documents that were longer than the encoder's window and were cut.

    Raises:
        EmptyDataError: the corpus holds no document, or one without text.
        ConfigError: an option is out of range, or an encoder is of the wrong side.
        RetrievalError: the encoders do not fit each other.
        MissingDependencyError: faiss is not installed.

    References:
        RuleRAG (arXiv:2410.22353), section 4.1, retrievers: DPR (Karpukhin et al. 2020) and SimCSE
        (Gao et al. 2021). Index: FAISS (Douze et al. 2024, arXiv:2401.08281).
    """

    def __init__(
        self,
        documents: Sequence[Document],
        encoder: Encoder,
        *,
        query_encoder: Encoder | None = None,
        similarity: str | None = None,
        index: str = "flat",
        nlist: int | None = None,
        nprobe: int | None = None,
        links: int = 32,
        ef_construction: int = 200,
        ef_search: int = 128,
        cache: bool = True,
        cache_dir: str | Path | None = None,
        chunk_size: int = 8192,
        threads: int | None = None,
        progress: bool = False,
    ) -> None:
        options = IndexOptions(index, nlist, nprobe, links, ef_construction, ef_search)
        import_faiss()  # missing, it shall say so before an hour of encoding
        document_encoder = _side(encoder, "document")
        queries = _query_side(encoder, query_encoder)
        chosen = similarity or getattr(document_encoder, "similarity", None) or "cosine"
        self._setup(documents, queries, chosen, threads, progress)
        found = embed_corpus(
            self.documents,
            document_encoder,
            cache=cache,
            cache_dir=cache_dir,
            chunk_size=chunk_size,
            progress=progress,
        )
        self.truncated_documents = found.truncated
        self._encoder_fingerprint = _name(document_encoder)
        self._check_dimension(found.vectors.shape[1])
        self._index = VectorIndex.build(
            found.vectors, options, normalize=self.similarity == "cosine", threads=threads
        )

    def _setup(
        self,
        documents: Sequence[Document],
        query_encoder: Encoder,
        similarity: str,
        threads: int | None,
        progress: bool,
    ) -> None:
        if similarity not in SIMILARITIES:
            raise ConfigError(
                f"unknown similarity {similarity!r}",
                key="similarity",
                hint=f"one of {', '.join(SIMILARITIES)}",
            )
        if threads is not None and threads < 1:
            raise ConfigError(f"{threads} threads cannot search", key="threads", hint="1 or more")
        self.documents = check_documents(documents)
        self.query_encoder = query_encoder
        self.similarity = similarity
        self.progress = progress

    def _check_dimension(self, dimension: int) -> None:
        """Compare the query encoder's vectors with those of the index, where it can be known."""
        given = getattr(self.query_encoder, "dimension", None)
        if given is not None and given != dimension:
            raise RetrievalError(
                f"queries are encoded to {given} numbers, documents to {dimension}",
                hint="give the query encoder that was trained with the document encoder",
            )

    def __repr__(self) -> str:
        kind = self._index.options.kind
        return (
            f"DenseRetriever({len(self.documents):,} documents, {self.query_encoder!r}, "
            f"similarity={self.similarity!r}, index={kind!r})"
        )

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._index.dimension

    @property
    def built_with(self) -> dict[str, Any]:
        """The settings that an index on disk has once and for all, by the constructor's names."""
        kept = self._index.options.settings()
        kept = {key: kept[key] for key in ("nlist", "links", "ef_construction") if key in kept}
        return {"similarity": self.similarity, "index": self._index.options.kind, **kept}

    @cached_property
    def corpus_fingerprint(self) -> str:
        """The fingerprint of the indexed ids and texts."""
        return corpus_fingerprint(self.documents)

    @cached_property
    def fingerprint(self) -> str:
        """Names the corpus, both encoders and every setting that changes results."""
        encoders = [self._encoder_fingerprint, _name(self.query_encoder)]
        settings = [self.similarity, self._index.options.settings()]
        return fingerprint_object([_KIND, self.corpus_fingerprint, encoders, settings])

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """The vectors that the index is searched with, of shape (len(texts), dimension).

        Raises:
            RetrievalError: the query encoder gives vectors of another length than the index has.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        bar = tqdm(total=len(texts), desc="Encode", unit="query", disable=not self.progress)
        with bar:
            vectors = encode_checked(self.query_encoder, texts, bar=bar)
        if vectors.shape[1] != self.dimension:
            raise RetrievalError(
                f"queries are encoded to {vectors.shape[1]} numbers, documents to {self.dimension}",
                hint="give the query encoder that was trained with the document encoder",
            )
        return normalized(vectors) if self.similarity == "cosine" else vectors

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first.

        Raises:
            ConfigError: ``depth`` is below 1.
            EmptyDataError: a query has no text; names it.
        """
        check_top_k(depth, "depth")
        distinct: dict[str, int] = {}
        for query in queries:
            if not query.text.strip():
                raise EmptyDataError(
                    f"the query {query.id!r} has no text", hint="leave empty queries out"
                )
            distinct.setdefault(query.text, len(distinct))
        found = self.search_vectors(self.encode_queries(list(distinct)), depth)
        if len(distinct) == len(queries):
            return found
        places = [distinct[query.text] for query in queries]
        return Rows(found.rows[places], found.scores[places])

    def search_vectors(self, vectors: Floats, depth: int) -> Rows:
        """The same for queries that are encoded already, as :meth:`encode_queries` does.

        Raises:
            ConfigError: ``depth`` is below 1.
        """
        check_top_k(depth, "depth")
        depth = min(depth, len(self.documents))
        parts = []
        bar = tqdm(total=len(vectors), desc="Search", unit="query", disable=not self.progress)
        with bar:
            for start in range(0, len(vectors), _SEARCHED):
                part = vectors[start : start + _SEARCHED]
                parts.append(self._index.search(part, depth))
                bar.update(len(part))
        if not parts:
            return Rows(np.empty((0, depth), dtype=np.int64), np.empty((0, depth)))
        rows, scores = zip(*parts, strict=True)
        return Rows(np.concatenate(rows), np.concatenate(scores))

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return, for each query, at most ``top_k`` documents, best first, ranks from 1.

        Raises:
            ConfigError: ``top_k`` is below 1.
            EmptyDataError: a query has no text; names it.
        """
        check_top_k(top_k)
        return scored_documents(self.documents, self.search(queries, top_k))

    def save(self, folder: str | Path) -> None:
        """Write the index to a folder, whole or not at all; an index that stood there is replaced.

        The encoders are not part of it: :meth:`load` takes the query encoder again.

        Raises:
            OutputError: the folder holds something else, or cannot be written.
        """
        settings = {
            "similarity": self.similarity,
            "index": self._index.options.settings(),
            "dimension": self.dimension,
            "largest_norm": self._index.largest_norm,
            "encoder_fingerprint": self._encoder_fingerprint,
            "truncated_documents": self.truncated_documents,
        }
        with new_index_folder(
            folder,
            _KIND,
            corpus=self.corpus_fingerprint,
            settings=settings,
            num_documents=len(self.documents),
        ) as working:
            self._index.save(working / _FILE)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        documents: Sequence[Document],
        encoder: Encoder | None = None,
        *,
        query_encoder: Encoder | None = None,
        nprobe: int | None = None,
        ef_search: int | None = None,
        mmap: bool = False,
        threads: int | None = None,
        progress: bool = False,
    ) -> DenseRetriever:
        """Read an index that :meth:`save` wrote.

        Args:
            folder: the index folder.
            documents: the documents that it was built from.
            encoder: the document encoder that it was built with, which is checked; may be left
                out where there is a query encoder.
            query_encoder: encodes queries; ``encoder`` when None.
            nprobe: cells to look into, instead of what the index was saved with.
            ef_search: candidates to look at, instead of what the index was saved with.
            mmap: leave the vectors on disk; many processes then share one copy in memory.
            threads: threads of FAISS.
            progress: show progress bars.

        Raises:
            RetrievalError: the folder holds no dense index, or a damaged one, or the query
                encoder does not fit.
            FingerprintError: it was built from other documents or by another encoder.
            ConfigError: no encoder is given.
        """
        self = cls.__new__(cls)
        queries = _query_side(encoder, query_encoder)
        corpus = check_documents(documents)
        settings = check_manifest(folder, _KIND, corpus=corpus_fingerprint(corpus))
        try:
            options = _options(settings["index"], nprobe, ef_search)
            self._setup(corpus, queries, settings["similarity"], threads, progress)
            self._encoder_fingerprint = str(settings["encoder_fingerprint"])
            self.truncated_documents = int(settings["truncated_documents"])
            largest, dimension = float(settings["largest_norm"]), int(settings["dimension"])
        except (KeyError, TypeError, ValueError) as error:
            raise RetrievalError(
                f"the manifest is damaged ({type(error).__name__}: {error})",
                path=folder,
                hint=_REBUILD,
            ) from error
        if encoder is not None:
            self._check_encoder(_side(encoder, "document"), folder)
        self._check_dimension(dimension)
        self._index = VectorIndex.load(
            Path(folder) / _FILE, options, largest, mmap=mmap, threads=threads
        )
        if len(self._index) != len(corpus) or self._index.dimension != dimension:
            raise RetrievalError(
                f"the index is damaged ({len(self._index)} vectors of {self._index.dimension} "
                f"numbers, the manifest says {len(corpus)} of {dimension})",
                path=folder,
                hint=_REBUILD,
            )
        return self

    def _check_encoder(self, encoder: Encoder, folder: str | Path) -> None:
        given = _name(encoder)
        if given != self._encoder_fingerprint:
            raise FingerprintError(
                f"the index was built by another encoder ({self._encoder_fingerprint}, the one "
                f"given is {given})",
                path=folder,
                hint=f"give the encoder that it was built with, or {_REBUILD}",
            )


def _side(encoder: Encoder, role: str) -> Encoder:
    """The encoder as that of queries or documents, where it knows the difference."""
    return encoder.with_role(role) if isinstance(encoder, SentenceEncoder) else encoder


def _query_side(encoder: Encoder | None, query_encoder: Encoder | None) -> Encoder:
    chosen = query_encoder if query_encoder is not None else encoder
    if chosen is None:
        raise ConfigError(
            "nothing encodes queries", key="query_encoder", hint="give encoder or query_encoder"
        )
    return _side(chosen, "query")


def _name(encoder: Encoder) -> str:
    """The encoder's fingerprint, or where its class is defined."""
    kind = type(encoder)
    named = getattr(encoder, "fingerprint", None)
    return str(named) if named is not None else f"{kind.__module__}.{kind.__qualname__}"


def _options(settings: dict[str, Any], nprobe: int | None, ef_search: int | None) -> IndexOptions:
    changed = {"nprobe": nprobe, "ef_search": ef_search}
    given = {key: value for key, value in changed.items() if value is not None}
    return IndexOptions(**{**settings, **given})
