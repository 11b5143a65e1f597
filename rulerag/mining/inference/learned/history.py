"""A temporal graph with running sums, to look back from any time: when, how often, how lately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Doubles, Ints, Longs
from rulerag.mining.indexes import TemporalIndex, build_temporal_index, running_sums

if TYPE_CHECKING:
    from rulerag.kg import FactTable


PAIR_SPAN = 20.0
ANSWER_SPANS = (7.0, 30.0)
ACTIVE_SPAN = 10.0
"""Time steps over which running sums fall to 1/e: of facts between two entities by one relation, of
answers of a relation (lately, some time ago), and of any facts of an entity."""


class History(NamedTuple):
    """A temporal graph with running sums.

    A running sum at a fact is the sum of ``exp(-age / span)`` over this and earlier facts.

    Attributes:
        graph: for walks.
        step: timestamps between two neighbouring times.
        pair_mass: float64 array, a running sum over each pair's times.
        answer_bounds: int64 array of shape (2 R + 1,), entities that answer each directed relation.
        answer_entity: int32 array, these entities.
        answer_group: int64 array, the groups of their answers in the graph.
        group_times: int32 array, times of each group, ascending.
        group_lately: float64 array, a running sum over them.
        group_longer: float64 array, one over a longer span.
        active_bounds: int64 array of shape (N + 1,), facts of each entity.
        active_times: int32 array, their times, ascending for each entity.
        active_mass: float64 array, a running sum over them.
    """

    graph: TemporalIndex
    step: int
    pair_mass: Doubles
    answer_bounds: Longs
    answer_entity: Ints
    answer_group: Longs
    group_times: Ints
    group_lately: Doubles
    group_longer: Doubles
    active_bounds: Longs
    active_times: Ints
    active_mass: Doubles


def build_history(tables: Sequence[FactTable]) -> History:
    """Index the distinct facts of some tables over one vocabulary.

    Raises:
        MiningError: a table is static.
    """
    graph = build_temporal_index(tables)
    relations, step = graph.num_relations, tables[0].calendar.step
    group_facts = graph.pair_bounds[graph.group_bounds]
    active_facts = group_facts[graph.entity_bounds]
    group_times, in_group = _sorted_runs(graph.times, group_facts)
    active_times, in_entity = _sorted_runs(graph.times, active_facts)
    _, in_pair = _sorted_runs(graph.times, graph.pair_bounds)
    # What an entity is the target of by r, it is the source of by r's inverse.
    answered = (graph.group_relation.astype(np.int64) + relations) % max(2 * relations, 1)
    order = np.argsort(answered, kind="stable")
    owner = np.repeat(np.arange(len(graph.entity_bounds) - 1), np.diff(graph.entity_bounds))
    return History(
        graph=graph,
        step=step,
        pair_mass=running_sums(graph.times, in_pair, PAIR_SPAN * step),
        answer_bounds=np.searchsorted(answered[order], np.arange(2 * relations + 1)),
        answer_entity=owner[order].astype(np.int32),
        answer_group=order,
        group_times=group_times,
        group_lately=running_sums(group_times, in_group, ANSWER_SPANS[0] * step),
        group_longer=running_sums(group_times, in_group, ANSWER_SPANS[1] * step),
        active_bounds=active_facts,
        active_times=active_times,
        active_mass=running_sums(active_times, in_entity, ACTIVE_SPAN * step),
    )


def _sorted_runs(times: Ints, bounds: Longs) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Times sorted within runs, and where the runs start."""
    run = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    start = np.zeros(len(times), dtype=bool)
    start[bounds[:-1][np.diff(bounds) > 0]] = True
    return times[np.lexsort((times, run))], start
