"""Compiled evidence for the answers of a query: who was in touch, who answers, which rules fire.

Everything counts facts before the time of the query. How often and how lately things happened is
put into classes, or into numbers that fall with their age; what these are worth is learned.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Floats, Ints, Longs, Shorts
from rulerag.mining.indexes import NEVER, first_after
from rulerag.mining.inference.learned.history import (
    ACTIVE_SPAN,
    ANSWER_SPANS,
    PAIR_SPAN,
    History,
)
from rulerag.mining.paths import (
    CodedRules,
    Reached,
    frontier_of,
    reach,
)
from rulerag.mining.runtime import compiled

AGES = (1, 2, 3, 5, 7, 14, 30, 60, 120)
COUNTS = (1, 2, 4, 8, 16)
"""Upper ends of the classes of how many steps ago the last contact was, and of how often it was;
one class more stands beyond each."""
CLASSES = (len(AGES) + 1) * (len(COUNTS) + 1)
"""Classes of contact: of how lately, times of how often."""
DENSE = 11
"""Numbers for each candidate: how often it answered the relation lately, over a longer span, and
ever; how active it was lately and ever; and six summaries of the longer rules that reach it."""
RULE_SPAN = 15.0
CHAIN_SPAN = 10.0
"""Time steps in which the recency of a rule with one body atom, or with more, falls to 1/e."""
_CHAIN_DECAY = np.exp(-np.arange(1024) / CHAIN_SPAN)
_EVER_FEWER = 1e-300


class Evidence(NamedTuple):
    """What speaks for the candidates of one query.

    Attributes:
        slot: int32 array of shape (N,), the row of each entity, or -1.
        entity: int32 array of shape (N,), entities by row.
        table: int16 array of shape (N, 3), the class of contact between the known entity and each
            candidate by the asked relation, by its inverse, and by any relation; or -1.
        dense: float32 array of shape (N, DENSE).
        rule: int32 array of shape (e,), rules with one body atom that fire.
        row: int32 array of shape (e,), the candidates that they reach.
        curve: float32 array of shape (e, 3), recency, log frequency, log recent frequency.
        sizes: int64 array of shape (2,), candidates and fired rules.
    """

    slot: Ints
    entity: Ints
    table: Shorts
    dense: Floats
    rule: Ints
    row: Ints
    curve: Floats
    sizes: Longs


@compiled
def new_evidence(num_entities: int, room: int) -> Evidence:
    """No evidence yet, with room for so many fired rules."""
    return Evidence(
        np.full(num_entities, -1, np.int32),
        np.zeros(num_entities, np.int32),
        np.full((num_entities, 3), -1, np.int16),
        np.zeros((num_entities, DENSE), np.float32),
        np.zeros(room, np.int32),
        np.zeros(room, np.int32),
        np.zeros((room, 3), np.float32),
        np.zeros(2, np.int64),
    )


@compiled
def gather(
    history: History,
    rules: CodedRules,
    single: Ints,
    subject: int,
    relation: int,
    time: int,
    reached: Reached,
    evidence: Evidence,
) -> None:
    """Collect the evidence of one query; what the last one left is cleared.

    Args:
        history: the facts.
        rules: what may fire.
        single: int32 array of shape (2 R,), all -1: scratch.
        subject: the known entity.
        relation: the directed relation asked for.
        time: the time asked for.
        reached: scratch, empty.
        evidence: the result. Its room for rules has to be :func:`room_for` the subject or more.
    """
    for row in range(evidence.sizes[0]):
        evidence.slot[evidence.entity[row]] = -1
        evidence.table[row] = -1
        evidence.dense[row] = 0.0
    evidence.sizes[:] = 0
    _contacts(history, rules, single, subject, relation, time, evidence)
    _answers(history, relation, time, evidence)
    _longer_rules(history, rules, subject, relation, time, reached, evidence)
    _activity(history, time, evidence)


@compiled
def _class_of(age: int, count: int) -> int:
    """The class of contact, from the age of the last one in steps and from their number."""
    lately = len(AGES)
    for place, limit in enumerate(AGES):
        if age <= limit:
            lately = place
            break
    often = len(COUNTS)
    for place, limit in enumerate(COUNTS):
        if count <= limit:
            often = place
            break
    return lately * (len(COUNTS) + 1) + often


@compiled
def _row_of(slot: Ints, entity: Ints, sizes: Longs, wanted: int) -> int:
    row = slot[wanted]
    if row < 0:
        row = np.int32(sizes[0])
        slot[wanted], entity[row] = row, wanted
        sizes[0] += 1
    return int(row)


@compiled
def _contacts(
    history: History,
    rules: CodedRules,
    single: Ints,
    subject: int,
    relation: int,
    time: int,
    evidence: Evidence,
) -> None:
    """Classes of contact with the subject, and the rules with one body atom that they fire."""
    graph, step = history.graph, history.step
    times, bounds = graph.times, graph.pair_bounds
    half = graph.num_relations
    inverse = relation - half if relation >= half else relation + half
    first_rule, last_rule = rules.bounds[relation], rules.bounds[relation + 1]
    for rule in range(first_rule, last_rule):
        if rules.length[rule] == 1 and rules.link[rule, 1] == 1:
            single[rules.body[rule, 0]] = rule
    slot, entity, sizes = evidence.slot, evidence.entity, evidence.sizes
    # Contacts of any relation are summed up in the first two dense numbers, for now.
    age, count, fired = evidence.dense[:, 0], evidence.dense[:, 1], 0
    for group in range(graph.entity_bounds[subject], graph.entity_bounds[subject + 1]):
        by = graph.group_relation[group]
        for pair in range(graph.group_bounds[group], graph.group_bounds[group + 1]):
            end = first_after(times, bounds[pair], bounds[pair + 1], time - 1)
            number = end - bounds[pair]
            if number == 0:
                continue
            row = _row_of(slot, entity, sizes, graph.pair_target[pair])
            old = (time - times[end - 1]) / step
            if count[row] == 0 or old < age[row]:
                age[row] = old
            count[row] += number
            if by == relation:
                evidence.table[row, 0] = _class_of(old, number)
            if by == inverse:
                evidence.table[row, 1] = _class_of(old, number)
            if single[by] >= 0:
                evidence.rule[fired], evidence.row[fired] = single[by], row
                recent = history.pair_mass[end - 1] * math.exp(-old / PAIR_SPAN)
                evidence.curve[fired, 0] = math.exp(-old / RULE_SPAN)
                evidence.curve[fired, 1] = math.log1p(number)
                evidence.curve[fired, 2] = math.log1p(recent)
                fired += 1
    for row in range(sizes[0]):
        evidence.table[row, 2] = _class_of(age[row], count[row])
        age[row], count[row] = 0.0, 0.0
    for rule in range(first_rule, last_rule):
        single[rules.body[rule, 0]] = -1
    sizes[1] = fired


@compiled
def _answers(history: History, relation: int, time: int, evidence: Evidence) -> None:
    """Who answered the relation before, and how often."""
    times, step, graph = history.group_times, history.step, history.graph
    slot, entity, sizes = evidence.slot, evidence.entity, evidence.sizes
    for place in range(history.answer_bounds[relation], history.answer_bounds[relation + 1]):
        group = history.answer_group[place]
        start = graph.pair_bounds[graph.group_bounds[group]]
        stop = graph.pair_bounds[graph.group_bounds[group + 1]]
        end = first_after(times, start, stop, time - 1)
        if end > start:
            row = _row_of(slot, entity, sizes, history.answer_entity[place])
            old = (time - times[end - 1]) / step
            lately = history.group_lately[end - 1] * math.exp(-old / ANSWER_SPANS[0])
            longer = history.group_longer[end - 1] * math.exp(-old / ANSWER_SPANS[1])
            evidence.dense[row, 0] = math.log1p(lately)
            evidence.dense[row, 1] = math.log1p(longer)
            evidence.dense[row, 2] = math.log1p(end - start)


@compiled
def _longer_rules(
    history: History,
    rules: CodedRules,
    subject: int,
    relation: int,
    time: int,
    reached: Reached,
    evidence: Evidence,
) -> None:
    """Summaries of the rules with two and three body atoms that reach a candidate."""
    dense, slot = evidence.dense, evidence.slot
    step = history.step
    miss = np.ones(evidence.sizes[0])
    for rule in range(rules.bounds[relation], rules.bounds[relation + 1]):
        if rules.length[rule] == 1:
            continue
        frontier = frontier_of(history.graph, rules, rule, subject)
        reach(history.graph, rules, rule, subject, time, frontier, reached)
        sure = rules.confidence[rule]
        for number in range(reached.size[0]):
            entity = reached.entity[number]
            row = slot[entity]
            if row >= 0:
                age = (time - reached.first[entity]) // step
                lately = _CHAIN_DECAY[age] if age < len(_CHAIN_DECAY) else 0.0
                dense[row, 5] += sure * lately
                dense[row, 6] = max(dense[row, 6], 0.5 * (sure + lately))
                dense[row, 7] += sure
                dense[row, 8] += 1.0
                miss[row] = max(miss[row] * (1.0 - min(sure * lately, 0.95)), _EVER_FEWER)
                dense[row, 10] = max(dense[row, 10], lately)
            reached.first[entity] = NEVER
        reached.size[0] = 0
    for row in range(evidence.sizes[0]):
        dense[row, 5] = math.log1p(3.0 * dense[row, 5])
        dense[row, 7] = math.log1p(3.0 * dense[row, 7])
        dense[row, 8] = math.log1p(dense[row, 8])
        dense[row, 9] = -math.log(miss[row])


@compiled
def _activity(history: History, time: int, evidence: Evidence) -> None:
    """How active the candidates were in any facts."""
    times = history.active_times
    for row in range(evidence.sizes[0]):
        entity = evidence.entity[row]
        start, stop = history.active_bounds[entity], history.active_bounds[entity + 1]
        end = first_after(times, start, stop, time - 1)
        if end > start:
            old = (time - times[end - 1]) / history.step
            lately = history.active_mass[end - 1] * math.exp(-old / ACTIVE_SPAN)
            evidence.dense[row, 3] = math.log1p(lately)
            evidence.dense[row, 4] = math.log1p(end - start)
