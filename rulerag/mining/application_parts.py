"""Scored candidates of many queries, asked in parts that threads share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import MiningError

if TYPE_CHECKING:
    from rulerag.mining.tlogic_index import Ints, Longs

__all__ = ["Candidates", "in_parts"]

# Chunks for each thread: enough that no thread waits long for the last one.
_CHUNKS = 16


@dataclass(frozen=True)
class Candidates:
    """Scored entities for each query; queries that are alike share theirs.

    Args:
        row: int64 array of shape (q,), the row of each query in ``bounds``.
        bounds: int64 array of shape (u + 1,), where the candidates of each row stand.
        entity: int32 array, entity ids, ascending in each row.
        score: float64 array, their scores.
        tie: int32 array, the larger the better among equal scores; None where nothing tells.
    """

    row: Longs
    bounds: Longs
    entity: Ints
    score: npt.NDArray[np.float64]
    tie: Ints | None = None

    def __len__(self) -> int:
        return len(self.row)

    def of(self, query: int) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Entities and scores of one query."""
        place = slice(self.bounds[self.row[query]], self.bounds[self.row[query] + 1])
        return self.entity[place], self.score[place]


def in_parts(
    apply: Callable[[Longs], tuple[npt.NDArray[Any], ...]],
    queries: Longs,
    sizes: tuple[int, int],
    threads: int,
) -> Candidates:
    """Ask the distinct queries, sorted, in parts of whole subjects.

    Args:
        apply: gives bounds, entities, scores (and ties) of some queries.
        queries: int64 array of shape (q, 2 or more): known entity, directed relation, ….
        sizes: how many entities and directed relations there are.
        threads: threads that share the parts.

    Raises:
        MiningError: an id is not the graph's.
    """
    for column, size in enumerate(sizes):
        if len(queries) and not 0 <= queries[:, column].min() <= queries[:, column].max() < size:
            raise MiningError(
                f"the queries hold {('entity', 'relation')[column]} ids beyond the graph's",
                hint=f"ids are 0 to {size - 1}",
            )
    distinct, row = np.unique(queries, axis=0, return_inverse=True)
    parts = _by_subject(distinct, 1 if threads == 1 else threads * _CHUNKS)
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(apply, parts))
    sizes_of_rows = [np.diff(result[0]) for result in results]
    bounds = np.concatenate([np.zeros(1, np.int64), *sizes_of_rows]).cumsum()
    columns = [np.concatenate(column) for column in list(zip(*results, strict=True))[1:]]
    return Candidates(row.reshape(-1), bounds, *columns)


def _by_subject(queries: Longs, parts: int) -> list[Longs]:
    """Cut queries, sorted by subject, into about so many parts that share no subject."""
    even = np.linspace(0, len(queries), parts + 1).astype(np.int64)[1:-1]
    cuts = np.searchsorted(queries[:, 0], queries[even, 0]) if len(queries) else even[:0]
    return np.split(queries, np.unique(cuts))
