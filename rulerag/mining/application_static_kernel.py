"""Compiled scoring of candidates by static rules: the best rules first, or noisy-or."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.mining.application_board import (
    Board,
    Doubles,
    compare,
    give,
    grown,
    new_board,
    noisy_or,
)
from rulerag.mining.application_rules import CodedRules
from rulerag.mining.application_stairs import find_group, stairs
from rulerag.mining.application_walks import NEVER, Reached, new_reached, reach
from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs, TemporalIndex

__all__ = ["apply_static_rules", "reach_parallel"]

Bools = npt.NDArray[np.bool_]


@compiled
def reach_parallel(
    index: TemporalIndex, subject: int, first: int, second: int, reached: Reached
) -> None:
    """The neighbours by both of two directed relations."""
    one, other = (
        find_group(index.entity_bounds, index.group_relation, subject, first),
        find_group(index.entity_bounds, index.group_relation, subject, second),
    )
    if one < 0 or other < 0:
        return
    left, right = index.group_bounds[one], index.group_bounds[other]
    while left < index.group_bounds[one + 1] and right < index.group_bounds[other + 1]:
        if index.pair_target[left] == index.pair_target[right]:
            entity = index.pair_target[left]
            reached.entity[reached.size[0]] = entity
            reached.first[entity] = 0
            reached.size[0] += 1
            left += 1
            right += 1
        elif index.pair_target[left] < index.pair_target[right]:
            left += 1
        else:
            right += 1


@compiled
def _places(board: Board) -> Ints:
    """Rows of the board from the worst to the best, by a merge sort of their score lists."""
    size = board.size[0]
    order, other = np.arange(size).astype(np.int32), np.zeros(size, np.int32)
    width = 1
    while width < size:
        for start in range(0, size, 2 * width):
            middle, end = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for place in range(start, end):
                if right >= end or (
                    left < middle and compare(board, order[left], order[right]) <= 0
                ):
                    other[place] = order[left]
                    left += 1
                else:
                    other[place] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order


@compiled
def _ties(board: Board) -> Ints:
    """For each row how many classes of candidates are worse."""
    order, tie = _places(board), np.zeros(board.size[0], np.int32)
    for place in range(1, len(order)):
        step = compare(board, order[place - 1], order[place]) != 0
        tie[order[place]] = tie[order[place - 1]] + step
    return tie


@compiled
def _empty(board: Board, best: bool, entity: Ints, score: Doubles, tie: Ints) -> None:
    """Write the candidates in ascending order of their ids, and forget them."""
    rows = board.size[0]
    ties = _ties(board) if best else np.zeros(rows, np.int32)
    order = np.argsort(board.entity[:rows])
    for place in range(rows):
        row = order[place]
        entity[place], tie[place] = board.entity[row], ties[row]
        score[place] = board.scores[row, 0] if best else noisy_or(board, row)
        board.slot[board.entity[row]] = -1


@compiled
def apply_static_rules(
    index: TemporalIndex,
    rules: CodedRules,
    parallel: Bools,
    subject: Ints,
    relation: Ints,
    best: bool,
) -> tuple[Longs, Ints, Doubles, Ints]:
    """Score the candidates of some queries.

    Args:
        index: the facts, all at time 0.
        rules: what to apply; bodies of one fact or two.
        parallel: bool array of shape (n,), whether both facts of a body stand between the head's
            ends.
        subject: int32 array of shape (q,), the known entities.
        relation: int32 array of shape (q,), directed relations.
        best: score by the largest confidence, ties broken by the next; else by noisy-or.

    Returns:
        Bounds, int64 array of shape (q + 1,); entities, scores and tie breakers for each query.
    """
    entities, directed = len(index.entity_bounds) - 1, len(rules.bounds) - 1
    depth = max(1, int(np.max(np.diff(rules.bounds)))) if directed else 1
    board, reached = new_board(entities, 1024, depth, 0), new_reached(entities)
    no_stairs = stairs(index, -1, 0, 0, False)
    bounds = np.zeros(len(subject) + 1, np.int64)
    found, tie = np.zeros(1 << 12, np.int32), np.zeros(1 << 12, np.int32)
    scores = np.zeros(1 << 12, np.float64)
    for query in range(len(subject)):
        known = subject[query]
        for rule in range(rules.bounds[relation[query]], rules.bounds[relation[query] + 1]):
            length, body, link = rules.length[rule], rules.body[rule], rules.link[rule]
            if parallel[rule]:
                reach_parallel(index, known, body[0], body[1], reached)
            else:
                reach(index, known, 1, length, body, link, no_stairs, reached)
            while board.size[0] + reached.size[0] > len(board.entity):
                board = grown(board)
            for number in range(reached.size[0]):
                give(board, reached.entity[number], np.float32(rules.confidence[rule]))
                reached.first[reached.entity[number]] = NEVER
            reached.size[0] = 0
        size = bounds[query]
        while size + board.size[0] > len(found):
            found, tie = np.concatenate((found, found)), np.concatenate((tie, tie))
            scores = np.concatenate((scores, scores))
        _empty(board, best, found[size:], scores[size:], tie[size:])
        bounds[query + 1] = size + board.size[0]
        board.size[:] = 0
    size = bounds[-1]
    return bounds, found[:size].copy(), scores[:size].copy(), tie[:size].copy()
