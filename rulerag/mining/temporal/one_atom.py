"""Exact counts of temporal rules with one body atom, by a join of sorted columns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from tqdm import tqdm

from rulerag.arrays import Longs
from rulerag.kg import FactTable
from rulerag.mining.indexes import directed_facts, run_starts

# Rows of the join that are held at once: 4 M rows of three int64 columns are about 100 MB.
_CHUNK_ROWS = 4_000_000


def count_one_atom(facts: FactTable, *, progress: bool = False) -> tuple[Longs, Longs]:
    """Rule support of shape (2 R, R) and body support of shape (2 R,), over every fact.

    Row ``b`` is body relation ``b`` (or the inverse of ``b - R``), column the head relation.
    Support counts the distinct facts ``b(x, y, t)`` that the head follows at some later time.

    Raises:
        MiningError: the facts carry no timestamps, or their ids do not fit 64-bit codes.
    """
    relations = len(facts.relations)
    source, relation, target, time = directed_facts([facts], (0, 2, 1, 3))
    pair = np.cumsum(run_starts(source, target)) - 1
    # The last time of every (pair, head): rows are sorted by pair, relation, then time.
    last = np.append(run_starts(pair, relation)[1:], True) & (relation < relations)
    head_relation, head_time = relation[last], time[last]
    heads = np.bincount(pair[last], minlength=len(pair))
    # A body row meets the head rows from ``start`` to ``start + count``.
    start, count = (np.cumsum(heads) - heads)[pair], heads[pair]
    support = np.zeros(2 * relations * relations, dtype=np.int64)
    total = np.cumsum(count)
    first = start - total + count  # joined rows are numbered on from chunk to chunk
    cuts = np.searchsorted(total, np.arange(_CHUNK_ROWS, count.sum(), _CHUNK_ROWS)).tolist()
    chunks = list(pairwise([0, *cuts, len(count)]))
    for begin, end in tqdm(chunks, "temporal rules", disable=not progress, unit="chunk"):
        body_row = np.repeat(np.arange(begin, end), count[begin:end])
        done = total[begin] - count[begin] if end > begin else 0
        head_row = first[body_row] + np.arange(done, done + len(body_row))
        later = head_time[head_row] > time[body_row]
        keys = relation[body_row[later]] * np.int64(relations) + head_relation[head_row[later]]
        support += np.bincount(keys, minlength=len(support))
    body = np.bincount(relation, minlength=2 * relations)
    return support.reshape(2 * relations, relations), body
