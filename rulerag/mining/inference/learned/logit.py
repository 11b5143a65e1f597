"""A conditional logit over the answers of queries, learned in one pass through time; compiled.

McFadden 1974: the answer is one candidate among all, with odds ``exp(score)``, and the score is a
sum of weighted evidence. Weights follow the gradient of the log-likelihood with steps that shrink
as gradients add up (Duchi et al. 2011, AdaGrad).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Doubles, Ints, Longs
from rulerag.mining.inference.learned.features import (
    CLASSES,
    DENSE,
    Evidence,
    gather,
    new_evidence,
)
from rulerag.mining.inference.learned.history import History
from rulerag.mining.paths import CodedRules, new_reached
from rulerag.mining.runtime import compiled, doubled, int64

KNOWN = 3 * CLASSES
"""The place of the shared weight of any contact; those of dense numbers follow it."""
SHARED = KNOWN + 1 + DENSE


class Weights(NamedTuple):
    """What evidence is worth.

    Attributes:
        shared: float64 array of shape (SHARED,): of each class of contact by the asked relation,
            by its inverse, and by any; of any contact; and of the dense numbers.
        relation: float64 array of shape (2 R, DENSE), what each directed relation adds to them.
        rule: float64 array of shape (n, 4): of a rule that fires, of its recency, of its log
            frequency, and of its recent log frequency.
    """

    shared: Doubles
    relation: Doubles
    rule: Doubles


@compiled
def new_weights(directed: int, rules: int, value: float) -> Weights:
    """Weights that are all alike."""
    return Weights(
        np.full(SHARED, value), np.full((directed, DENSE), value), np.full((rules, 4), value)
    )


@compiled
def room_for(history: History, subject: Ints) -> int:
    """The most rules with one body atom that may fire for a query of these subjects."""
    graph, most = history.graph, 1
    for entity in subject:
        start, end = graph.entity_bounds[entity], graph.entity_bounds[entity + 1]
        most = max(most, graph.group_bounds[end] - graph.group_bounds[start])
    return most


@compiled
def _score(weights: Weights, relation: int, evidence: Evidence, score: Doubles) -> None:
    shared, own = weights.shared, weights.relation[relation]
    table, dense = evidence.table, evidence.dense
    for row in range(evidence.sizes[0]):
        value = 0.0
        if table[row, 2] >= 0:
            value += shared[KNOWN]
            for kind in range(3):
                if table[row, kind] >= 0:
                    value += shared[kind * CLASSES + table[row, kind]]
        for place in range(DENSE):
            value += (shared[KNOWN + 1 + place] + own[place]) * dense[row, place]
        score[row] = value
    for fired in range(evidence.sizes[1]):
        weight, curve = weights.rule[evidence.rule[fired]], evidence.curve[fired]
        value = weight[0] + weight[1] * curve[0] + weight[2] * curve[1] + weight[3] * curve[2]
        score[evidence.row[fired]] += value


@compiled
def _to_odds(score: Doubles, size: int) -> None:
    """Make scores probabilities."""
    highest, total = score[0], 0.0
    for row in range(size):
        highest = max(highest, score[row])
    for row in range(size):
        score[row] = math.exp(score[row] - highest)
        total += score[row]
    for row in range(size):
        score[row] /= total


@compiled
def _step(weight: Doubles, squares: Doubles, place: int, gradient: float, rate: float) -> None:
    squares[place] += gradient * gradient
    weight[place] -= rate * gradient / math.sqrt(squares[place])


@compiled
def _follow(
    weights: Weights,
    squares: Weights,
    relation: int,
    evidence: Evidence,
    gradient: Doubles,
    total: Doubles,
    rates: tuple[float, float, float],
) -> None:
    """One step of all weights that this query's evidence touches."""
    rate, fine_rate, shrinkage = rates
    table, dense = evidence.table, evidence.dense
    total[:] = 0.0
    for row in range(evidence.sizes[0]):
        value = gradient[row]
        if abs(value) < 1e-6:
            continue
        if table[row, 2] >= 0:
            total[KNOWN] += value
            for kind in range(3):
                if table[row, kind] >= 0:
                    total[kind * CLASSES + table[row, kind]] += value
        for place in range(DENSE):
            total[KNOWN + 1 + place] += value * dense[row, place]
    for place in range(SHARED):
        if total[place] != 0.0:
            _step(weights.shared, squares.shared, place, total[place], rate)
    own, own_squares = weights.relation[relation], squares.relation[relation]
    for place in range(DENSE):
        slope = total[KNOWN + 1 + place] + shrinkage * own[place]
        _step(own, own_squares, place, slope, fine_rate)
    for fired in range(evidence.sizes[1]):
        value = gradient[evidence.row[fired]]
        if abs(value) < 1e-4:
            continue
        weight, square = weights.rule[evidence.rule[fired]], squares.rule[evidence.rule[fired]]
        for place in range(4):
            slope = value if place == 0 else value * evidence.curve[fired, place - 1]
            slope += shrinkage * weight[place] * abs(value)
            _step(weight, square, place, slope, fine_rate)


