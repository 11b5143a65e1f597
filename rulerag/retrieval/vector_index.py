"""FAISS behind one small class: exact and approximate indexes over vectors, ties by row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, MissingDependencyError, RetrievalError, did_you_mean
from rulerag.retrieval.corpus import Rows

__all__ = ["INDEXES", "IndexOptions", "VectorIndex", "import_faiss"]

Floats = npt.NDArray[np.float32]

INDEXES = ("flat", "ivf", "hnsw", "sq8", "ivf-sq8")
"""Kinds of index:

- ``flat``: exact; every vector is compared;
- ``ivf``: vectors in ``nlist`` cells, of which the ``nprobe`` nearest are compared;
- ``hnsw``: a graph of neighbours, ``links`` to a vector, walked with ``ef_search`` candidates;
- ``sq8``: every vector is compared, each number kept in one byte: a quarter of the memory;
- ``ivf-sq8``: cells of such vectors.
"""

_BLOCK = 16_384  # vectors copied or added at once
_QUERIES = 4096  # queries searched at once: FAISS multiplies blocks of as many
_CELLS = 8_000_000  # scores held at once
_DEEPEN = 4


@dataclass(frozen=True)
class IndexOptions:
    """How an index is built and searched.

    Args:
        kind: one of :data:`INDEXES`.
        nlist: cells of ``ivf``; four times the root of the corpus size when None, fewer where
            that leaves fewer than 39 vectors a cell.
        nprobe: cells that a search looks into; a 32nd of them, at least 8, when None.
        links: neighbours of a vector in ``hnsw``.
        ef_construction: candidates looked at for each vector while ``hnsw`` is built.
        ef_search: candidates looked at by a search in ``hnsw``.

    Raises:
        ConfigError: an option is unknown or out of range.
    """

    kind: str = "flat"
    nlist: int | None = None
    nprobe: int | None = None
    links: int = 32
    ef_construction: int = 200
    ef_search: int = 128

    def __post_init__(self) -> None:
        if self.kind not in INDEXES:
            raise ConfigError(
                f"unknown index {self.kind!r}", key="index", hint=did_you_mean(self.kind, INDEXES)
            )
        for key in ("nlist", "nprobe", "links", "ef_construction", "ef_search"):
            value = getattr(self, key)
            low = 2 if key == "links" else 1
            if value is not None and value < low:
                raise ConfigError(f"{value} is out of range", key=key, hint=f"{low} or more")

    def settings(self) -> dict[str, Any]:
        """The options that matter for the kind."""
        values = asdict(self)
        cells = ("nlist", "nprobe") if "ivf" in self.kind else ()
        graph = ("links", "ef_construction", "ef_search") if self.kind == "hnsw" else ()
        return {key: values[key] for key in ("kind", *cells, *graph)}


class VectorIndex:
    """Vectors and the FAISS index over them; larger inner products are better.

    ``flat`` is exact to the last tie: FAISS finds candidates, the inner products of these are
    computed again, each in one fixed way, and a query whose last place could still go to a row
    outside of the candidates is searched deeper. Equal scores come in row order at any depth, batch
    size and number of threads; FAISS alone leaves that open. The other kinds order what they find
    by score, then by row.

    Args:
        index: the FAISS index.
        options: how it was built and is searched.
        largest_norm: the largest norm of its vectors, a bound for rounding errors.
        threads: threads of a search; FAISS's own choice when None.
    """

    def __init__(
        self, index: Any, options: IndexOptions, largest_norm: float, *, threads: int | None = None
    ) -> None:
        self.options = options
        self.largest_norm = largest_norm
        self.threads = threads
        self._index = index
        self._tune()

    @classmethod
    def build(
        cls,
        vectors: Floats,
        options: IndexOptions,
        *,
        normalize: bool,
        threads: int | None = None,
    ) -> VectorIndex:
        """Index vectors, memory-mapped ones too.

        Builds are the same every time, but for ``hnsw`` with more than one thread: its graph
        depends on which thread comes first.

        Args:
            vectors: float32 array of shape (n, dimension).
            options: how to index them.
            normalize: make every vector as long as one, so that inner products are cosines.
            threads: threads of build and search.

        Raises:
            ConfigError: more cells than vectors are asked for.
            MissingDependencyError: faiss is not installed.
        """
        faiss = import_faiss()
        with _threads(faiss, threads):
            index = _empty(faiss, options, *vectors.shape)
            if not index.is_trained:
                index.train(_sample(vectors, index, normalize))
            if options.kind == "flat":
                # In one go: growing step by step, FAISS would hold the vectors up to three times.
                index.add(np.ascontiguousarray(vectors, dtype=np.float32))
                stored = _stored(faiss, index)
                for block in _blocks(stored):
                    block[:] = _prepared(block, normalize)
            else:
                for block in _blocks(vectors):
                    index.add(_prepared(block, normalize))
        largest = 1.0
        if not normalize:
            largest = max(float(np.linalg.norm(block, axis=1).max()) for block in _blocks(vectors))
        return cls(index, options, largest, threads=threads)

    def _tune(self) -> None:
        if "ivf" in self.options.kind:
            probes = self.options.nprobe or max(8, self._index.nlist // 32)
            self._index.nprobe = min(probes, self._index.nlist)
        elif self.options.kind == "hnsw":
            self._index.hnsw.efSearch = self.options.ef_search

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._index.d)

    def search(self, queries: Floats, depth: int) -> Rows:
        """The ``depth`` best rows of each query, best first; fewer where fewer are found.

        Args:
            queries: float32 array of shape (n, dimension).
            depth: rows wanted, at most the number of vectors.
        """
        faiss = import_faiss()
        rows = np.full((len(queries), depth), -1, dtype=np.int64)
        scores = np.zeros((len(queries), depth), dtype=np.float64)
        exact = self.options.kind == "flat"
        step = max(1, min(_QUERIES, _CELLS // max(1, depth)))
        with _threads(faiss, self.threads):
            for start in range(0, len(queries), step):
                part = slice(start, start + step)
                batch = np.ascontiguousarray(queries[part], dtype=np.float32)
                find = self._exact if exact else self._approximate
                rows[part], scores[part] = find(batch, depth)
        return Rows(rows, scores)

    def _approximate(self, queries: Floats, depth: int) -> Rows:
        found, rows = self._index.search(queries, depth)
        order = np.lexsort((np.where(rows < 0, len(self), rows), -found))
        rows = np.take_along_axis(rows, order, axis=1)
        scores = np.take_along_axis(found, order, axis=1).astype(np.float64)
        return Rows(rows, np.where(rows < 0, 0.0, scores))

    def _exact(self, queries: Floats, depth: int) -> Rows:
        size = len(self)
        rows = np.empty((len(queries), depth), dtype=np.int64)
        scores = np.empty((len(queries), depth), dtype=np.float64)
        slack = self._slack(queries)
        pending, asked = np.arange(len(queries)), depth + depth // 8 + 16
        while len(pending):
            asked = min(asked, size)
            unsettled = []
            step = max(1, _CELLS // asked)
            for start in range(0, len(pending), step):
                part = pending[start : start + step]
                best = self._rescored(queries[part], asked, depth)
                rows[part], scores[part] = best.rows, best.scores
                open_ = best.scores[:, -1] <= best.lowest + slack[part]
                unsettled.append(part[open_] if asked < size else part[:0])
            pending, asked = np.concatenate(unsettled), asked * _DEEPEN
        return Rows(rows, scores)

    def _rescored(self, queries: Floats, asked: int, depth: int) -> _Best:
        found, rows = self._index.search(queries, asked)
        stored = _stored(import_faiss(), self._index)
        exact = np.empty(rows.shape, dtype=np.float32)
        held = np.empty((min(asked, _BLOCK), self.dimension), dtype=np.float32)
        for i, query in enumerate(queries):
            for start in range(0, asked, _BLOCK):
                part = rows[i, start : start + _BLOCK]
                near = held[: len(part)]
                stored.take(part, axis=0, out=near, mode="clip")
                # No matrix product: BLAS may add up the same numbers in another order elsewhere.
                np.einsum("kd,d->k", near, query, out=exact[i, start : start + _BLOCK])
        order = _ranked(exact, rows)[:, :depth]
        return _Best(
            np.take_along_axis(rows, order, axis=1),
            np.take_along_axis(exact, order, axis=1).astype(np.float64),
            found[:, -1].astype(np.float64),
        )

    def _slack(self, queries: Floats) -> npt.NDArray[np.float64]:
        """How far two ways to add up one inner product can be apart, generously."""
        norms = np.linalg.norm(queries, axis=1).astype(np.float64)
        rounding = float(np.finfo(np.float32).eps) * math.sqrt(self.dimension)
        slack: npt.NDArray[np.float64] = norms * (self.largest_norm * rounding)
        return slack

    def save(self, path: str | Path) -> None:
        """Write the index to one file."""
        import_faiss().write_index(self._index, str(path))

    @classmethod
    def load(
        cls,
        path: str | Path,
        options: IndexOptions,
        largest_norm: float,
        *,
        mmap: bool = False,
        threads: int | None = None,
    ) -> VectorIndex:
        """Read what :meth:`save` wrote.

        Args:
            path: the file.
            options: those it was built with.
            largest_norm: as the built index states it.
            mmap: leave the vectors on disk and let the system read what a search touches.
            threads: threads of a search.

        Raises:
            RetrievalError: the file is missing, or holds no such index.
            MissingDependencyError: faiss is not installed.
        """
        faiss = import_faiss()
        hint = "build it anew: rulerag index CORPUS --retriever dense --out DIR"
        if not Path(path).is_file():
            raise RetrievalError("the index file is missing", path=path, hint=hint)
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mmap else 0)
        except RuntimeError as error:
            reason = str(error).rpartition(": ")[2]
            raise RetrievalError(
                f"the index is damaged ({reason})", path=path, hint=hint
            ) from error
        if type(index).__name__ != _CLASSES[options.kind]:
            raise RetrievalError(
                f"holds a {type(index).__name__}, its manifest says {options.kind!r}",
                path=path,
                hint=hint,
            )
        return cls(index, options, largest_norm, threads=threads)


@dataclass(frozen=True)
class _Best:
    """The best rows of a batch, and the lowest score that FAISS gave to a candidate."""

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    lowest: npt.NDArray[np.float64]


_CLASSES = {
    "flat": "IndexFlatIP",
    "ivf": "IndexIVFFlat",
    "hnsw": "IndexHNSWFlat",
    "sq8": "IndexScalarQuantizer",
    "ivf-sq8": "IndexIVFScalarQuantizer",
}


def import_faiss() -> Any:
    """The module, or a MissingDependencyError that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("faiss-cpu") from error
    return faiss


