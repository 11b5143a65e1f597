"""Compiled scoring of candidates by temporal rules, as TLogic does.

Liu et al. 2022 (arXiv:2112.08025), section 4.3: a rule gives each candidate that it reaches
``a * confidence + (1 - a) * exp(lambda * (latest first time - query time))``; a candidate's scores
are joined by noisy-or; rules are tried from the most confident on until the best candidates can be
told apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.mining.application_walks import (
    NEVER,
    Reached,
    Staircases,
    new_reached,
    reach,
    stairs,
    uses_stairs,
)
from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs, TemporalIndex

__all__ = ["CodedRules", "Floats", "apply_rules"]

Floats = npt.NDArray[np.float32]


class CodedRules(NamedTuple):
    """Rules by the directed relation that they predict, in the order in which they are tried.

    Attributes:
        bounds: int64 array of shape (2 R + 1,), rules of each directed relation.
        length: int32 array of shape (n,), facts of the body.
        body: int32 array of shape (n, 3), directed relations, in time order.
        link: int32 array of shape (n, 4), for each place of the walk the first place that holds
            the same entity.
        confidence: float64 array of shape (n,).
    """

    bounds: Longs
    length: Ints
    body: Ints
    link: Ints
    confidence: npt.NDArray[np.float32]


class _Board(NamedTuple):
    """The candidates of one query with the scores that rules gave them, largest first.

    ``slot`` tells an entity's row (or -1), ``top`` the rows of the best candidates, best first,
    by their scores in lexicographic order; ``count`` holds the numbers of rows and of ``top``.
    """

    slot: Ints
    entity: Ints
    scores: Floats
    filled: Ints
    top: Ints
    count: Longs


@compiled
def _new_board(num_entities: int, rows: int, depth: int, top_k: int) -> _Board:
    return _Board(
        np.full(num_entities, -1, np.int32),
        np.zeros(rows, np.int32),
        np.zeros((rows, depth), np.float32),
        np.zeros(rows, np.int32),
        np.zeros(top_k, np.int32),
        np.zeros(2, np.int64),
    )


@compiled
def _grown(board: _Board) -> _Board:
    rows, depth = board.scores.shape
    entity, filled = np.zeros(2 * rows, np.int32), np.zeros(2 * rows, np.int32)
    scores = np.zeros((2 * rows, depth), np.float32)
    entity[:rows], filled[:rows], scores[:rows] = board.entity, board.filled, board.scores
    return _Board(board.slot, entity, scores, filled, board.top, board.count)


@compiled
def _compare(board: _Board, one: int, other: int) -> int:
    """1, 0 or -1 as one candidate's scores are above, equal to or below the other's."""
    for place in range(min(board.filled[one], board.filled[other])):
        if board.scores[one, place] != board.scores[other, place]:
            return 1 if board.scores[one, place] > board.scores[other, place] else -1
    return int(np.sign(board.filled[one] - board.filled[other]))


@compiled
def _give(board: _Board, entity: int, score: np.float32) -> int:
    """Add a score to a candidate, a new one if need be; return its row."""
    row = board.slot[entity]
    if row < 0:
        row = board.count[0]
        board.count[0] += 1
        board.slot[entity] = row
        board.entity[row] = entity
        board.filled[row] = 0
    place = board.filled[row]
    while place > 0 and board.scores[row, place - 1] < score:
        board.scores[row, place] = board.scores[row, place - 1]
        place -= 1
    board.scores[row, place] = score
    board.filled[row] += 1
    return int(row)


@compiled
def _rank(board: _Board, row: int) -> None:
    """Keep ``top`` sorted after a candidate's scores have grown."""
    top, size = board.top, board.count[1]
    place = size
    for known in range(size):
        if top[known] == row:
            place = known
            break
    if place == size:
        if size < len(top):
            board.count[1] += 1
        elif _compare(board, row, top[size - 1]) > 0:
            place = size - 1
        else:
            return
    while place > 0 and _compare(board, row, top[place - 1]) > 0:
        top[place] = top[place - 1]
        place -= 1
    top[place] = row


@compiled
def _decided(board: _Board) -> bool:
    """Whether there are enough candidates and the best ones can all be told apart."""
    if len(board.top) == 0 or board.count[1] < len(board.top):
        return False
    for place in range(1, len(board.top)):
        if _compare(board, board.top[place - 1], board.top[place]) == 0:
            return False
    return True


@compiled
def _fire(
    board: _Board, reached: Reached, time: int, base: float, decay: float, weight: float
) -> _Board:
    """Give every reached candidate the rule's score, and empty ``reached``."""
    while board.count[0] + reached.count[0] > len(board.entity):
        board = _grown(board)
    for number in range(reached.count[0]):
        entity = reached.entity[number]
        recency = np.exp(decay * (reached.first[entity] - time))
        row = _give(board, entity, np.float32(base + (1.0 - weight) * recency))
        if len(board.top):
            _rank(board, row)
        reached.first[entity] = NEVER
    reached.count[0] = 0
    return board


@compiled
def _noisy_or(board: _Board, row: int) -> float:
    miss = np.float32(1.0)
    for place in range(board.filled[row]):
        miss *= np.float32(1.0) - board.scores[row, place]
    return 1.0 - float(miss)


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
) -> tuple[Longs, Ints, Floats]:
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
    depth = int(np.max(np.diff(rules.bounds))) if directed else 0
    board, reached = _new_board(entities, 1024, depth, top_k), new_reached(entities)
    known = [stairs(index, 0, 0, 0)]
    slot = np.zeros((directed, directed), np.int32)
    bounds = np.zeros(len(subject) + 1, np.int64)
    found, scores = np.zeros(1 << 16, np.int32), np.zeros(1 << 16, np.float64)
    for query in range(len(subject)):
        if query and subject[query] != subject[query - 1]:
            slot[:] = 0
            known = known[:1]
        for rule in range(rules.bounds[relation[query]], rules.bounds[relation[query] + 1]):
            body, link = rules.body[rule], rules.link[rule]
            step = known[0]
            if uses_stairs(rules.length[rule], link):
                if slot[body[0], body[1]] == 0:
                    slot[body[0], body[1]] = len(known)
                    known.append(stairs(index, subject[query], body[0], body[1]))
                step = known[slot[body[0], body[1]]]
            reach(
                index,
                subject[query],
                time[query],
                rules.length[rule],
                body,
                link,
                step,
                reached,
            )
            if reached.count[0]:
                base = weight * rules.confidence[rule]
                board = _fire(board, reached, time[query], base, decay, weight)
                if _decided(board):
                    break
        size = bounds[query]
        while size + board.count[0] > len(found):
            found = np.concatenate((found, found))
            scores = np.concatenate((scores, scores))
        for row in range(board.count[0]):
            found[size + row], scores[size + row] = board.entity[row], _noisy_or(board, row)
            board.slot[board.entity[row]] = -1
        bounds[query + 1] = size + board.count[0]
        board.count[:] = 0
    return bounds, found[: bounds[-1]].copy(), scores[: bounds[-1]].copy()
