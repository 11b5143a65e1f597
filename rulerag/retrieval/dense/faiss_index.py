"""FAISS behind one small class: exact and approximate indexes over vectors, ties by row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from rulerag.arrays import Floats
from rulerag.errors import ConfigError
from rulerag.retrieval.base import Rows, broken_index
from rulerag.retrieval.dense.index_form import IndexForm, import_faiss

_BLOCK = 16_384  # vectors copied or added at once
_QUERIES = 4096  # queries searched at once: FAISS multiplies blocks of as many
_CELLS = 8_000_000  # scores held at once
_DEEPEN = 4
_FILE = "index.faiss"
# FAISS multiplies matrices, many times faster than one vector after another, where queries times
# dimension reach a threshold. Since 1.15 it is 128,000, for machines of many threads; one thread
# gains from 800 on (its pull request 5109). Before, the same variable counted queries.
_BLAS_IS_LATE = 100_000
_BLAS_ALONE = 800
_BLAS_EACH = 6400  # for each of several threads, which wait for each other


class VectorIndex:
    """Vectors and the FAISS index over them; larger inner products are better.

    ``Flat`` is exact to the last tie: FAISS finds candidates, the inner products of these are
    computed again, each in one fixed way, and a query whose last rank could still go to a row
    outside of the candidates is searched deeper. Equal scores come in row order at any depth, batch
    size and number of threads; FAISS alone leaves that open. The others order what they find by
    score, then by row.

    Args:
        faiss_index: the FAISS index.
        form: what it was made of, and how it is searched.
        largest_norm: the largest norm of its vectors, a bound for rounding errors.
        threads: threads of a search; FAISS's own choice when None.
    """

    def __init__(
        self,
        faiss_index: Any,
        form: IndexForm,
        largest_norm: float,
        threads: int | None = None,
    ) -> None:
        self.form = form
        self.largest_norm = largest_norm
        self.threads = threads
        self._index = faiss_index

    @classmethod
    def build(
        cls,
        vectors: Floats,
        form: IndexForm,
        *,
        normalize: bool,
        threads: int | None = None,
    ) -> VectorIndex:
        """Index vectors, memory-mapped ones too.

        Builds are the same every time, but for HNSW with more than one thread: its graph depends
        on which thread comes first.

        Args:
            vectors: float32 array of shape (n, dimension).
            form: how they are kept and searched.
            normalize: make every vector as long as one, so that inner products are cosines.
            threads: threads of build and search.

        Raises:
            ConfigError: FAISS cannot build the index, with more cells than vectors for example.
            MissingDependencyError: faiss is not installed.
        """
        faiss = import_faiss()
        with _threads(faiss, threads):
            made = form.empty(vectors.shape[1])
            if not made.is_trained:
                _train(made, form.index, vectors, normalize)
            if form.exact:
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
        return cls(made, form, largest, threads)

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
                find = self._exact if self.form.exact else self._approximate
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
        exact = self._products(queries, rows)
        order = _ranked(exact, rows)[:, :depth]
        best = np.take_along_axis(exact, order, axis=1).astype(np.float64)
        return Rows(np.take_along_axis(rows, order, axis=1), best), found[:, -1].astype(np.float64)

    def _products(self, queries: Floats, rows: npt.NDArray[np.int64]) -> Floats:
        """The inner products of queries with some rows each, the same in any batch."""
        stored = _stored(import_faiss(), self._index)
        products = np.empty(rows.shape, dtype=np.float32)
        held = np.empty((min(rows.shape[1], _BLOCK), self.dimension), dtype=np.float32)
        for i, query in enumerate(queries):
            for start in range(0, rows.shape[1], _BLOCK):
                part = rows[i, start : start + _BLOCK]
                near = _gather(stored, part, held[: len(part)])
                # No matrix product: BLAS may add up the same numbers in another order elsewhere.
                np.einsum("kd,d->k", near, query, out=products[i, start : start + _BLOCK])
        return products

    def save(self, folder: str | Path) -> dict[str, Any]:
        """Write the index to a folder.

        Returns:
            What :meth:`load` must know beside the files, as JSON values.

        Raises:
            OSError: the folder cannot be written.
        """
        path = Path(folder) / _FILE
        import_faiss().write_index(self._index, str(path))
        return {
            **asdict(self.form),
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
        mmap: bool = True,
        threads: int | None = None,
    ) -> VectorIndex:
        """Read what :meth:`save` wrote.

        Args:
            folder: the folder.
            settings: what :meth:`save` gave.
            size: how many vectors it holds.
            mmap: leave the vectors on disk and let the system read what a search touches.
            threads: threads of a search.

        Raises:
            RetrievalError: a file is missing, damaged, or holds something else.
            ConfigError: the index has no such parameters.
            MissingDependencyError: faiss is not installed.
            KeyError: a setting is missing.
        """
        form = IndexForm(str(settings["index"]), str(settings["search_parameters"]))
        shape = size, int(settings["dimension"])
        path = Path(folder) / _FILE
        read = _read(path, int(settings["bytes"]), mmap)
        kind = type(form.empty(shape[1]))
        if not isinstance(read, kind) or (read.ntotal, read.d) != shape:
            found = f"{read.ntotal} vectors of {read.d} numbers in a {type(read).__name__}"
            wanted = f"its manifest says {shape[0]} of {shape[1]} in a {kind.__name__}"
            raise broken_index("dense", path, f"the index is damaged ({found}, {wanted})")
        form.tune(read)
        return cls(read, form, float(settings["largest_norm"]), threads)


def _read(path: Path, size: int, mmap: bool) -> Any:
    """A FAISS index, mapped where it is as long as it was written: FAISS would read beyond."""
    faiss = import_faiss()
    if not path.is_file():
        raise broken_index("dense", path, "the index file is missing")
    found = path.stat().st_size
    if found != size:
        reason = f"{found:,} bytes, its manifest says {size:,}"
        raise broken_index("dense", path, f"the index is damaged ({reason})")
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mmap else 0)
    except RuntimeError as error:
        reason = str(error).rpartition(": ")[2]
        raise broken_index("dense", path, f"the index is damaged ({reason})") from error


@contextmanager
def _threads(faiss: Any, threads: int | None) -> Iterator[None]:
    """What FAISS knows once for the whole process is set, and put back."""
    before, blas = faiss.omp_get_max_threads(), faiss.cvar.distance_compute_blas_threshold
    if threads is not None:
        faiss.omp_set_num_threads(threads)
    if blas > _BLAS_IS_LATE:
        used = faiss.omp_get_max_threads()
        early = _BLAS_ALONE if used == 1 else min(blas, _BLAS_EACH * used)
        faiss.cvar.distance_compute_blas_threshold = early
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = blas
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


def _gather(vectors: Floats, rows: npt.NDArray[np.int64], out: Floats) -> Floats:
    """Some rows of stored vectors."""
    if not vectors.flags.carray:
        # Of a file whose numbers begin anywhere (FAISS's), take would copy all rows first.
        return vectors[rows]
    vectors.take(rows, axis=0, out=out, mode="clip")
    return out