@contextmanager
def _threads(faiss: Any, threads: int | None) -> Iterator[None]:
    """FAISS knows one number of threads for the whole process: set it, and put it back."""
    before = faiss.omp_get_max_threads()
    if threads is not None:
        faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        if threads is not None:
            faiss.omp_set_num_threads(before)


def _empty(faiss: Any, options: IndexOptions, size: int, dimension: int) -> Any:
    metric, kind = faiss.METRIC_INNER_PRODUCT, options.kind
    byte = faiss.ScalarQuantizer.QT_8bit
    if kind == "flat":
        return faiss.IndexFlatIP(dimension)
    if kind == "sq8":
        return faiss.IndexScalarQuantizer(dimension, byte, metric)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimension, options.links, metric)
        index.hnsw.efConstruction = options.ef_construction
        return index
    nlist = options.nlist or max(1, min(round(4 * math.sqrt(size)), size // 39))
    if nlist > size:
        raise ConfigError(
            f"{nlist} cells for {size} vectors", key="nlist", hint="fewer, or leave it out"
        )
    cells = faiss.IndexFlatIP(dimension)
    if kind == "ivf":
        index = faiss.IndexIVFFlat(cells, dimension, nlist, metric)
    else:
        index = faiss.IndexIVFScalarQuantizer(cells, dimension, nlist, byte, metric)
    index.cp.min_points_per_centroid = 1  # few vectors are the caller's choice, no news
    return index


def _sample(vectors: Floats, index: Any, normalize: bool) -> Floats:
    """Evenly spaced vectors, enough to learn cells and ranges from; the same every time."""
    wanted = max(_BLOCK, 64 * getattr(index, "nlist", 0))
    rows = np.linspace(0, len(vectors) - 1, min(len(vectors), wanted)).astype(np.int64)
    return _prepared(vectors[rows], normalize)


def _ranked(scores: Floats, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """The order of each line by score, equal scores by row; ten times faster than lexsort alone."""
    order = np.argsort(-scores, axis=1, kind="stable")
    best = np.take_along_axis(scores, order, axis=1)
    tied = (best[:, 1:] == best[:, :-1]).any(axis=1)
    if tied.any():
        order[tied] = np.lexsort((rows[tied], -scores[tied]))
    return order


def _blocks(vectors: Floats) -> Iterator[Floats]:
    for start in range(0, len(vectors), _BLOCK):
        yield vectors[start : start + _BLOCK]


def _prepared(block: Floats, normalize: bool) -> Floats:
    block = np.ascontiguousarray(block, dtype=np.float32)
    return normalized(block) if normalize else block


def normalized(vectors: Floats) -> Floats:
    """The vectors at length one; a vector of length zero stays."""
    norms: Floats = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    norms[norms == 0] = 1
    return vectors / norms


def _stored(faiss: Any, index: Any) -> Floats:
    """The vectors of a flat index where they lie, memory-mapped or not."""
    size, dimension = index.ntotal, index.d
    flat: Floats = faiss.rev_swig_ptr(index.get_xb(), size * dimension)
    return flat.reshape(size, dimension)
