"""Vectors in a Milvus collection: on a server, on many, or in a file ``x.db``."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Floats, Longs
from rulerag.errors import ConfigError, FingerprintError, MissingDependencyError, RetrievalError
from rulerag.retrieval.base import Rows
from rulerag.retrieval.dense.faiss_index import normalized

TOKEN = "MILVUS_TOKEN"
"""The environment variable that holds ``user:password`` or a token; it is in no setting."""

_ROWS_BYTES, _QUERIES, _DEEPEST = 16_000_000, 1024, 16_384
"""What one message holds (servers take 64 MB), queries of one call, and rows of one query."""
_KINDS = "FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW", "DISKANN", "AUTOINDEX"
_SECONDS, _PAUSES = 10.0, (0.5, 1.0)


def is_address(index: str) -> bool:
    """Whether an ``index`` names a Milvus, as an address or a file, and no index of FAISS."""
    return index.partition("#")[0].endswith(".db") or index.startswith(("http://", "https://"))


class MilvusIndex:
    """Vectors that a Milvus serves; larger inner products are better.

    It has what :class:`~rulerag.retrieval.dense.faiss_index.VectorIndex` has. With the kind
    ``FLAT`` every vector is compared, and the best rows are those of FAISS's ``Flat`` up to
    rounding. A collection is filled under a name of its own and gets its name when every row is
    there; a fill that was ended goes on where it was.

    Args:
        client: of the server.
        collection: its name there.
        factory: the address, with the kind of index behind ``#``.
        search_parameters: as FAISS writes them: ``nprobe=16``, ``ef=64``.
        size: how many rows it holds.
        dimension: the length of a vector.

    References:
        Wang et al. 2021, Milvus: A Purpose-Built Vector Data Management System.
    """

    def __init__(
        self,
        client: Any,
        collection: str,
        factory: str,
        search_parameters: str,
        size: int,
        dimension: int,
    ) -> None:
        self.factory, self.search_parameters = factory, search_parameters
        self.dimension, self._size = dimension, size
        self._client, self._collection = client, collection
        self._open = False
        self._parameters = _numbers(search_parameters)

    @classmethod
    def build(
        cls,
        vectors: Floats,
        factory: str,
        search_parameters: str = "",
        *,
        name: str,
        times: Longs,
        normalize: bool,
        progress: bool = False,
    ) -> MilvusIndex:
        """Fill a collection, or find the one that holds the same.

        Args:
            vectors: float32 array of shape (n, dimension).
            factory: ``http://host:19530`` or ``x.db``; behind ``#`` the kind of index and its
                parameters, as ``#HNSW,M=16,efConstruction=200``; ``FLAT`` where none is named.
            search_parameters: see the class.
            name: names everything that the vectors depend on.
            times: of each row; the least integer for undated ones.
            normalize: make every vector as long as one, so that inner products are cosines.
            progress: show a progress bar.

        Raises:
            ConfigError: the address or the kind of index is none.
            RetrievalError: no Milvus answers there, it refuses, or rows are missing in the end.
            MissingDependencyError: pymilvus is not installed.
        """
        address, kind, options = _parts(factory)
        size, dimension = vectors.shape
        collection = f"rulerag_{name}_{kind.lower()}"
        client = _connected(address)
        made = cls(client, collection, factory, search_parameters, size, dimension)
        with _named_errors(address):
            if not client.has_collection(collection):
                made._fill_or_refill(vectors, times, kind, options, normalize, progress)
        made._check()
        return made

    def _fill_or_refill(self, *how: Any) -> None:
        """Fill; beside what a killed server left, where it can no longer read that, nor drop it."""
        from pymilvus.exceptions import MilvusException

        working = f"{self._collection}_part"
        try:
            self._fill(working, *how)
        except MilvusException:
            try:
                _count(self._client, working)
            except MilvusException:
                self._fill(f"{working}2", *how)  # fails as well where the server is gone
            else:
                raise  # the next build goes on with it

    def _fill(
        self,
        working: str,
        vectors: Floats,
        times: Longs,
        kind: str,
        options: Mapping[str, Any],
        normalize: bool,
        progress: bool,
    ) -> None:
        if not self._client.has_collection(working):
            _create(self._client, working, self.dimension, kind, options)
        self._client.load_collection(working)
        step = max(1, _ROWS_BYTES // (4 * self.dimension))
        # Whole batches stand; one that was ended is written again, in place of what it left.
        done = _count(self._client, working) // step * step
        bar = tqdm(total=self._size, desc="Index", unit="document", disable=not progress)
        with bar:
            bar.update(done)
            for start in range(done, self._size, step):
                rows = np.arange(start, min(start + step, self._size))
                block = np.ascontiguousarray(vectors[rows], dtype=np.float32)
                self._upsert(working, rows, normalized(block) if normalize else block, times[rows])
                bar.update(len(rows))
        self._client.flush(working)  # once: a flush after each batch makes segments of its size
        if _count(self._client, working) == self._size:
            self._client.rename_collection(working, self._collection)

    def _upsert(self, collection: str, rows: Longs, vectors: Floats, times: Longs) -> None:
        records = zip(rows.tolist(), vectors, times.tolist(), strict=True)
        keys = "row", "vector", "time"
        self._client.upsert(collection, [dict(zip(keys, one, strict=True)) for one in records])

    def _check(self) -> None:
        """Every row is there, of this length."""
        with _named_errors(self.factory):
            if not self._client.has_collection(self._collection):
                raise RetrievalError(
                    f"{self.factory}: no collection {self._collection} with every row",
                    hint="build the index again; it goes on where it was",
                )
            fields = self._client.describe_collection(self._collection)["fields"]
            self._client.load_collection(self._collection)
            found = _count(self._client, self._collection)
        lengths = [one["params"]["dim"] for one in fields if one["name"] == "vector"]
        if [int(one) for one in lengths] != [self.dimension] or found != self._size:
            raise FingerprintError(
                f"{self.factory}: {self._collection} holds {found:,} vectors of {lengths}, not "
                f"{self._size:,} of {self.dimension}",
                hint="it was changed by another program: drop the collection, and build it again",
            )
        self._open = True

    def __len__(self) -> int:
        return self._size

    def search(
        self,
        queries: Floats,
        depth: int,
        bar: tqdm[Any] | None = None,
        *,
        last: int | None = None,
    ) -> Rows:
        """The ``depth`` best rows of each query, best first; fewer where fewer are found.

        Args:
            queries: float32 array of shape (n, dimension).
            depth: rows wanted, 16,384 at most.
            bar: a progress bar to advance by every query.
            last: only rows of this time or earlier, and undated ones.

        Raises:
            ConfigError: ``depth`` is more than Milvus gives.
            RetrievalError: the server failed.
        """
        if depth > _DEEPEST:
            raise ConfigError(f"Milvus gives {_DEEPEST:,} rows at most", key="depth")
        if not self._open:  # the server failed, and may have been started again
            self._check()
        rows = np.full((len(queries), depth), -1, dtype=np.int64)
        scores = np.zeros((len(queries), depth), dtype=np.float64)
        for start in range(0, len(queries), _QUERIES):
            batch = np.ascontiguousarray(queries[start : start + _QUERIES], dtype=np.float32)
            with self._reopened_after_errors():
                found = self._client.search(
                    self._collection,
                    data=batch,
                    limit=depth,
                    filter="" if last is None else f"time <= {last}",
                    search_params={"params": self._parameters},
                )
            for line, hits in enumerate(found, start):
                order = sorted((-one["distance"], one["row"]) for one in hits)
                rows[line, : len(order)] = [row for _, row in order]
                scores[line, : len(order)] = [-score for score, _ in order]
            if bar is not None:
                bar.update(len(batch))
        return Rows(rows, scores)

    @contextmanager
    def _reopened_after_errors(self) -> Iterator[None]:
        try:
            with _named_errors(self.factory):
                yield
        except RetrievalError:
            self._open = False
            raise

    def upsert(self, rows: Longs, vectors: Floats, times: Longs) -> None:
        """Put vectors in place of those of some rows, or add rows; seen by the next search.

        Raises:
            RetrievalError: the server failed.
        """
        with _named_errors(self.factory):
            self._upsert(self._collection, rows, vectors, times)
            self._size = _count(self._client, self._collection)

    def delete(self, rows: Longs) -> None:
        """Take rows out; a search finds them no more.

        Raises:
            RetrievalError: the server failed.
        """
        with _named_errors(self.factory):
            self._client.delete(self._collection, ids=rows.tolist())
            self._size = _count(self._client, self._collection)

    def save(self, folder: Any) -> dict[str, Any]:
        """What :meth:`load` must know; nothing is written, for the vectors are where they are."""
        about = {"index": self.factory, "search_parameters": self.search_parameters}
        return about | {"collection": self._collection, "dimension": self.dimension}

    @classmethod
    def load(cls, settings: Mapping[str, Any], size: int) -> MilvusIndex:
        """Open what :meth:`build` filled.

        Args:
            settings: what :meth:`save` gave.
            size: how many rows it has to hold.

        Raises:
            RetrievalError: as in :meth:`build`.
            KeyError: a setting is missing.
        """
        factory = str(settings["index"])
        client, dimension = _connected(_parts(factory)[0]), int(settings["dimension"])
        about = str(settings["collection"]), factory, str(settings["search_parameters"])
        made = cls(client, *about, size, dimension)
        made._check()
        return made


def check_address(factory: str, search_parameters: str) -> None:
    """Refuse an address, a kind or parameters before an hour of encoding.

    Raises:
        ConfigError: one is none.
        RetrievalError: no Milvus answers there.
        MissingDependencyError: pymilvus is not installed.
    """
    _numbers(search_parameters)
    _connected(_parts(factory)[0])


def _create(
    client: Any, collection: str, dimension: int, kind: str, options: Mapping[str, Any]
) -> None:
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("row", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    schema.add_field("time", DataType.INT64)
    index = client.prepare_index_params()
    index.add_index("vector", index_type=kind, metric_type="IP", params=dict(options))
    # Strong: who has written rows finds them at once.
    client.create_collection(
        collection, schema=schema, index_params=index, consistency_level="Strong"
    )


def _count(client: Any, collection: str) -> int:
    return int(client.query(collection, output_fields=["count(*)"])[0]["count(*)"])


def _parts(factory: str) -> tuple[str, str, dict[str, Any]]:
    """The address, the kind of index, and its parameters."""
    address, _, about = factory.partition("#")
    kind, _, options = about.partition(",")
    if urlsplit(address).username is not None:
        hint = f"export {TOKEN}=user:password"
        raise ConfigError("the address holds a password, and is shown", key="index", hint=hint)
    if (kind := kind.upper() or _KINDS[0]) not in _KINDS:
        hint = f"{address}#HNSW,M=16, or another of {', '.join(_KINDS)}"
        raise ConfigError(f"no index of Milvus is called {kind!r}", key="index", hint=hint)
    return address, kind, _numbers(options)


def _numbers(parameters: str) -> dict[str, int]:
    if not re.fullmatch(r"(?:\w+=\d+(?:,\w+=\d+)*)?", parameters):
        hint = "nprobe=16 for IVF, ef=64 for HNSW, nothing for FLAT"
        raise ConfigError(f"{parameters!r} are no parameters", key="search_parameters", hint=hint)
    pairs = (one.split("=") for one in parameters.split(",") if one)
    return {name: int(value) for name, value in pairs}


def _connected(address: str) -> Any:
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingDependencyError("pymilvus", "milvus") from error
    from pymilvus.exceptions import MilvusException

    # It writes every error with its history to the terminal, beside raising it.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    options = {"token": os.environ.get(TOKEN, ""), "timeout": _SECONDS, "dedicated": True}
    with _named_errors(address):
        for pause in _PAUSES:
            with suppress(MilvusException):
                return MilvusClient(address, **options)
            time.sleep(pause)  # a server that was started again is not seen at once
        return MilvusClient(address, **options)


@contextmanager
def _named_errors(address: str) -> Iterator[None]:
    """What the server or its client raises, in one message."""
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except MilvusException as error:
        raise RetrievalError(
            f"the Milvus at {address} failed: {error.message}",
            hint=f"is it up, and is {TOKEN} right? Or say index=Flat, which needs none",
        ) from error
