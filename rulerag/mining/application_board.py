"""The candidates of one query and the scores that rules gave them; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.mining.jit import compiled
from rulerag.mining.tlogic_index import Ints, Longs

__all__ = ["Board", "Doubles", "compare", "give", "grown", "new_board", "noisy_or"]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class Board(NamedTuple):
    """The candidates of one query with the scores that rules gave them, largest first.

    ``slot`` tells an entity's row (or -1), ``top`` the rows of the best candidates, best first,
    by their scores in lexicographic order; ``size`` holds the numbers of rows and of ``top``.
    """

    slot: Ints
    entity: Ints
    scores: Floats
    filled: Ints
    top: Ints
    size: Longs


@compiled
def new_board(num_entities: int, rows: int, depth: int, top_k: int) -> Board:
    """An empty board for so many candidates, scores each, and best candidates to keep sorted."""
    return Board(
        np.full(num_entities, -1, np.int32),
        np.zeros(rows, np.int32),
        np.zeros((rows, depth), np.float32),
        np.zeros(rows, np.int32),
        np.zeros(top_k, np.int32),
        np.zeros(2, np.int64),
    )


@compiled
def grown(board: Board) -> Board:
    """The same board with room for twice as many candidates."""
    rows, depth = board.scores.shape
    entity, filled = np.zeros(2 * rows, np.int32), np.zeros(2 * rows, np.int32)
    scores = np.zeros((2 * rows, depth), np.float32)
    entity[:rows], filled[:rows], scores[:rows] = board.entity, board.filled, board.scores
    return Board(board.slot, entity, scores, filled, board.top, board.size)


@compiled
def compare(board: Board, one: int, other: int) -> int:
    """1, 0 or -1 as one candidate's scores are above, equal to or below the other's."""
    for place in range(min(board.filled[one], board.filled[other])):
        if board.scores[one, place] != board.scores[other, place]:
            return 1 if board.scores[one, place] > board.scores[other, place] else -1
    return int(np.sign(board.filled[one] - board.filled[other]))


@compiled
def give(board: Board, entity: int, score: np.float32) -> int:
    """Add a score to a candidate, a new one if need be; return its row."""
    row = board.slot[entity]
    if row < 0:
        row = board.size[0]
        board.size[0] += 1
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
def noisy_or(board: Board, row: int) -> float:
    """One minus the product of what every score leaves open.

    The product is of single precision and the difference of double precision, as TLogic has it:
    which candidates tie depends on it.
    """
    miss = np.float32(1.0)
    for place in range(board.filled[row]):
        miss *= np.float32(1.0) - board.scores[row, place]
    return 1.0 - float(miss)
