"""Exact counts of temporal rules with one body atom, by a join of sorted columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from rulerag.errors import MiningError
from rulerag.kg.graph import FactTable
from rulerag.mining.tlogic_index import Longs, distinct

__all__ = ["count_one_atom"]

# Rows of the join that are held at once: 4 M rows of three int64 columns are about 100 MB.
_CHUNK_ROWS = 4_000_000


def count_one_atom(facts: FactTable, *, progress: bool = False) -> tuple[Longs, Longs]:
    """Rule support of shape (2 R, R) and body support of shape (2 R,), over every fact.

    Row ``b`` is body relation ``b`` (or the inverse of ``b - R``), column the head relation.
    Support counts the distinct facts ``b(x, y, t)`` that the head follows at some later time.

    Raises:
        MiningError: the facts carry no timestamps, or their ids do not fit 64-bit codes.
    """
    n = len(facts.relations)
    code = _Code(facts)
    pair, relation, time = code.columns(inverse=False)
    body = np.bincount(relation, minlength=n).astype(np.int64)
    # The last time of every (pair, relation): the code sorts by pair, relation, then time.
    last = np.ones(len(pair), dtype=bool)
    last[:-1] = (pair[1:] != pair[:-1]) | (relation[1:] != relation[:-1])
    head = pair[last], relation[last], time[last]
    support = np.zeros((2, n * n), dtype=np.int64)
    for way, columns in enumerate(((pair, relation, time), None)):
        # Both sides are sorted by pair, so that the search runs through memory once.
        body_columns = columns if columns is not None else code.columns(inverse=True)
        words = "temporal rules" if way == 0 else "temporal rules, inverse"
        for key in _later(body_columns, head, n, words, progress):
            support[way] += np.bincount(key, minlength=n * n)
    return support.reshape(2 * n, n), np.concatenate([body, body])


class _Code:
    """The distinct facts as sorted 64-bit codes: pair of entities, relation, time."""

    def __init__(self, facts: FactTable) -> None:
        if facts.timestamp is None:
            raise MiningError(f"{facts.name} has no timestamps")
        self._entities = max(len(facts.entities), 1)
        self._relations = max(len(facts.relations), 1)
        self._moments = np.unique(facts.timestamp)
        self._span = max(len(self._moments), 1)
        if self._entities**2 * self._relations * self._span >= 2**63:
            raise MiningError(
                f"{self._entities:,} entities, {self._relations:,} relations and "
                f"{self._span:,} times are too many",
                hint="split the graph by time",
            )
        rank = np.searchsorted(self._moments, facts.timestamp)
        self._codes = distinct(self._packed(facts.subject, facts.object, facts.relation, rank))

    def _packed(self, *columns: Longs | np.ndarray[tuple[int], np.dtype[np.int32]]) -> Longs:
        subject, object_, relation, rank = columns
        code = subject.astype(np.int64)
        for column, size in (
            (object_, self._entities),
            (relation, self._relations),
            (rank, self._span),
        ):
            code *= size
            code += column
        return code

    def columns(self, *, inverse: bool) -> tuple[Longs, Longs, Longs]:
        """Pair, relation and time, sorted by pair; the pair of the inverse fact when asked for."""
        codes = self._codes
        if inverse:
            rest, rank = np.divmod(codes, self._span)
            rest, relation = np.divmod(rest, self._relations)
            subject, object_ = np.divmod(rest, self._entities)
            codes = self._packed(object_, subject, relation, rank)
            codes.sort()
        rest, rank = np.divmod(codes, self._span)
        pair, relation = np.divmod(rest, self._relations)
        return pair, relation, self._moments[rank].astype(np.int64)


def _later(
    body: tuple[Longs, Longs, Longs],
    head: tuple[Longs, Longs, Longs],
    relations: int,
    words: str,
    progress: bool,
) -> Iterator[Longs]:
    """Codes ``body relation * R + head relation`` of body facts that a head follows, in blocks."""
    start = np.searchsorted(head[0], body[0], side="left")
    count = np.searchsorted(head[0], body[0], side="right") - start
    chunks = list(_chunks(count))
    for rows in tqdm(chunks, words, disable=not progress, unit="chunk"):
        body_row, head_row = _expand(start[rows], count[rows])
        body_row += rows.start
        later = head[2][head_row] > body[2][body_row]
        yield body[1][body_row[later]] * relations + head[1][head_row[later]]


def _chunks(count: Longs) -> Iterator[slice]:
    """Slices of the body rows whose joins stay under the chunk size."""
    total = np.cumsum(count)
    begin = 0
    while begin < len(count):
        done = total[begin - 1] if begin else 0
        end = max(int(np.searchsorted(total, done + _CHUNK_ROWS, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def _expand(start: Longs, count: Longs) -> tuple[Longs, Longs]:
    """Row numbers on both sides of a join: left row i meets right rows start[i] + 0…count[i]-1."""
    left = np.repeat(np.arange(len(count)), count)
    first = np.cumsum(count) - count
    offset = np.arange(int(count.sum())) - np.repeat(first, count)
    return left, np.repeat(start, count) + offset
