"""Compiled scoring of candidates by temporal rules, as TLogic does.

Liu et al. 2022 (arXiv:2112.08025), section 4.3: a rule gives each candidate that it reaches
``a * confidence + (1 - a) * exp(lambda * (latest first time - query time))``; a candidate's scores
are joined by noisy-or; rules are tried from the most confident on until the best candidates can be
told apart.
"""

from __future__ import annotations

import numpy as np

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
from rulerag.mining.application_stairs import stairs
from rulerag.mining.application_walks import NEVER, Reached, new_reached, reach, uses_stairs
from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs, TemporalIndex

__all__ = ["apply_rules"]


@compiled
def _rank(board: Board, row: int) -> None:
    """Keep ``top`` sorted after a candidate's scores have grown."""
    top, size = board.top, board.size[1]
    place = size
    for known in range(size):
        if top[known] == row:
            place = known
            break
    if place == size:
        if size < len(top):
            board.size[1] += 1
        elif compare(board, row, top[size - 1]) > 0:
            place = size - 1
        else:
            return
    while place > 0 and compare(board, row, top[place - 1]) > 0:
        top[place] = top[place - 1]
        place -= 1
    top[place] = row


@compiled
def _decided(board: Board) -> bool:
    """Whether there are enough candidates and the best ones can all be told apart."""
    if len(board.top) == 0 or board.size[1] < len(board.top):
        return False
    for place in range(1, len(board.top)):
        if compare(board, board.top[place - 1], board.top[place]) == 0:
            return False
    return True


@compiled
def _fire(
    board: Board, reached: Reached, time: int, base: float, decay: float, weight: float
) -> Board:
    """Give every reached candidate the rule's score, and empty ``reached``."""
    while board.size[0] + reached.size[0] > len(board.entity):
        board = grown(board)
    for number in range(reached.size[0]):
        entity = reached.entity[number]
        recency = np.exp(decay * (reached.first[entity] - time))
        row = give(board, entity, np.float32(base + (1.0 - weight) * recency))
        if len(board.top):
            _rank(board, row)
        reached.first[entity] = NEVER
    reached.size[0] = 0
    return board


@compiled
def _empty(board: Board, entity: Ints, score: Doubles) -> None:
    """Write the candidates in ascending order of their ids, and forget them."""
    rows = board.size[0]
    order = np.argsort(board.entity[:rows])
    for place in range(rows):
        entity[place] = board.entity[order[place]]
        score[place] = noisy_or(board, order[place])
        board.slot[entity[place]] = -1


@compiled
def apply_rules(
    index: TemporalIndex,
    rules: CodedRules,
    subject: Ints,
    relation: Ints,
    time: Ints,
    decay: float,
    weight: float,
    top_k: int,
) -> tuple[Longs, Ints, Doubles]:
    """Score the candidates of some queries.

    Args:
        index: the facts; of each query those before its time are used.
        rules: what to apply.
        subject: int32 array of shape (q,), the known entities; equal ones next to each other.
        relation: int32 array of shape (q,), directed relations.
        time: int32 array of shape (q,), the times to predict.
        decay: TLogic's lambda, for each unit of timestamps.
        weight: TLogic's a, the weight of the confidence.
        top_k: try further rules until so many best candidates differ; 0 tries all rules.

    Returns:
        Bounds, int64 array of shape (q + 1,); entities and their scores for each query.
    """
    entities, directed = len(index.entity_bounds) - 1, len(rules.bounds) - 1
    depth = max(1, int(np.max(np.diff(rules.bounds)))) if directed else 1
    board, reached = new_board(entities, 1024, depth, top_k), new_reached(entities)
    known, slots = [stairs(index, -1, 0, 0, False)], {np.int64(-1): np.int64(0)}
    bounds = np.zeros(len(subject) + 1, np.int64)
    found, scores = np.zeros(1 << 12, np.int32), np.zeros(1 << 12, np.float64)
    for query in range(len(subject)):
        if query and subject[query] != subject[query - 1]:
            known = known[:1]
            slots.clear()
        for rule in range(rules.bounds[relation[query]], rules.bounds[relation[query] + 1]):
            length, body, link = rules.length[rule], rules.body[rule], rules.link[rule]
            step = known[0]
            if uses_stairs(length, link):
                home = link[2] == 0
                code = (np.int64(body[0]) * directed + body[1]) * 2 + home
                if code not in slots:
                    slots[code] = np.int64(len(known))
                    known.append(stairs(index, subject[query], body[0], body[1], home))
                step = known[slots[code]]
            reach(index, subject[query], time[query], length, body, link, step, reached)
            if reached.size[0]:
                base = weight * rules.confidence[rule]
                board = _fire(board, reached, time[query], base, decay, weight)
                if _decided(board):
                    break
        size = bounds[query]
        while size + board.size[0] > len(found):
            found = np.concatenate((found, found))
            scores = np.concatenate((scores, scores))
        _empty(board, found[size:], scores[size:])
        bounds[query + 1] = size + board.size[0]
        board.size[:] = 0
    return bounds, found[: bounds[-1]].copy(), scores[: bounds[-1]].copy()
