"""An index in shards on disk, for corpora whose vectors do not fit into memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Floats
from rulerag.folders import LOCK, locked
from rulerag.io import fingerprint_object, prepare_folder, read_json, write_json
from rulerag.retrieval.base import Rows
from rulerag.retrieval.dense.faiss_index import INDEX_FILE, VectorIndex, import_faiss

SHARD = 2_000_000
"""Vectors of one shard; more than that, lying on disk, are indexed in several."""
_ABOUT = "shard.json"


class ShardedIndex:
    """FAISS indexes on disk, one behind the other in the order of the rows.

    They are built and searched one after the other and read where they lie, so that one of them is
    in memory at a time. All have the cells and ranges that are learned from all vectors, so that
    they give what one index gives, row for row.

    Args:
        shards: the indexes.
        folder: of their files.
    """

    def __init__(self, shards: Sequence[VectorIndex], folder: Path) -> None:
        self._shards, self._folder = shards, folder
        self.factory, self.dimension = shards[0].factory, shards[0].dimension
        self.search_parameters = shards[0].search_parameters

    @classmethod
    def build(
        cls,
        vectors: np.memmap[Any, Any],
        factory: str,
        search_parameters: str = "",
        *,
        normalize: bool,
        threads: int | None = None,
        progress: bool = False,
    ) -> ShardedIndex:
        """Index vectors beside their file; a build that was ended goes on behind whole shards.

        Arguments and errors are those of
        :meth:`~rulerag.retrieval.dense.faiss_index.VectorIndex.build`.
        """
        name = fingerprint_object([factory, normalize, SHARD])
        folder = prepare_folder(Path(str(vectors.filename)).parent / f"shards-{name}")
        starts = range(0, len(vectors), SHARD)
        with locked(folder / LOCK, folder, wait=True):  # another process may make the same
            bar = tqdm(starts, desc="Index", unit="shard", disable=not progress)
            options: dict[str, Any] = {"normalize": normalize, "threads": threads}
            base = folder / "learned"
            if not _is_whole(base):
                _write(VectorIndex.learned(vectors, factory, **options), base)
            read = import_faiss().read_index(str(base / INDEX_FILE))  # not mapped: it is added to
            trained = VectorIndex(read, factory, "", 0.0, threads)
            for number, start in enumerate(bar):
                place = folder / str(number)
                if not _is_whole(place):
                    part = vectors[start : start + SHARD]
                    made = VectorIndex.build(part, factory, trained=trained, **options)
                    _write(made, place)
        return cls._opened(folder, len(starts), search_parameters, threads)

    @classmethod
    def _opened(
        cls, folder: Path, count: int, search_parameters: str, threads: int | None
    ) -> ShardedIndex:
        places = [folder / str(number) for number in range(count)]
        return cls([_open(place, search_parameters, threads=threads) for place in places], folder)

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def search(self, queries: Floats, depth: int, bar: tqdm[Any] | None = None) -> Rows:
        """The ``depth`` best rows of each query, best first; fewer where fewer are found.

        Args:
            queries: float32 array of shape (n, dimension).
            depth: rows wanted, at most the number of vectors.
            bar: a progress bar to advance by every query.
        """
        rows = np.empty((len(queries), 0), dtype=np.int64)
        scores = np.empty((len(queries), 0), dtype=np.float64)
        first = 0
        for shard in self._shards:
            found = shard.search(queries, min(depth, len(shard)))
            here = np.where(found.rows < 0, -1, found.rows + first)
            rows, scores = np.hstack([rows, here]), np.hstack([scores, found.scores])
            order = np.lexsort((rows, np.where(rows < 0, np.inf, -scores)))[:, :depth]
            rows = np.take_along_axis(rows, order, axis=1)
            scores = np.take_along_axis(scores, order, axis=1)
            first += len(shard)
        if bar is not None:
            bar.update(len(queries))
        return Rows(rows, scores)

    def save(self, folder: str | Path) -> dict[str, Any]:
        """Write the shards to a folder; on the same disk their files are shared, not copied.

        Returns:
            What :meth:`load` must know beside the files, as JSON values.

        Raises:
            OSError: the folder cannot be written.
        """
        for number in range(len(self._shards)):
            shutil.copytree(
                self._folder / str(number), Path(folder) / str(number), copy_function=_linked
            )
        about = {"index": self.factory, "search_parameters": self.search_parameters}
        return about | {"shards": len(self._shards)}

    @classmethod
    def load(
        cls,
        folder: str | Path,
        settings: Mapping[str, Any],
        *,
        threads: int | None = None,
    ) -> ShardedIndex:
        """Open what :meth:`save` wrote; vectors stay on disk, where a search reads them.

        Raises:
            RetrievalError: a file is missing, damaged, or holds something else.
            KeyError: a setting is missing.
        """
        count, parameters = int(settings["shards"]), str(settings["search_parameters"])
        return cls._opened(Path(folder), count, parameters, threads)


def _write(index: VectorIndex, place: Path) -> None:
    about = index.save(prepare_folder(place)) | {"size": len(index)}
    write_json(place / _ABOUT, about)  # written last: a shard counts when this file is there


def _open(place: Path, search_parameters: str = "", *, threads: int | None) -> VectorIndex:
    about = read_json(place / _ABOUT) | {"search_parameters": search_parameters}
    return VectorIndex.load(place, about, int(about["size"]), threads=threads)


def _is_whole(place: Path) -> bool:
    """Whether a shard was written to its end, and is as long as then."""
    if not (place / _ABOUT).is_file():
        return False
    file = place / INDEX_FILE
    return file.is_file() and file.stat().st_size == read_json(place / _ABOUT)["bytes"]


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another disk
        shutil.copy2(source, target)
