"""Dense retrieval: documents and queries as vectors, the nearest by FAISS.

:class:`DenseRetriever` takes encoders; :func:`open_dense` takes their names, as a configuration
states them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import Field
from tqdm import tqdm

from rulerag.arrays import Floats
from rulerag.composition import Settings, check_choice, register
from rulerag.errors import ConfigError, EmptyDataError, FingerprintError, RetrievalError
from rulerag.io import fingerprint_object
from rulerag.retrieval.base import (
    CorpusIndex,
    Rows,
    broken_index,
    check_documents,
    check_manifest,
    check_threads,
    check_top_k,
    document_times,
    latest_statements,
    new_index_folder,
)
from rulerag.retrieval.dense import shards
from rulerag.retrieval.dense.embeddings import embed_corpus, encode_checked
from rulerag.retrieval.dense.encoders import (
    DOCUMENTS,
    NANO_ENCODER,
    SIMILARITIES,
    EncoderSettings,
    SentenceEncoder,
    load_encoder,
)
from rulerag.retrieval.dense.faiss_index import EXACT, VectorIndex, empty_index, normalized
from rulerag.retrieval.dense.milvus_index import MilvusIndex, check_address, is_address
from rulerag.retrieval.dense.shards import ShardedIndex
from rulerag.types import Document, Query

if TYPE_CHECKING:
    from rulerag.parallel import Backend
    from rulerag.protocols import Encoder

AnyIndex = VectorIndex | ShardedIndex | MilvusIndex
_KIND = "dense"
_PARTNERS = (("ctx_encoder", "question_encoder"), ("context_encoder", "question_encoder"))


class IndexSettings(Settings):
    """How vectors are compared, indexed and kept.

    Args:
        similarity: ``cosine`` or ``dot``; what the document encoder says when None, cosine where
            it says nothing.
        index: what FAISS's ``index_factory`` makes: ``Flat`` (exact), ``HNSW32``,
            ``IVF1024,SQ8``, ``PQ48``, ...; or a Milvus by its address or file,
            ``http://host:19530#HNSW,M=16`` or ``x.db`` (exact where no kind is named).
        search_parameters: how an index that is not exact is searched: ``nprobe=16``,
            ``efSearch=64``; FAISS's own, or those of a saved index, when None.
        cache: keep the vectors of the corpus on disk.
        cache_dir: the folder to keep them in; rulerag's cache folder when None.
        chunk_size: documents encoded between two writes to the cache.
        vectors: where `rulerag encode` wrote the vectors of the corpus.
    """

    similarity: str | None = None
    index: str = EXACT
    search_parameters: str | None = None
    cache: bool = True
    cache_dir: str | Path | None = None
    chunk_size: int = Field(default=8192, ge=1)
    vectors: str = ""


class DenseRetriever(CorpusIndex):
    """Ranks documents by the similarity of their vectors to the query's; ties in corpus order.

    The vectors of the corpus are cached under the fingerprints of corpus and encoder: another
    index over them, or another query encoder, costs no second encoding. A batch of queries is
    encoded once for each distinct text and searched in one go.

    Every document has some similarity, so that a search finds as many documents as are
    wanted; only indexes that are not exact may find fewer.

    Args:
        documents: the corpus.
        encoder: encodes documents, and queries where there is no ``query_encoder``.
        query_encoder: encodes queries, into the same space.
        threads: threads of FAISS; its own choice when None.
        progress: show progress bars.
        backend: encodes the corpus, such as a :class:`~rulerag.parallel.RayBackend`; this process
            when None.
        settings: how vectors are compared, indexed and kept, all together.
        changes: the same one by one, fields of :class:`IndexSettings`.

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
        threads: int | None = None,
        progress: bool = False,
        backend: Backend | None = None,
        settings: IndexSettings | None = None,
        **changes: Any,
    ) -> None:
        chosen = IndexSettings.joined(settings, changes)
        document_encoder = _side(encoder, "document")
        index, search = chosen.index, chosen.search_parameters or ""
        # Checked before an hour of encoding.
        if is_address(index):
            check_address(index, search)
        else:
            empty_index(index, getattr(document_encoder, "dimension", None), search)
        queries = _query_side(encoder, query_encoder)
        similarity = chosen.similarity or getattr(document_encoder, "similarity", None) or "cosine"
        check_choice("similarity", similarity, SIMILARITIES)
        check_threads(threads)
        self.documents = check_documents(documents)
        found = embed_corpus(
            self.documents,
            document_encoder,
            cache=chosen.cache,
            cache_dir=chosen.cache_dir,
            chunk_size=chosen.chunk_size,
            progress=progress,
            backend=backend,
            vectors=chosen.vectors,
        )
        about = _About(similarity, _name(document_encoder), found.truncated)
        normalize = similarity == "cosine"
        made: AnyIndex
        threaded: Any = {"normalize": normalize, "threads": threads}
        if is_address(index):
            made = MilvusIndex.build(
                found.vectors,
                index,
                search,
                name=fingerprint_object([self.corpus_fingerprint, about[:2]]),
                times=document_times(self.documents),
                normalize=normalize,
                progress=progress,
            )
        elif isinstance(found.vectors, np.memmap) and len(found.vectors) > shards.SHARD:
            build = ShardedIndex.build
            made = build(found.vectors, index, search, **threaded, progress=progress)
        else:
            made = VectorIndex.build(found.vectors, index, search, **threaded)
        self._set(queries, made, about, progress)

    def _set(self, query_encoder: Encoder, index: AnyIndex, about: _About, progress: bool) -> None:
        self.query_encoder = query_encoder
        self.progress = progress
        self.similarity = about.similarity
        self.truncated_documents = about.truncated_documents
        self._about = about
        self._index = index
        known = getattr(query_encoder, "dimension", None)
        self._check_dimension(self.dimension if known is None else known)

    def _check_dimension(self, encoded: int) -> None:
        """Compare the query encoder's vectors with those of the documents."""
        if encoded != self.dimension:
            raise RetrievalError(
                f"queries are encoded to {encoded} numbers, documents to {self.dimension}",
                hint="give the query encoder that was trained with the document encoder",
            )

    def __repr__(self) -> str:
        return (
            f"DenseRetriever({len(self.documents):,} documents, {self.query_encoder!r}, "
            f"dimension={self.dimension}, similarity={self.similarity!r}, "
            f"index={self._index.factory!r})"
        )

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._index.dimension

    @property
    def built_with(self) -> dict[str, Any]:
        """The settings that an index on disk has once and for all, by the constructor's names."""
        return {"similarity": self.similarity, "index": self._index.factory}

    @cached_property
    def fingerprint(self) -> str:
        """Names the corpus, both encoders and every setting that changes results."""
        encoders = [self._about.encoder_fingerprint, _name(self.query_encoder)]
        settings: list[Any] = [self.similarity, self._index.factory, self._index.search_parameters]
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
        self._check_dimension(vectors.shape[1])
        return normalized(vectors) if self.similarity == "cosine" else vectors

    def search(self, queries: Sequence[Query], depth: int) -> Rows:
        """Return, for each query, at most ``depth`` corpus rows, best first.

        Raises:
            ConfigError: ``depth`` is below 1.
            EmptyDataError: a query has no text; names it.
        """
        check_top_k(depth, "depth")
        vectors, lines = self._encoded(queries)
        found = self.search_vectors(vectors, depth)
        if len(vectors) == len(queries):
            return found
        return Rows(found.rows[lines], found.scores[lines])

    def _encoded(self, queries: Sequence[Query]) -> tuple[Floats, list[int]]:
        """A vector for each distinct text, and the place of each query's among them."""
        distinct: dict[str, int] = {}
        for query in queries:
            if not query.text.strip():
                raise EmptyDataError(
                    f"the query {query.id!r} has no text", hint="leave empty queries out"
                )
            distinct.setdefault(query.text, len(distinct))
        return self.encode_queries(list(distinct)), [distinct[one.text] for one in queries]

    @property
    def search_until(self) -> Callable[[Sequence[Query], int, Sequence[int | None]], Rows]:
        """Searches with the last time that each query allows, where the index knows the times.

        Raises:
            AttributeError: it knows none.
        """
        index = self._index
        if not isinstance(index, MilvusIndex):
            raise AttributeError("search_until")

        def search(queries: Sequence[Query], depth: int, last: Sequence[int | None]) -> Rows:
            depth = min(depth, len(self.documents))
            vectors, places = self._encoded(queries)
            vectors = vectors[places]
            rows = np.full((len(queries), depth), -1, dtype=np.int64)
            scores = np.zeros((len(queries), depth), dtype=np.float64)
            for time in dict.fromkeys(last):
                lines = [line for line, one in enumerate(last) if one == time]
                rows[lines], scores[lines] = index.search(vectors[lines], depth, last=time)
            return Rows(rows, scores)

        return search

    def search_vectors(self, vectors: Floats, depth: int) -> Rows:
        """The same for queries that are encoded already, as :meth:`encode_queries` does.

        Raises:
            ConfigError: ``depth`` is below 1.
        """
        check_top_k(depth, "depth")
        depth = min(depth, len(self.documents))
        hidden = not self.progress
        with tqdm(total=len(vectors), desc="Search", unit="query", disable=hidden) as bar:
            return self._index.search(vectors, depth, bar)

    def save(self, folder: str | Path) -> None:
        """Write the index to a folder, whole or not at all; an index that stood there is replaced.

        The encoders are not part of it: :meth:`load` takes the query encoder again.

        Raises:
            OutputError: the folder holds something else, or cannot be written.
        """
        settings = self._about._asdict()
        about = self.corpus_fingerprint, len(self.documents), settings
        with new_index_folder(folder, _KIND, *about) as working:
            settings |= self._index.save(working)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        documents: Sequence[Document],
        encoder: Encoder | None = None,
        *,
        query_encoder: Encoder | None = None,
        search_parameters: str | None = None,
        threads: int | None = None,
        progress: bool = False,
    ) -> DenseRetriever:
        """Open an index that :meth:`save` wrote.

        Its vectors stay on disk, where a search reads them: opening costs nothing, and many
        processes share one copy in memory.

        Args:
            folder: the index folder.
            documents: the documents that it was built from.
            encoder: the document encoder that it was built with, which is checked; may be left
                out where there is a query encoder.
            query_encoder: encodes queries; ``encoder`` when None.
            search_parameters: as in the constructor, instead of what it was saved with.
            threads: threads of FAISS.
            progress: show progress bars.

        Raises:
            RetrievalError: the folder holds no dense index, or a damaged one, or the query
                encoder does not fit.
            FingerprintError: it was built from other documents or by another encoder.
            ConfigError: no encoder is given.
        """
        check_threads(threads)
        queries = _query_side(encoder, query_encoder)
        self = cls.__new__(cls)
        self.documents = check_documents(documents)
        settings = check_manifest(folder, _KIND, corpus=self.corpus_fingerprint)
        if search_parameters is not None:
            settings["search_parameters"] = search_parameters
        try:
            built_by = str(settings["encoder_fingerprint"])
            known = built_by if encoder is None else _name(_side(encoder, "document"))
            if known != built_by:
                raise FingerprintError(
                    f"the index was built by another encoder ({built_by}, this one is {known})",
                    path=folder,
                    hint="give the encoder that it was built with",
                )
            size = len(self.documents)
            index: AnyIndex
            if is_address(str(settings["index"])):
                index = MilvusIndex.load(settings, size)
            elif "shards" in settings:
                index = ShardedIndex.load(folder, settings, threads=threads)
            else:
                index = VectorIndex.load(folder, settings, size, threads=threads)
            truncated = int(settings["truncated_documents"])
            about = _About(settings["similarity"], built_by, truncated)
            self._set(queries, index, about, progress)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"the manifest is damaged ({type(error).__name__}: {error})"
            raise broken_index(_KIND, folder, reason) from error
        return self


