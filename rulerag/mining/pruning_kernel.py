"""Compiled count of what each rule of a head adds to the rules before it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.application_rules import CodedRules
from rulerag.mining.application_stairs import stairs
from rulerag.mining.application_static_kernel import reach_parallel
from rulerag.mining.application_walks import NEVER, new_reached, reach
from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Longs, TemporalIndex

__all__ = ["count_new"]


@compiled
def _starts_here(index: TemporalIndex, begins: npt.NDArray[np.bool_], subject: int) -> bool:
    """Whether some body begins at an entity: most entities have few relations."""
    for group in range(index.entity_bounds[subject], index.entity_bounds[subject + 1]):
        if begins[index.group_relation[group]]:
            return True
    return False


@compiled
def count_new(
    index: TemporalIndex, rules: CodedRules, parallel: npt.NDArray[np.bool_], relations: int
) -> Longs:
    """Pairs (subject, object) that each rule is the first of its head to predict.

    Args:
        index: the facts, all at time 0.
        rules: what to apply, in the order of each head; bodies of one fact or two.
        parallel: bool array of shape (n,), whether both facts of a body stand between the head's
            ends.
        relations: R; rules of inverse heads are not asked.

    Returns:
        int64 array of shape (m,), m the rules of the first R directed heads.
    """
    entities = len(index.entity_bounds) - 1
    reached, none = new_reached(entities), stairs(index, -1, 0, 0, False)
    seen = np.full(entities, -1, np.int64)
    counts = np.zeros(rules.bounds[relations], np.int64)
    begins = np.zeros(2 * relations, np.bool_)
    for head in range(relations):
        first, last = rules.bounds[head], rules.bounds[head + 1]
        begins[:] = False
        for rule in range(first, last):
            begins[rules.body[rule, 0]] = True
            if parallel[rule]:
                begins[rules.body[rule, 1]] = True
        for subject in range(entities if last > first else 0):
            if not _starts_here(index, begins, subject):
                continue
            mark = head * entities + subject
            for rule in range(first, last):
                body, link = rules.body[rule], rules.link[rule]
                if parallel[rule]:
                    reach_parallel(index, subject, body[0], body[1], reached)
                else:
                    reach(index, subject, 1, rules.length[rule], body, link, none, reached)
                for number in range(reached.size[0]):
                    entity = reached.entity[number]
                    reached.first[entity] = NEVER
                    if seen[entity] != mark:
                        seen[entity] = mark
                        counts[rule] += 1
                reached.size[0] = 0
    return counts
