"""Exact counts of temporal rules with one body atom, by a join of columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from rulerag.errors import MiningError
from rulerag.kg.graph import FactTable
from rulerag.mining.tlogic_index import Longs

__all__ = ["count_one_atom"]

# Rows of the join that are held at once: 4 M rows of three int64 columns are about 100 MB.
_CHUNK_ROWS = 4_000_000


def count_one_atom(facts: FactTable, *, progress: bool = False) -> tuple[Longs, Longs]:
    """Rule support of shape (2 R, R) and body support of shape (2 R,), over every fact.

    Row ``b`` is body relation ``b`` (or the inverse of ``b - R``), column the head relation.
    Support counts the distinct facts ``b(x, y, t)`` that the head follows at some later time.

    Raises:
        MiningError: the facts carry no timestamps.
    """
    n = len(facts.relations)
    rows = np.unique(_columns(facts), axis=0)
    subject, relation, object_, time = rows.T
    entities = np.int64(len(facts.entities))
    pair = subject * entities + object_
    head_pair, head_relation, head_last = _last_times(pair, relation, time)
    body_pair = np.concatenate([pair, object_ * entities + subject])
    body_relation = np.concatenate([relation, relation + n])
    body_time = np.concatenate([time, time])
    start = np.searchsorted(head_pair, body_pair, side="left")
    count = np.searchsorted(head_pair, body_pair, side="right") - start
    support = np.zeros(2 * n * n, dtype=np.int64)
    chunks = list(_chunks(count))
    for rows_here in tqdm(chunks, "temporal rules", disable=not progress, unit="chunk"):
        body_row, head_row = _expand(start[rows_here], count[rows_here])
        body_row += rows_here.start
        later = head_last[head_row] > body_time[body_row]
        code = body_relation[body_row[later]] * n + head_relation[head_row[later]]
        support += np.bincount(code, minlength=support.size)
    body = np.bincount(body_relation, minlength=2 * n).astype(np.int64)
    return support.reshape(2 * n, n), body


def _columns(facts: FactTable) -> Longs:
    if facts.timestamp is None:
        raise MiningError(f"{facts.name} has no timestamps")
    columns = (facts.subject, facts.relation, facts.object, facts.timestamp)
    return np.stack([c.astype(np.int64) for c in columns], axis=1)


def _last_times(pair: Longs, relation: Longs, time: Longs) -> tuple[Longs, Longs, Longs]:
    """The last time of every (pair, relation), sorted by pair: three columns of equal length."""
    order = np.lexsort((time, relation, pair))
    pair, relation, time = pair[order], relation[order], time[order]
    last = np.ones(len(pair), dtype=bool)
    last[:-1] = (pair[1:] != pair[:-1]) | (relation[1:] != relation[:-1])
    return pair[last], relation[last], time[last]


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
