"""FAISS behind one small class: exact and approximate indexes over vectors, ties by row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from rulerag.arrays import Floats
from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.retrieval.base import Rows, broken_index

EXACT = "Flat"
"""The index that compares every vector."""

# Kinds that had names of their own once.
_GONE = {
    "flat": EXACT,
    "ivf": "IVF1024,Flat",
    "hnsw": "HNSW32",
    "sq8": "SQ8",
    "ivf-sq8": "IVF1024,SQ8",
}
_ANY = 3072  # a dimension that every product quantizer can divide
_BLOCK = 16_384  # vectors copied or added at once
_QUERIES = 4096  # queries searched at once: FAISS multiplies blocks of as many
_CELLS = 8_000_000  # scores held at once
_DEEPEN = 4


def check_index(index: str, search_parameters: str, dimension: int = _ANY) -> Any:
    """An empty FAISS index for inner products.

    Args:
        index: a string of FAISS's ``index_factory``: ``Flat``, ``HNSW32``, ``IVF1024,Flat``,
            ``SQ8``, ...
        search_parameters: how it is searched, as FAISS writes it: ``nprobe=16``, ``efSearch=64``;
            also ``efConstruction`` of HNSW. FAISS's own where they are empty.
        dimension: the length of a vector.

    Raises:
        ConfigError: FAISS does not know the index, or a parameter of it.
        MissingDependencyError: faiss is not installed.
    """
    faiss = import_faiss()
    try:
        empty = faiss.index_factory(dimension, index, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise ConfigError(
            f"FAISS cannot make an index {index!r}",
            key="index",
            hint=f"say {_GONE.get(index, 'Flat (exact), HNSW32, SQ8 or IVF1024,Flat')}, a string "
            "of its index_factory",
        ) from error
    try:
        faiss.ParameterSpace().set_index_parameters(empty, search_parameters)
    except RuntimeError as error:
        raise ConfigError(
            f"{search_parameters!r} means nothing to an index {index!r}",
            key="search_parameters",
            hint="nprobe=16 for IVF, efSearch=64 for HNSW, nothing for Flat",
        ) from error
    return empty


class VectorIndex:
    """Vectors and the FAISS index over them; larger inner products are better.

    ``Flat`` is exact to the last tie: FAISS finds candidates, the inner products of these are
    computed again, each in one fixed way, and a query whose last rank could still go to a row
    outside of the candidates is searched deeper. Equal scores come in row order at any depth, batch
    size and number of threads; FAISS alone leaves that open. The others order what they find by
    score, then by row.

    Args:
        faiss_index: the FAISS index.
        index: the string that it was made of.
        search_parameters: how it is searched.
        largest_norm: the largest norm of its vectors, a bound for rounding errors.
        threads: threads of a search; FAISS's own choice when None.
    """

    def __init__(
        self,
        faiss_index: Any,
        index: str,
        search_parameters: str,
        largest_norm: float,
        threads: int | None = None,
    ) -> None:
        self.index = index
        self.search_parameters = search_parameters
        self.largest_norm = largest_norm
        self.threads = threads
        self._index = faiss_index

    @classmethod
    def build(
        cls,
        vectors: Floats,
        index: str = EXACT,
        search_parameters: str = "",
        *,
        normalize: bool,
        threads: int | None = None,
    ) -> VectorIndex:
        """Index vectors, memory-mapped ones too.

        Builds are the same every time, but for HNSW with more than one thread: its graph depends
        on which thread comes first.

        Args:
            vectors: float32 array of shape (n, dimension).
            index: as in :func:`check_index`.
            search_parameters: see there.
            normalize: make every vector as long as one, so that inner products are cosines.
            threads: threads of build and search.

        Raises:
            ConfigError: FAISS cannot build the index, with more cells than vectors for example.
            MissingDependencyError: faiss is not installed.
        """
        faiss = import_faiss()
        with _threads(faiss, threads):
            made = check_index(index, search_parameters, vectors.shape[1])
            if not made.is_trained:
                _train(made, index, vectors, normalize)
            if index == EXACT:
                # In one go: growing step by step, FAISS would hold the vectors up to three times.
                made.add(np.ascontiguousarray(vectors, dtype=np.float32))
                stored = _stored(faiss, made)
                for block in _blocks(stored):
                    block[:] = _prepared(block, normalize)
            else:
                for block in _blocks(vectors):
                    made.add(_prepared(block, normalize))
        largest = 1.0
        if not normalize:
            largest = max(float(np.linalg.norm(block, axis=1).max()) for block in _blocks(vectors))
        return cls(made, index, search_parameters, largest, threads)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return int(self._index.d)

    def search(self, queries: Floats, depth: int, bar: tqdm[Any] | None = None) -> Rows:
        """The ``depth`` best rows of each query, best first; fewer where fewer are found.

        Args:
            queries: float32 array of shape (n, dimension).
            depth: rows wanted, at most the number of vectors.
            bar: a progress bar to advance by every query.
        """
        faiss = import_faiss()
        rows = np.full((len(queries), depth), -1, dtype=np.int64)
        scores = np.zeros((len(queries), depth), dtype=np.float64)
        step = max(1, min(_QUERIES, _CELLS // max(1, depth)))
        with _threads(faiss, self.threads):
            for start in range(0, len(queries), step):
                part = slice(start, start + step)
                batch = np.ascontiguousarray(queries[part], dtype=np.float32)
                find = self._exact if self.index == EXACT else self._approximate
                rows[part], scores[part] = find(batch, depth)
                if bar is not None:
                    bar.update(len(batch))
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
        # How far two ways to add up one inner product can be apart, generously.
        rounding = float(np.finfo(np.float32).eps) * math.sqrt(self.dimension)
        slack = np.linalg.norm(queries, axis=1).astype(np.float64) * self.largest_norm * rounding
        pending, width = np.arange(len(queries)), depth + depth // 8 + 16
        while len(pending):
            width = min(width, size)
            unsettled = []
            step = max(1, _CELLS // width)
            for start in range(0, len(pending), step):
                part = pending[start : start + step]
                found, lowest = self._rescored(queries[part], width, depth)
                rows[part], scores[part] = found
                open_ = found.scores[:, -1] <= lowest + slack[part]
                unsettled.append(part[open_] if width < size else part[:0])
            pending, width = np.concatenate(unsettled), width * _DEEPEN
        return Rows(rows, scores)

    def _rescored(
        self, queries: Floats, width: int, depth: int
    ) -> tuple[Rows, npt.NDArray[np.float64]]:
        """The best rows of a batch, and the lowest score that FAISS gave to a candidate."""
        found, rows = self._index.search(queries, width)
        stored = _stored(import_faiss(), self._index)
        exact = np.empty(rows.shape, dtype=np.float32)
        held = np.empty((min(width, _BLOCK), self.dimension), dtype=np.float32)
        for i, query in enumerate(queries):
            for start in range(0, width, _BLOCK):
                part = rows[i, start : start + _BLOCK]
                near = held[: len(part)]
                stored.take(part, axis=0, out=near, mode="clip")
                # No matrix product: BLAS may add up the same numbers in another order elsewhere.
                np.einsum("kd,d->k", near, query, out=exact[i, start : start + _BLOCK])
        order = _ranked(exact, rows)[:, :depth]
        best = np.take_along_axis(exact, order, axis=1).astype(np.float64)
        return Rows(np.take_along_axis(rows, order, axis=1), best), found[:, -1].astype(np.float64)

    def save(self, path: str | Path) -> None:
        """Write the index to one file."""
        import_faiss().write_index(self._index, str(path))

    def settings(self) -> dict[str, Any]:
        """What :meth:`load` must know beside the file, as JSON values."""
        return {
            "index": self.index,
            "search_parameters": self.search_parameters,
            "largest_norm": self.largest_norm,
            "dimension": self.dimension,
        }

    @classmethod
    def load(
        cls,
        path: str | Path,
        settings: Mapping[str, Any],
        size: int,
        *,
        mmap: bool = False,
        threads: int | None = None,
    ) -> VectorIndex:
        """Read what :meth:`save` wrote.

        Args:
            path: the file.
            settings: what :meth:`settings` gave.
            size: how many vectors it holds.
            mmap: leave the vectors on disk and let the system read what a search touches.
            threads: threads of a search.

        Raises:
            RetrievalError: the file is missing, or holds no such index.
            ConfigError: the index has no such parameters.
            MissingDependencyError: faiss is not installed.
            KeyError: a setting is missing.
        """
        faiss = import_faiss()
        # Exact ones were once written as {"kind": "flat"}.
        index = EXACT if settings["index"] == {"kind": "flat"} else str(settings["index"])
        how = str(settings.get("search_parameters", ""))
        if not Path(path).is_file():
            raise broken_index("dense", path, "the index file is missing")
        kind = type(check_index(index, how))
        try:
            read = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mmap else 0)
        except RuntimeError as error:
            reason = str(error).rpartition(": ")[2]
            raise broken_index("dense", path, f"the index is damaged ({reason})") from error
        wanted = f"its manifest says {size} of {settings['dimension']} in {index!r}"
        if not isinstance(read, kind) or (read.ntotal, read.d) != (size, settings["dimension"]):
            found = f"{read.ntotal} vectors of {read.d} numbers in a {type(read).__name__}"
            raise broken_index("dense", path, f"the index is damaged ({found}, {wanted})")
        faiss.ParameterSpace().set_index_parameters(read, how)
        return cls(read, index, how, float(settings["largest_norm"]), threads)


def import_faiss() -> Any:
    """The module, or a MissingDependencyError that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("faiss-cpu", "dense") from error
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


def _train(made: Any, index: str, vectors: Floats, normalize: bool) -> None:
    """Learn cells and ranges from evenly spaced vectors, the same every time."""
    if hasattr(made, "cp"):
        made.cp.min_points_per_centroid = 1  # few vectors are the caller's choice, no news
    wanted = max(_BLOCK, 64 * getattr(made, "nlist", 0))
    rows = np.linspace(0, len(vectors) - 1, min(len(vectors), wanted)).astype(np.int64)
    try:
        made.train(_prepared(vectors[rows], normalize))
    except RuntimeError as error:
        raise ConfigError(
            f"FAISS cannot learn an index {index!r} from {len(vectors):,} vectors",
            key="index",
            hint="fewer cells, or Flat",
        ) from error


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
