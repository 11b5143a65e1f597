"""Compiled scoring of candidates by rules: by noisy-or as TLogic, or by the best rules first.

Liu et al. 2022 (TLogic, arXiv:2112.08025), section 4.3: a rule gives each candidate that it reaches
``a * confidence + (1 - a) * exp(lambda * (latest first time - query time))``; a candidate's scores
are joined by noisy-or; rules are tried from the most confident on until the best candidates can be
told apart. On static graphs a is 1, and all rules are tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rulerag.arrays import Doubles, Floats, Ints, Longs
from rulerag.mining.indexes import NEVER, TemporalIndex
from rulerag.mining.paths import (
    CodedRules,
    Reached,
    frontier_of,
    new_reached,
    reach,
)
from rulerag.mining.runtime import compiled, doubled, int64


class ScoreTable(NamedTuple):
    """The candidates of one query with the scores that rules gave them, largest first.

    ``slot`` holds an entity's row (or -1), ``top`` the rows of the best candidates, best first,
    by their scores in lexicographic order; ``size`` holds the numbers of rows and of ``top``.
    """

    slot: Ints
    entity: Ints
    scores: Floats
    filled: Ints
    top: Ints
    size: Longs


@compiled
def _new_table(num_entities: int, depth: int, top_k: int) -> ScoreTable:
    """An empty table for so many scores a candidate, and best candidates to keep sorted."""
    rows = 1024
    return ScoreTable(
        np.full(num_entities, -1, np.int32),
        np.zeros(rows, np.int32),
        np.zeros((rows, depth), np.float32),
        np.zeros(rows, np.int32),
        np.zeros(top_k, np.int32),
        np.zeros(2, np.int64),
    )


@compiled
def _grown(table: ScoreTable) -> ScoreTable:
    """The same table with room for twice as many candidates."""
    rows, depth = table.scores.shape
    scores = np.zeros((2 * rows, depth), np.float32)
    for row in range(rows):
        for place in range(table.filled[row]):
            scores[row, place] = table.scores[row, place]
    entity, filled = doubled(table.entity), doubled(table.filled)
    return ScoreTable(table.slot, entity, scores, filled, table.top, table.size)


@compiled
def _compare(table: ScoreTable, one: int, other: int) -> int:
    """1, 0 or -1 as one candidate's scores are above, equal to or below the other's."""
    for place in range(min(table.filled[one], table.filled[other])):
        if table.scores[one, place] != table.scores[other, place]:
            return 1 if table.scores[one, place] > table.scores[other, place] else -1
    more = table.filled[one] - table.filled[other]
    return 1 if more > 0 else -1 if more < 0 else 0


@compiled
def _give(table: ScoreTable, entity: int, score: np.float32) -> int:
    """Add a score to a candidate, a new one if need be; return its row."""
    row = table.slot[entity]
    if row < 0:
        row = table.size[0]
        table.size[0] += 1
        table.slot[entity] = row
        table.entity[row] = entity
        table.filled[row] = 0
    place = table.filled[row]
    while place > 0 and table.scores[row, place - 1] < score:
        table.scores[row, place] = table.scores[row, place - 1]
        place -= 1
    table.scores[row, place] = score
    table.filled[row] += 1
    return int(row)


@compiled
def _noisy_or(table: ScoreTable, row: int) -> float:
    """One minus the product of what every score leaves open.

    The product is of single precision and the difference of double precision, as TLogic has it:
    which candidates tie depends on it.
    """
    miss = np.float32(1.0)
    for place in range(table.filled[row]):
        miss *= np.float32(1.0) - table.scores[row, place]
    return 1.0 - float(miss)


@compiled
def _rank(table: ScoreTable, row: int) -> None:
    """Keep ``top`` sorted after a candidate's scores have grown."""
    top, size = table.top, table.size[1]
    place = size
    for known in range(size):
        if top[known] == row:
            place = known
            break
    if place == size:
        if size < len(top):
            table.size[1] += 1
        elif _compare(table, row, top[size - 1]) > 0:
            place = size - 1
        else:
            return
    while place > 0 and _compare(table, row, top[place - 1]) > 0:
        top[place] = top[place - 1]
        place -= 1
    top[place] = row


@compiled
def _decided(table: ScoreTable) -> bool:
    """Whether there are enough candidates and the best ones can all be told apart."""
    if len(table.top) == 0 or table.size[1] < len(table.top):
        return False
    for place in range(1, len(table.top)):
        if _compare(table, table.top[place - 1], table.top[place]) == 0:
            return False
    return True


