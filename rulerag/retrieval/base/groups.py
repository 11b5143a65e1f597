"""Rows of columns in groups: which rows are alike, and the rank of each among those like it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Longs


def rank_in_group(group: Longs, *keys: npt.NDArray[np.generic]) -> Longs:
    """The rank (from 0) of each row inside its group, ordered by keys, then by position."""
    if not len(group):
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((np.arange(len(group)), *reversed(keys), group))
    sorted_group = group[order]
    starts = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]])
    sizes = np.diff(np.r_[starts, len(group)])
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.repeat(starts, sizes)
    return rank


def group_of(*columns: Longs) -> Longs:
    """A number for each row, the same for rows that are equal in every column."""
    group = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, values = np.unique(column, return_inverse=True)
        # Made small again after every column, so that the product cannot overflow.
        _, group = np.unique(group * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
    return group