class _About(NamedTuple):
    """What an index knows of its vectors, as its manifest has it."""

    similarity: str
    encoder_fingerprint: str
    truncated_documents: int


class DenseSettings(IndexSettings, EncoderSettings):
    """What a configuration can say of dense retrieval: its encoders and its index.

    Args:
        encoder: the folder or Hub name of the encoder of documents, and of queries where there is
            no ``query_encoder``; the small one that is installed when none is named. The folder
            that ``training.retriever`` wrote stands for both sides: it encodes queries, its
            ``document_encoder`` documents.
        query_encoder: that of queries. For a DPR context encoder named ``…ctx_encoder…`` it is
            the ``…question_encoder…`` of the same name when None.
        latest: index one document of each fact, the latest; for queries that come after the whole
            corpus (:func:`~rulerag.retrieval.base.latest_statements`).
    """

    encoder: str | Path = NANO_ENCODER
    query_encoder: str | Path | None = None
    latest: bool = False


@register("retriever", "dense", load="open_dense")
def open_dense(
    documents: Sequence[Document],
    *,
    folder: str | Path | None = None,
    threads: int | None = None,
    progress: bool = False,
    backend: Backend | None = None,
    settings: DenseSettings | None = None,
    **changes: Any,
) -> DenseRetriever:
    """A :class:`~rulerag.retrieval.dense.DenseRetriever` whose encoders are named.

    Args:
        documents: the corpus.
        folder: of a saved index, which is opened instead of making one; ``similarity`` and
            ``index`` are then the index's own. Where queries have an encoder of their own, only
            that one is opened.
        threads: as in :class:`~rulerag.retrieval.dense.DenseRetriever`.
        progress: see there.
        backend: see there.
        settings: all settings together.
        changes: settings one by one, fields of :class:`DenseSettings`; those of
            :func:`~rulerag.retrieval.dense.encoders.load_encoder` are for both sides.

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
        common["search_parameters"] = chosen.search_parameters
        return DenseRetriever.load(folder, corpus, checked, **common)
    side = load_encoder(encoder, role="document" if partner else "both", settings=loading)
    return DenseRetriever(corpus, side, backend=backend, settings=chosen, **common)


def _names(
    encoder: str | Path, query_encoder: str | Path | None
) -> tuple[str | Path, str | Path | None]:
    """The encoder of documents, and that of queries where it is another one."""
    path = Path(encoder)
    if (path / DOCUMENTS).is_dir():
        return path / DOCUMENTS, query_encoder or encoder
    if query_encoder is not None:
        return encoder, query_encoder
    for context, question in _PARTNERS:
        if context in path.name:
            return encoder, str(path.with_name(path.name.replace(context, question)))
    return encoder, None


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