@compiled
def learn(
    history: History,
    rules: CodedRules,
    weights: Weights,
    squares: Weights,
    subject: Ints,
    relation: Ints,
    time: Ints,
    answer_bounds: Longs,
    answer: Ints,
    rates: tuple[float, float, float],
) -> tuple[float, int]:
    """Follow the gradient of every query, in order.

    Args:
        history: the facts.
        rules: what may fire.
        weights: what to learn.
        squares: sums of squared gradients so far, positive.
        subject: int32 array of shape (q,), known entities.
        relation: int32 array of shape (q,), directed relations.
        time: int32 array of shape (q,), timestamps.
        answer_bounds: int64 array of shape (q + 1,), answers of each query.
        answer: int32 array, right answers.
        rates: steps of shared weights, of the weights of relations and rules, and how strongly
            the latter are drawn to zero.

    Returns:
        The summed loss of the answers among the candidates, before each step, and their number.
    """
    entities = len(history.graph.entity_bounds) - 1
    evidence = new_evidence(entities, room_for(history, subject))
    reached = new_reached(entities)
    single = np.full(len(rules.bounds) - 1, -1, np.int32)
    score, total = np.zeros(entities), np.zeros(SHARED)
    loss, learned = 0.0, 0
    for query in range(len(subject)):
        known, asked = int64(subject[query]), int64(relation[query])
        now = int64(time[query])
        gather(history, rules, single, known, asked, now, reached, evidence)
        found = 0
        for place in range(answer_bounds[query], answer_bounds[query + 1]):
            found += evidence.slot[answer[place]] >= 0
        if found == 0:
            continue
        _score(weights, asked, evidence, score)
        _to_odds(score, evidence.sizes[0])
        for place in range(answer_bounds[query], answer_bounds[query + 1]):
            row = evidence.slot[answer[place]]
            if row >= 0:
                loss -= math.log(max(score[row], 1e-300))
        learned += found
        for row in range(evidence.sizes[0]):
            score[row] *= found
        for place in range(answer_bounds[query], answer_bounds[query + 1]):
            row = evidence.slot[answer[place]]
            if row >= 0:
                score[row] -= 1.0
        _follow(weights, squares, asked, evidence, score, total, rates)
    return loss, learned


@compiled
def predict(
    history: History,
    rules: CodedRules,
    weights: Weights,
    subject: Ints,
    relation: Ints,
    time: Ints,
) -> tuple[Longs, Ints, Doubles, Ints]:
    """The candidates of some queries with their probabilities.

    Returns:
        Bounds, int64 array of shape (q + 1,); entities, probabilities, and zeros, since nothing
        breaks ties.
    """
    entities = len(history.graph.entity_bounds) - 1
    evidence = new_evidence(entities, room_for(history, subject))
    reached = new_reached(entities)
    single = np.full(len(rules.bounds) - 1, -1, np.int32)
    score = np.zeros(entities)
    bounds = np.zeros(len(subject) + 1, np.int64)
    found, scores = np.zeros(1 << 12, np.int32), np.zeros(1 << 12, np.float64)
    for query in range(len(subject)):
        known, asked = int64(subject[query]), int64(relation[query])
        now = int64(time[query])
        gather(history, rules, single, known, asked, now, reached, evidence)
        start, size = bounds[query], evidence.sizes[0]
        bounds[query + 1] = start + size
        if size == 0:
            continue
        _score(weights, asked, evidence, score)
        _to_odds(score, size)
        while start + size > len(found):
            found, scores = doubled(found), doubled(scores)
        for row in range(size):
            found[start + row], scores[start + row] = evidence.entity[row], score[row]
    size = bounds[-1]
    return bounds, found[:size].copy(), scores[:size].copy(), np.zeros(size, np.int32)
