"""What all rule inference shares: rules and facts checked, queries asked in parts by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, MiningError
from rulerag.mining.indexes import build_temporal_index

if TYPE_CHECKING:
    from rulerag.arrays import Ints, Longs
    from rulerag.kg import FactTable
    from rulerag.mining.indexes import TemporalIndex
    from rulerag.rules import Rule

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
        tie: int32 array, the larger the better among equal scores.
    """

    row: Longs
    bounds: Longs
    entity: Ints
    score: npt.NDArray[np.float64]
    tie: Ints

    def __len__(self) -> int:
        return len(self.row)

    def of(self, query: int) -> tuple[Ints, npt.NDArray[np.float64]]:
        """Entities and scores of one query."""
        place = slice(self.bounds[self.row[query]], self.bounds[self.row[query] + 1])
        return self.entity[place], self.score[place]


def known_facts(facts: Sequence[FactTable]) -> Sequence[FactTable]:
    """What rules are applied to.

    Raises:
        ConfigError: there is no table.
    """
    if not facts:
        raise ConfigError("no facts to apply rules to", key="facts", hint="give [kg.train]")
    return facts


def index_at_time_zero(facts: Sequence[FactTable]) -> TemporalIndex:
    """The index of static facts, all at time 0.

    Raises:
        MiningError: a table is dated.
    """
    for table in facts:
        if table.is_temporal:
            raise MiningError(
                f"{table.name} is dated and these rules are static",
                hint="give static facts, or apply temporal rules with TemporalInference",
            )
    return build_temporal_index(
        [replace(table, timestamp=np.zeros(len(table), np.int32)) for table in facts]
    )


def applied_rules(
    rules: Iterable[Rule], min_confidence: float, min_body_size: int = 0
) -> list[Rule]:
    """The rules that are confident enough, with bodies known often enough (where counted)."""
    return [
        rule
        for rule in rules
        if rule.ranking_confidence >= min_confidence
        and (rule.quality.body_size is None or rule.quality.body_size >= min_body_size)
    ]


def in_parts(
    apply: Callable[..., tuple[npt.NDArray[Any], ...]],
    columns: tuple[npt.NDArray[np.integer], ...],
    sizes: tuple[int, int],
    threads: int,
) -> Candidates:
    """Ask the distinct queries, sorted, in parts of whole subjects.

    Args:
        apply: gives bounds, entities (in any order), scores and ties of queries in int32 columns.
        columns: arrays of shape (q,): known entity, directed relation, time.
        sizes: how many entities and directed relations there are.
        threads: threads that share the parts.

    Raises:
        MiningError: an id is not the graph's.
    """
    queries = np.stack(columns, axis=1).astype(np.int64)
    for name, column, size in zip(("entity", "relation"), queries.T, sizes, strict=False):
        if len(column) and not 0 <= column.min() <= column.max() < size:
            raise MiningError(
                f"the queries hold {name} ids beyond the graph's", hint=f"ids are 0 to {size - 1}"
            )
    distinct, row = np.unique(queries, axis=0, return_inverse=True)
    parts = [
        np.ascontiguousarray(part.T, np.int32)
        for part in _by_subject(distinct, 1 if threads == 1 else threads * _CHUNKS)
    ]
    if threads == 1:  # many small questions: a pool would cost more than they do
        results = [_by_entity(*apply(*part)) for part in parts]
    else:
        with ThreadPoolExecutor(threads) as pool:
            results = list(pool.map(lambda part: _by_entity(*apply(*part)), parts))
    bounds, *found = zip(*results, strict=True)
    counts = np.concatenate([np.zeros(1, np.int64), *map(np.diff, bounds)])
    return Candidates(row.reshape(-1), counts.cumsum(), *map(np.concatenate, found))


def _by_entity(
    bounds: Longs, entity: Ints, *columns: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], ...]:
    """The candidates of each query in ascending order of their ids."""
    query = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    order = np.argsort((query << 32) + entity)
    return bounds, entity[order], *(column[order] for column in columns)


def _by_subject(queries: Longs, parts: int) -> list[Longs]:
    """Cut queries, sorted by subject, into about so many parts that share no subject."""
    even = np.linspace(0, len(queries), parts + 1).astype(np.int64)[1:-1]
    cuts = np.searchsorted(queries[:, 0], queries[even, 0]) if len(queries) else even[:0]
    return np.split(queries, np.unique(cuts))
