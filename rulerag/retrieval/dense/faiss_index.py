"""FAISS behind one small class: any index of its factory, ties in row order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Floats
from rulerag.errors import ConfigError, MissingDependencyError
from rulerag.retrieval.base import Rows, broken_index

EXACT = "Flat"
"""The index that compares every vector."""

_ANY = 3072  # a dimension that every product quantizer can divide
_BLOCK = 16_384  # vectors copied or added at once
_QUERIES = 4096  # queries searched at once: FAISS multiplies blocks of as many
_CELLS = 8_000_000  # scores held at once
_DEEPEN = 4
INDEX_FILE = "index.faiss"
# FAISS multiplies matrices, many times faster than one vector after another, where queries times
# dimension reach a threshold. Since 1.15 it is 128,000, for machines of many threads; one thread
# gains from 800 on (its pull request 5109), each of several, which wait for each other, from 6,400.
_BLAS_FROM, _BLAS_FROM_EACH = 800, 6400


class VectorIndex:
    """Vectors and the FAISS index over them; larger inner products are better.

    ``Flat`` is exact to the last tie: FAISS finds candidates, the inner products of these are
    computed again, each in one fixed way, and a query whose last rank could still go to a row
    outside of the candidates is searched deeper. Equal scores come in row order at any depth, batch
    size and number of threads; FAISS alone leaves that open. The others order what they find by
    score, then by row.

    Args:
        faiss_index: the FAISS index.
        factory: the string of FAISS's ``index_factory`` that it was made of.
        search_parameters: how it is searched, as FAISS writes it.
        largest_norm: the largest norm of its vectors, a bound for rounding errors.
        threads: threads of a search; FAISS's own choice when None.
    """

    def __init__(
        self,
        faiss_index: Any,
        factory: str,
        search_parameters: str,
        largest_norm: float,
        threads: int | None = None,
    ) -> None:
        self.factory = factory
        self.search_parameters = search_parameters
        self.largest_norm = largest_norm
        self.threads = threads
        self._index = faiss_index

    @classmethod
    def build(
        cls,
        vectors: Floats,
        factory: str,
        search_parameters: str = "",
        *,
        normalize: bool,
        threads: int | None = None,
        trained: VectorIndex | None = None,
    ) -> VectorIndex:
        """Index vectors, memory-mapped ones too.

        Builds are the same every time, but for HNSW with more than one thread: its graph depends
        on which thread comes first.

        Args:
            vectors: float32 array of shape (n, dimension).
            factory: see :func:`empty_index`.
            search_parameters: see there.
            normalize: make every vector as long as one, so that inner products are cosines.
            threads: threads of build and search.
            trained: an empty index whose cells and ranges are taken, of the same factory.

        Raises:
            ConfigError: FAISS cannot build the index, with more cells than vectors for example.
            MissingDependencyError: faiss is not installed.
        """
        largest = 1.0 if normalize else 0.0
        with _threads(threads):
            if trained is None:
                made = cls.learned(vectors, factory, normalize=normalize)._index
            else:
                made = import_faiss().clone_index(trained._index)
            _tune(made, factory, search_parameters)
            for start in range(0, len(vectors), _BLOCK):
                block = np.ascontiguousarray(vectors[start : start + _BLOCK], dtype=np.float32)
                if not normalize:
                    largest = max(largest, float(np.linalg.norm(block, axis=1).max()))
                made.add(normalized(block) if normalize else block)
        return cls(made, factory, search_parameters, largest, threads)

    @classmethod
    def learned(
        cls, vectors: Floats, factory: str, *, normalize: bool, threads: int | None = None
    ) -> VectorIndex:
        """An empty index that has learned cells and ranges from vectors.

        Arguments and errors are those of :meth:`build`.
        """
        with _threads(threads):
            made = empty_index(factory, vectors.shape[1], "")
            if not made.is_trained:
                _train(made, factory, vectors, normalize)
        return cls(made, factory, "", 0.0, threads)

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
        rows = np.full((len(queries), depth), -1, dtype=np.int64)
        scores = np.zeros((len(queries), depth), dtype=np.float64)
        step = max(1, min(_QUERIES, _CELLS // max(1, depth)))
        with _threads(self.threads):
            for start in range(0, len(queries), step):
                part = slice(start, start + step)
                batch = np.ascontiguousarray(queries[part], dtype=np.float32)
                if self.factory == EXACT:
                    rows[part], scores[part] = self._exact(batch, depth, depth + depth // 8 + 16)
                else:
                    rows[part], scores[part] = self._approximate(batch, depth)
                if bar is not None:
                    bar.update(len(batch))
        return Rows(rows, scores)

    def _approximate(self, queries: Floats, depth: int) -> Rows:
        found, rows = self._index.search(queries, depth)
        order = np.lexsort((rows, -found))  # rows of -1 have the least of all scores
        rows = np.take_along_axis(rows, order, axis=1)
        scores = np.take_along_axis(found, order, axis=1).astype(np.float64)
        return Rows(rows, np.where(rows < 0, 0.0, scores))

    def _exact(self, queries: Floats, depth: int, width: int) -> Rows:
        """The best of ``width`` candidates; searched again where these do not settle it."""
        width = min(width, len(self))
        found, rows = self._index.search(queries, width)
        rows.sort(axis=1)
        products = self._products(queries, rows)
        order = np.argsort(-products, axis=1, kind="stable")[:, :depth]
        rows = np.take_along_axis(rows, order, axis=1)
        scores = np.take_along_axis(products, order, axis=1).astype(np.float64)
        if width < len(self):
            # How far two ways to add up one inner product can be apart, generously.
            rounding = float(np.finfo(np.float32).eps) * math.sqrt(self.dimension)
            slack = np.linalg.norm(queries, axis=1) * self.largest_norm * rounding
            unsettled = np.flatnonzero(scores[:, -1] <= found[:, -1] + slack)
            width *= _DEEPEN
            step = max(1, _CELLS // width)
            for start in range(0, len(unsettled), step):
                part = unsettled[start : start + step]
                rows[part], scores[part] = self._exact(queries[part], depth, width)
        return Rows(rows, scores)

    def _products(self, queries: Floats, rows: Any) -> Floats:
        """The inner products of queries with some rows each, the same in any batch."""
        # Where they lie, memory-mapped or not.
        stored: Any = (
            import_faiss()
            .rev_swig_ptr(self._index.get_xb(), len(self) * self.dimension)
            .reshape(len(self), self.dimension)
        )
        products = np.empty(rows.shape, dtype=np.float32)
        for number, query in enumerate(queries):
            for start in range(0, rows.shape[1], _BLOCK):
                part = slice(start, start + _BLOCK)
                # No matrix product: BLAS may add up the same numbers in another order elsewhere.
                np.einsum("kd,d->k", stored[rows[number, part]], query, out=products[number, part])
        return products

    def save(self, folder: str | Path) -> dict[str, Any]:
        """Write the index to a folder.

        Returns:
            What :meth:`load` must know beside the files, as JSON values.

        Raises:
            OSError: the folder cannot be written.
        """
        path = Path(folder) / INDEX_FILE
        import_faiss().write_index(self._index, str(path))
        return {
            "index": self.factory,
            "search_parameters": self.search_parameters,
            "largest_norm": self.largest_norm,
            "dimension": self.dimension,
            "bytes": path.stat().st_size,
        }

    @classmethod
    def load(
        cls,
        folder: str | Path,
        settings: Mapping[str, Any],
        size: int,
        *,
        threads: int | None = None,
    ) -> VectorIndex:
        """Open what :meth:`save` wrote; vectors stay on disk, where a search reads them.

        Args:
            folder: the folder.
            settings: what :meth:`save` gave.
            size: how many vectors it holds.
            threads: threads of a search.

        Raises:
            RetrievalError: a file is missing, damaged, or holds something else.
            ConfigError: the index has no such parameters.
            MissingDependencyError: faiss is not installed.
            KeyError: a setting is missing.
        """
        factory, search_parameters = str(settings["index"]), str(settings["search_parameters"])
        shape = size, int(settings["dimension"])
        path = Path(folder) / INDEX_FILE
        read = _read(path, int(settings["bytes"]))
        kind = type(empty_index(factory, shape[1], search_parameters))
        if not isinstance(read, kind) or (read.ntotal, read.d) != shape:
            found = f"{read.ntotal} vectors of {read.d} numbers in a {type(read).__name__}"
            wanted = f"its manifest says {shape[0]} of {shape[1]} in a {kind.__name__}"
            raise broken_index("dense", path, f"the index is damaged ({found}, {wanted})")
        _tune(read, factory, search_parameters)
        return cls(read, factory, search_parameters, float(settings["largest_norm"]), threads)


def import_faiss() -> Any:
    """The module, or a MissingDependencyError that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("faiss-cpu", "dense") from error
    return faiss