@compiled
def _fire(
    table: ScoreTable, reached: Reached, time: int, base: float, decay: float, weight: float
) -> ScoreTable:
    """Give every reached candidate the rule's score, and empty ``reached``."""
    while table.size[0] + reached.size[0] > len(table.entity):
        table = _grown(table)
    for number in range(reached.size[0]):
        entity = reached.entity[number]
        score = base
        if weight < 1.0:
            score += (1.0 - weight) * np.exp(decay * (reached.first[entity] - time))
        row = _give(table, entity, np.float32(score))
        if len(table.top):
            _rank(table, row)
        reached.first[entity] = NEVER
    reached.size[0] = 0
    return table


@compiled
def _ties(table: ScoreTable) -> Ints:
    """For each row how many classes of candidates are worse, by a merge sort of score lists."""
    size = table.size[0]
    order, other = np.zeros(size, np.int32), np.zeros(size, np.int32)
    for row in range(size):
        order[row] = row
    width = 1
    while width < size:
        for start in range(0, size, 2 * width):
            middle, end = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for place in range(start, end):
                if right >= end or (
                    left < middle and _compare(table, order[left], order[right]) <= 0
                ):
                    other[place] = order[left]
                    left += 1
                else:
                    other[place] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    tie = np.zeros(size, np.int32)
    for place in range(1, size):
        step = _compare(table, order[place - 1], order[place]) != 0
        tie[order[place]] = tie[order[place - 1]] + step
    return tie


@compiled
def _empty(
    table: ScoreTable, best: bool, start: int, entity: Ints, score: Doubles, tie: Ints
) -> None:
    """Write the candidates from a row on, and forget them."""
    rows = table.size[0]
    ties = _ties(table) if best else np.zeros(rows, np.int32)
    for row in range(rows):
        entity[start + row], tie[start + row] = table.entity[row], ties[row]
        score[start + row] = table.scores[row, 0] if best else _noisy_or(table, row)
        table.slot[table.entity[row]] = -1
    table.size[:] = 0


@compiled
def apply_rules(
    index: TemporalIndex,
    rules: CodedRules,
    decay: float,
    weight: float,
    top_k: int,
    best: bool,
    subject: Ints,
    relation: Ints,
    time: Ints,
) -> tuple[Longs, Ints, Doubles, Ints]:
    """Score the candidates of some queries.

    Args:
        index: the facts; of each query those before its time are used.
        rules: what to apply.
        decay: TLogic's lambda, for each unit of timestamps.
        weight: TLogic's a, the weight of the confidence.
        top_k: try further rules until so many best candidates differ; 0 tries all rules.
        best: score by the largest score, ties broken by the next; else by noisy-or.
        subject: int32 array of shape (q,), the known entities; equal ones next to each other.
        relation: int32 array of shape (q,), directed relations.
        time: int32 array of shape (q,), the times to predict.

    Returns:
        Bounds, int64 array of shape (q + 1,); entities, scores and tie breakers for each query.
    """
    entities, depth, frontiers = len(index.entity_bounds) - 1, int64(1), int64(0)
    for directed in range(len(rules.bounds) - 1):
        depth = max(depth, rules.bounds[directed + 1] - rules.bounds[directed])
    for number in rules.frontier:
        frontiers = max(frontiers, int64(number) + 1)
    table, reached = _new_table(entities, depth, top_k), new_reached(entities)
    # The frontiers of the present subject, the first of which is empty, and where they stand.
    known = [frontier_of(index, rules, int64(-1), int64(0))]
    slot, changes, subjects = np.zeros(frontiers, np.int64), np.full(frontiers, -1, np.int64), 0
    bounds = np.zeros(len(subject) + 1, np.int64)
    found, tie = np.zeros(1 << 12, np.int32), np.zeros(1 << 12, np.int32)
    scores = np.zeros(1 << 12, np.float64)
    for query in range(len(subject)):
        start, now = int64(subject[query]), int64(time[query])
        if query and subject[query] != subject[query - 1]:
            known = known[:1]
            subjects += 1
        for rule in range(rules.bounds[relation[query]], rules.bounds[relation[query] + 1]):
            number, place = rules.frontier[rule], int64(0)
            if number >= 0:
                if changes[number] != subjects:
                    changes[number], slot[number] = subjects, len(known)
                    known.append(frontier_of(index, rules, rule, start))
                place = slot[number]
            reach(index, rules, rule, start, now, known[place], reached)
            if reached.size[0]:
                base = weight * rules.confidence[rule]
                table = _fire(table, reached, now, base, decay, weight)
                if _decided(table):
                    break
        size = bounds[query] + table.size[0]
        while size > len(found):
            found, scores, tie = doubled(found), doubled(scores), doubled(tie)
        _empty(table, best, bounds[query], found, scores, tie)
        bounds[query + 1] = size
    size = bounds[-1]
    return bounds, found[:size].copy(), scores[:size].copy(), tie[:size].copy()
