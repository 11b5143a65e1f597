"""Sorted columns of a temporal graph, as walks forward in time need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.errors import MiningError

if TYPE_CHECKING:
    from rulerag.kg import FactTable


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


def directed_facts(tables: Sequence[FactTable], order: tuple[int, ...] = (0, 1, 2, 3)) -> Ints:
    """The distinct facts of some tables over one vocabulary, in both directions.

    Facts are packed into numbers that are sorted and read back: that is linear in memory, where
    sorting places and fetching rows by them would jump through it.

    Args:
        tables: facts; dated ones where the order has their times.
        order: the columns to sort by, the first one first; times, the last one, may be left out.

    Returns:
        int32 array of shape (4, 2 F), or (3, 2 F) without times: source, directed relation, target,
        timestamp.

    Raises:
        MiningError: a table is static, or its ids do not fit 64-bit codes.
    """
    source, relation, target = (
        np.concatenate(column)
        for column in zip(*((t.subject, t.relation, t.object) for t in tables), strict=True)
    )
    dated = 3 in order
    moments, rank = _times(tables) if dated else (np.zeros(1, np.int32), np.zeros(0, np.int64))
    entities, relations = len(tables[0].entities), len(tables[0].relations)
    spans = [max(span, 1) for span in (entities, 2 * relations, entities, len(moments))]
    if math.prod(spans) >= 2**63:
        times = f" and {len(moments):,} times" if dated else ""
        raise MiningError(
            f"{entities:,} entities, {relations:,} relations{times} are too many",
            hint="split the graph",
        )
    facts, half = np.zeros(2 * len(source), np.int64), len(source)
    forward, inverse = (
        (source, relation, target, rank),
        (target, relation + relations, source, rank),
    )
    for column in order:
        facts *= spans[column]
        facts[:half] += forward[column]
        facts[half:] += inverse[column]
    facts.sort()  # np.unique would hash first, which is slow where most of many millions differ
    facts = facts[run_starts(facts)]
    found = np.empty((len(order), len(facts)), np.int32)
    for column in reversed(order):
        facts, values = np.divmod(facts, spans[column])
        found[column] = moments[values] if column == 3 else values
    return found


def _times(tables: Sequence[FactTable]) -> tuple[Ints, Longs]:
    """The distinct times of some tables, and the place of each fact's among them."""
    columns = []
    for table in tables:
        if table.timestamp is None:
            raise MiningError(
                f"{table.name} has no timestamps, so there are no walks in time",
                hint="use a temporal graph",
            )
        columns.append(table.timestamp)
    time = np.concatenate(columns)
    moments = np.unique(time)
    return moments, np.searchsorted(moments, time)


def run_starts(*columns: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Whether a row differs from the one before it in any column."""
    first = np.zeros(len(columns[0]), dtype=bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def build_temporal_index(tables: Sequence[FactTable]) -> TemporalIndex:
    """Index the distinct facts of some tables over one vocabulary.

    Raises:
        MiningError: a table is static, or its ids do not fit 64-bit codes.
    """
    source, directed, target, time = directed_facts(tables)
    groups = np.flatnonzero(run_starts(source, directed))
    pairs = np.flatnonzero(run_starts(source, directed, target))
    return TemporalIndex(
        entity_bounds=np.searchsorted(source[groups], np.arange(len(tables[0].entities) + 1)),
        group_relation=directed[groups],
        group_bounds=np.append(np.searchsorted(pairs, groups), len(pairs)),
        pair_target=target[pairs],
        pair_bounds=np.append(pairs, len(source)),
        times=time,
        num_relations=len(tables[0].relations),
    )