def empty_index(factory: str, dimension: int | None, search_parameters: str = "") -> Any:
    """An empty FAISS index for inner products.

    Args:
        factory: a string of FAISS's ``index_factory``: ``Flat``, ``HNSW32``, ``IVF1024,SQ8``,
            ``PQ48``, ...
        dimension: the length of the vectors; None where it is not known yet.
        search_parameters: how it is searched, as FAISS writes it: ``nprobe=16``, ``efSearch=64``;
            also ``efConstruction`` of HNSW. FAISS's own where they are empty.

    Raises:
        ConfigError: FAISS does not know the index, or a parameter of it, or cannot make it for
            vectors of this length.
        MissingDependencyError: faiss is not installed.
    """
    faiss = import_faiss()
    try:
        made = faiss.index_factory(dimension or _ANY, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise ConfigError(
            f"FAISS cannot make an index {factory!r}"
            + (f" of vectors of {dimension} numbers" if dimension else ""),
            key="index",
            hint="say Flat (exact), HNSW32, SQ8 or IVF1024,Flat, a string of its index_factory",
        ) from error
    _tune(made, factory, search_parameters)
    return made


def _tune(index: Any, factory: str, search_parameters: str) -> None:
    try:
        import_faiss().ParameterSpace().set_index_parameters(index, search_parameters)
    except RuntimeError as error:
        raise ConfigError(
            f"{search_parameters!r} means nothing to an index {factory!r}",
            key="search_parameters",
            hint="nprobe=16 for IVF, efSearch=64 for HNSW, nothing for Flat",
        ) from error


def _train(made: Any, factory: str, vectors: Floats, normalize: bool) -> None:
    """Learn cells and ranges from evenly spaced vectors, the same every time."""
    if hasattr(made, "cp"):
        made.cp.min_points_per_centroid = 1  # few vectors are the caller's choice, no news
    wanted = max(_BLOCK, 64 * getattr(made, "nlist", 0))
    rows = np.linspace(0, len(vectors) - 1, min(len(vectors), wanted)).astype(np.int64)
    sample = np.ascontiguousarray(vectors[rows], dtype=np.float32)
    try:
        made.train(normalized(sample) if normalize else sample)
    except RuntimeError as error:
        raise ConfigError(
            f"FAISS cannot learn an index {factory!r} from {len(vectors):,} vectors",
            key="index",
            hint="fewer cells, or Flat",
        ) from error


def _read(path: Path, size: int) -> Any:
    """A FAISS index, mapped where it is as long as it was written: FAISS would read beyond."""
    faiss = import_faiss()
    if not path.is_file():
        raise broken_index("dense", path, "the index file is missing")
    found = path.stat().st_size
    if found != size:
        reason = f"{found:,} bytes, its manifest says {size:,}"
        raise broken_index("dense", path, f"the index is damaged ({reason})")
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        reason = str(error).rpartition(": ")[2]
        raise broken_index("dense", path, f"the index is damaged ({reason})") from error


@contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    """What FAISS knows once for the whole process is set, and put back."""
    faiss = import_faiss()
    before, blas = faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold
    used = threads or before
    faiss.omp_set_num_threads(used)
    early = _BLAS_FROM if used == 1 else _BLAS_FROM_EACH * used
    faiss.cvar.distance_compute_blas_threshold = min(blas, early)
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = blas
        faiss.omp_set_num_threads(before)


def normalized(vectors: Floats) -> Floats:
    """The vectors at length one; a vector of length zero stays."""
    norms: Floats = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    norms[norms == 0] = 1
    return vectors / norms
