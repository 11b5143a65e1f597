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


BY_TIME, BY_PAIR, ONWARD, BY_RELATION = range(4)
"""The orders of facts: by source, then time; by source, target, then time; by source, relation,
then time; by relation."""
SOURCE, RELATION, TARGET, TIME = range(4)
"""The columns of facts."""


class WalkIndex(NamedTuple):
    """A temporal graph for walks back and forth.

    Attributes:
        graph: for look-ups.
        facts: int32 array of shape (4, 4, 2 F): in each order the columns of all directed facts.
        mass: float64 array of shape (2, 2 F), for the first two orders: of a fact and of those in
            front of it with the same source, or source and target, the sum of ``exp(time - its
            own time)``, in time steps.
        bounds: int64 array of shape (N + 1,), facts of each source, in the first three orders.
        relation_bounds: int64 array of shape (2 R + 1,), facts of each directed relation.
        has: uint8 array of shape (2 R, ceil(N / 8)), a bit for each entity that has facts with a
            directed relation, the lowest bit first: most look-ups of a sampled body fail here.
        step: timestamps between two neighbouring times.
    """

    graph: TemporalIndex
    facts: Ints
    mass: npt.NDArray[np.float64]
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
    graph = build_temporal_index(tables)
    facts = np.empty((4, 4, len(graph.times)), np.int32)
    for order, columns in enumerate(((0, 3, 1, 2), (0, 2, 3, 1), (0, 1, 3, 2), (1, 0, 2, 3))):
        facts[order] = directed_facts(tables, columns)
    by_time, by_pair, onward, by_relation = facts
    runs = run_starts(by_time[SOURCE]), run_starts(by_pair[SOURCE], by_pair[TARGET])
    mass = [running_sums(facts[order, TIME], new, float(step)) for order, new in enumerate(runs)]
    has = np.zeros((2 * relations, entities), dtype=bool)
    has[onward[RELATION], onward[SOURCE]] = True
    return WalkIndex(
        graph=graph,
        facts=facts,
        mass=np.stack(mass),
        bounds=np.searchsorted(onward[SOURCE], np.arange(entities + 1)),
        relation_bounds=np.searchsorted(by_relation[RELATION], np.arange(2 * relations + 1)),
        has=np.packbits(has, axis=1, bitorder="little"),
        step=step,
    )
