"""Sorted columns of a temporal graph, as walks forward in time need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.errors import MiningError

if TYPE_CHECKING:
    from rulerag.kg.graph import FactTable

__all__ = [
    "Ints",
    "Longs",
    "TemporalIndex",
    "build_temporal_index",
    "directed_quads",
    "distinct",
]

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


class TemporalIndex(NamedTuple):
    """Every distinct fact in both directions: entity → relation → neighbour → times.

    A *directed relation* is a relation (below R) or its inverse (the relation + R). Three levels
    of bounds lead from an entity to its *groups* (one for each directed relation that it has), from
    a group to its *pairs* (one for each neighbour), from a pair to its times, all ascending.

    Attributes:
        entity_bounds: int64 array of shape (N + 1,), groups of each entity.
        group_relation: int32 array of shape (G,), directed relation of each group.
        group_bounds: int64 array of shape (G + 1,), pairs of each group.
        pair_target: int32 array of shape (P,), neighbour of each pair.
        pair_bounds: int64 array of shape (P + 1,), times of each pair.
        times: int32 array of shape (2 F,), timestamps.
        num_relations: R.
    """

    entity_bounds: Longs
    group_relation: Ints
    group_bounds: Longs
    pair_target: Ints
    pair_bounds: Longs
    times: Ints
    num_relations: int


def directed_quads(tables: Sequence[FactTable]) -> Longs:
    """The distinct facts of some tables over one vocabulary, in both directions.

    Returns:
        int64 array of shape (2 F, 4): source, directed relation, target, timestamp; sorted by
        these columns.

    Raises:
        MiningError: a table is static, or its ids do not fit 64-bit codes.
    """
    columns = []
    for table in tables:
        if table.timestamp is None:
            raise MiningError(
                f"{table.name} has no timestamps, so there are no walks in time",
                hint="use a temporal graph",
            )
        columns.append((table.subject, table.relation, table.object, table.timestamp))
    source, relation, target, time = (
        np.concatenate([part[c] for part in columns]).astype(np.int64) for c in range(4)
    )
    entities, relations = len(tables[0].entities), len(tables[0].relations)
    moments = np.unique(time)
    rank = np.searchsorted(moments, time)
    span = max(len(moments), 1)
    if 2 * relations * entities * entities * span >= 2**63:
        raise MiningError(
            f"{entities:,} entities, {relations:,} relations and {span:,} times are too many",
            hint="split the graph by time",
        )
    both = np.concatenate([source, target]), np.concatenate([target, source])
    directed = np.concatenate([relation, relation + relations])
    code = ((both[0] * 2 * relations + directed) * entities + both[1]) * span
    code = distinct(code + np.concatenate([rank, rank]))
    code, rank = np.divmod(code, span)
    code, target = np.divmod(code, max(entities, 1))
    source, directed = np.divmod(code, max(2 * relations, 1))
    return np.stack([source, directed, target, moments[rank]], axis=1)


def distinct(code: Longs) -> Longs:
    """The distinct values, ascending; the array is sorted in place.

    ``np.unique`` hashes integers first, which is slow where most of many millions differ.
    """
    code.sort()
    return code[np.append(True, code[1:] != code[:-1])] if len(code) else code


def build_temporal_index(tables: Sequence[FactTable]) -> TemporalIndex:
    """Index the distinct facts of some tables over one vocabulary.

    Raises:
        MiningError: a table is static, or its ids do not fit 64-bit codes.
    """
    quads = directed_quads(tables)
    source, directed, target, time = quads.T
    new_group = _starts(source, directed)
    new_pair = new_group | _starts(target)
    pairs, groups = np.flatnonzero(new_pair), np.flatnonzero(new_group)
    first_pair = np.searchsorted(pairs, groups)
    return TemporalIndex(
        entity_bounds=np.searchsorted(source[groups], np.arange(len(tables[0].entities) + 1)),
        group_relation=directed[groups].astype(np.int32),
        group_bounds=np.append(first_pair, len(pairs)),
        pair_target=target[pairs].astype(np.int32),
        pair_bounds=np.append(pairs, len(quads)),
        times=time.astype(np.int32),
        num_relations=len(tables[0].relations),
    )


def _starts(*columns: Longs) -> npt.NDArray[np.bool_]:
    """Whether a row differs from the one before it in any column."""
    first = np.ones(len(columns[0]), dtype=bool)
    if len(first):
        first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return first
