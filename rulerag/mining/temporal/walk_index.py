"""Facts in the orders that random walks through time need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.mining.indexes import (
    TemporalIndex,
    build_temporal_index,
    directed_facts,
    run_starts,
    running_sums,
)

if TYPE_CHECKING:
    from rulerag.kg import FactTable

__all__ = ["Edges", "WalkIndex", "build_walk_index"]


class Edges(NamedTuple):
    """Directed facts in one order.

    Attributes:
        source: int32 array of shape (2 F,), where each starts.
        relation: int32 array of shape (2 F,), directed relations.
        target: int32 array of shape (2 F,), where each ends.
        time: int32 array of shape (2 F,), timestamps.
        mass: float64 array of shape (2 F,), of the facts in front of it that share its first
            columns, and of itself, the sum of ``exp(time - its own time)``, in time steps; empty
            where facts are drawn alike.
    """

    source: Ints
    relation: Ints
    target: Ints
    time: Ints
    mass: npt.NDArray[np.float64]


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
    step: int


def build_walk_index(tables: Sequence[FactTable]) -> WalkIndex:
    """Index the distinct facts of some tables over one vocabulary.

    Raises:
        MiningError: a table is static.
    """
    entities, relations = len(tables[0].entities), len(tables[0].relations)
    step = tables[0].calendar.step

    def edges(*order: int, run: int = 0) -> Edges:
        """Facts in an order, with masses over runs that share some first columns."""
        facts, mass = directed_facts(tables, order), np.zeros(0)
        if run:
            mass = running_sums(facts[3], run_starts(*facts[list(order[:run])]), float(step))
        source, relation, target, time = facts
        return Edges(source, relation, target, time, mass)

    by_relation, onward = edges(1, 0, 2, 3), edges(0, 1, 3, 2)
    has = np.zeros((2 * relations, entities), dtype=bool)
    has[onward.relation, onward.source] = True
    return WalkIndex(
        graph=build_temporal_index(tables),
        by_time=edges(0, 3, 1, 2, run=1),
        by_pair=edges(0, 2, 3, 1, run=2),
        onward=onward,
        by_relation=by_relation,
        bounds=np.searchsorted(onward.source, np.arange(entities + 1)),
        relation_bounds=np.searchsorted(by_relation.relation, np.arange(2 * relations + 1)),
        has=np.packbits(has, axis=1, bitorder="little"),
        step=step,
    )
