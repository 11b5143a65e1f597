"""Facts in the orders that random walks through time need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.mining.tlogic_index import (
    Ints,
    Longs,
    TemporalIndex,
    build_temporal_index,
    directed_quads,
)
from rulerag.mining.walks_columns import last_times, masses

if TYPE_CHECKING:
    from rulerag.kg.graph import FactTable

__all__ = ["Edges", "WalkIndex", "build_walk_index"]

Doubles = npt.NDArray[np.float64]


class Edges(NamedTuple):
    """Directed facts in one order.

    Attributes:
        source: int32 array of shape (2 F,), where each starts.
        relation: int32 array of shape (2 F,), directed relations.
        target: int32 array of shape (2 F,), where each ends.
        time: int32 array of shape (2 F,), timestamps.
        mass: float64 array of shape (2 F,): of the facts in front of it that share its first
            columns, and of itself, the sum of ``exp(time - its own time)``, in time steps.
    """

    source: Ints
    relation: Ints
    target: Ints
    time: Ints
    mass: Doubles


class WalkIndex(NamedTuple):
    """A temporal graph for walks back and forth.

    Attributes:
        graph: for look-ups.
        by_time: facts by source, then time.
        by_pair: facts by source, target, then time.
        onward: facts by source, relation, then time.
        by_relation: facts by relation.
        bounds: int64 array of shape (N + 1,), facts of each source, in the first three orders.
        relation_bounds: int64 array of shape (2 R + 1,), facts of each directed relation.
        has: uint8 array of shape (2 R, ceil(N / 8)), a bit for each entity that has facts with a
            directed relation, the lowest bit first: most look-ups of a sampled body fail here.
        last_key: int64 array, a hash table: ``(source * 2 R + relation) * N + target``, or -1.
        last_time: int32 array, the last time of each key's facts.
        step: timestamps between two neighbouring times.
    """

    graph: TemporalIndex
    by_time: Edges
    by_pair: Edges
    onward: Edges
    by_relation: Edges
    bounds: Longs
    relation_bounds: Longs
    has: npt.NDArray[np.uint8]
    last_key: Longs
    last_time: Ints
    step: int


def build_walk_index(tables: Sequence[FactTable]) -> WalkIndex:
    """Index the distinct facts of some tables over one vocabulary.

    Raises:
        MiningError: a table is static.
    """
    quads = directed_quads(tables)
    source, relation = quads[:, 0], quads[:, 1]
    entities, relations = len(tables[0].entities), len(tables[0].relations)
    step = tables[0].calendar.step
    has = np.zeros((2 * relations, entities), dtype=bool)
    has[relation, source] = True
    key, last = last_times(quads, entities, 2 * relations)
    sizes = entities, 2 * relations, entities
    by_relation = _sorted(quads, (1, 0, 2, 3), sizes)
    return WalkIndex(
        graph=build_temporal_index(tables),
        by_time=_edges(_sorted(quads, (0, 3, 1, 2), sizes), [0], step),
        by_pair=_edges(_sorted(quads, (0, 2, 3, 1), sizes), [0, 2], step),
        onward=_edges(_sorted(quads, (0, 1, 3, 2), sizes), [0, 1], step),
        by_relation=_edges(by_relation, [1], step),
        bounds=np.searchsorted(source, np.arange(entities + 1)),
        relation_bounds=np.searchsorted(by_relation[:, 1], np.arange(2 * relations + 1)),
        has=np.packbits(has, axis=1, bitorder="little"),
        last_key=key,
        last_time=last,
        step=step,
    )


def _sorted(quads: Longs, order: tuple[int, ...], sizes: tuple[int, int, int]) -> Longs:
    """The rows by their columns in an order, as numbers that are sorted and read back.

    That is linear in memory; sorting places and fetching rows by them jumps through it. The
    numbers fit 64 bits: :func:`~rulerag.mining.tlogic_index.directed_quads` has checked.
    """
    moments = np.unique(quads[:, 3])
    spans = (*sizes, max(len(moments), 1))
    code = np.zeros(len(quads), np.int64)
    for column in order:
        code *= spans[column]
        values = quads[:, column]
        code += np.searchsorted(moments, values) if column == 3 else values
    code.sort()
    rows = np.empty_like(quads)
    for column in reversed(order):
        code, values = np.divmod(code, max(spans[column], 1))
        rows[:, column] = moments[values] if column == 3 else values
    return rows


def _edges(quads: Longs, first: list[int], step: int) -> Edges:
    """Columns, with masses over runs of rows that share some columns."""
    new = np.ones(len(quads), dtype=bool)
    new[1:] = np.any(quads[1:, first] != quads[:-1, first], axis=1)
    source, relation, target, time = (np.ascontiguousarray(c, np.int32) for c in quads.T)
    return Edges(source, relation, target, time, masses(time, new, float(step)))
