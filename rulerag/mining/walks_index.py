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
    source, relation, target, time = quads.T
    entities, relations = len(tables[0].entities), len(tables[0].relations)
    step = tables[0].calendar.step
    has = np.zeros((2 * relations, entities), dtype=bool)
    has[relation, source] = True
    key, last = last_times(quads, entities, 2 * relations)
    by_relation = quads[np.argsort(relation, kind="stable")]
    return WalkIndex(
        graph=build_temporal_index(tables),
        by_time=_edges(quads[np.lexsort((target, relation, time, source))], [0], step),
        by_pair=_edges(quads[np.lexsort((relation, time, target, source))], [0, 2], step),
        onward=_edges(quads[np.lexsort((target, time, relation, source))], [0, 1], step),
        by_relation=_edges(by_relation, [1], step),
        bounds=np.searchsorted(source, np.arange(entities + 1)),
        relation_bounds=np.searchsorted(by_relation[:, 1], np.arange(2 * relations + 1)),
        has=np.packbits(has, axis=1, bitorder="little"),
        last_key=key,
        last_time=last,
        step=step,
    )


def _edges(quads: Longs, first: list[int], step: int) -> Edges:
    """Columns, with masses over runs of rows that share some columns."""
    new = np.ones(len(quads), dtype=bool)
    new[1:] = np.any(quads[1:, first] != quads[:-1, first], axis=1)
    source, relation, target, time = (np.ascontiguousarray(c, np.int32) for c in quads.T)
    return Edges(source, relation, target, time, masses(time, new, float(step)))
