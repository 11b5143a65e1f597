"""Groundings of one query as columns, and their places among one another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.kg.evidence import noisy_or_exponents

__all__ = ["Hits", "group_of", "place_in_group"]

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Hits(NamedTuple):
    """Groundings of one query as columns of shape (n,): one row is one fact of one grounding.

    Args:
        answer: entity ids.
        row: the fact's row.
        time: the latest time of the grounding.
        weight: the weight of the grounding.
        rule: which rule.
        atom: the body atom that the fact grounds.
        grounding: which grounding.
        lead: whether the fact names the answer; one row of each grounding does.
        ways: how many groundings this one stands for.
    """

    answer: Longs
    row: Longs
    time: Longs
    weight: Floats
    rule: Longs
    atom: Longs
    grounding: Longs
    lead: npt.NDArray[np.bool_]
    ways: Longs

    @classmethod
    def none(cls) -> Hits:
        """No groundings."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, none.astype(np.float64), none, none, none, none > 0, none)

    def take(self, keep: npt.NDArray[np.bool_]) -> Hits:
        """The rows where ``keep`` is true."""
        return Hits._make(column[keep] for column in self)

    def join(self, other: Hits) -> Hits:
        """The rows of both; the groundings of the other are numbered on."""
        moved = other._replace(grounding=other.grounding + len(self.grounding))
        return Hits._make(np.concatenate(pair) for pair in zip(self, moved, strict=True))

    def place(self, group: Longs, *keys: npt.NDArray[np.generic]) -> Longs:
        """The place of each row's grounding among those of its group, ordered by keys."""
        lead = np.flatnonzero(self.lead)
        place = np.zeros(int(self.grounding.max(initial=-1)) + 1, dtype=np.int64)
        among = place_in_group(group[lead], *(key[lead] for key in keys))
        place[self.grounding[lead]] = among
        return place[self.grounding]

    def evidence(self) -> tuple[Longs, Floats]:
        """The group of each row's answer, and for each group the sum of ``-log(1 - w)``."""
        _, group = np.unique(self.answer, return_inverse=True)
        lead = self.lead
        exponents = noisy_or_exponents(self.weight[lead]) * self.ways[lead]
        return group.astype(np.int64), np.bincount(group[lead], exponents).astype(np.float64)


def place_in_group(group: Longs, *keys: npt.NDArray[np.generic]) -> Longs:
    """The place (from 0) of each row inside its group, ordered by keys, then by position."""
    if not len(group):
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((np.arange(len(group)), *reversed(keys), group))
    sorted_group = group[order]
    starts = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]])
    sizes = np.diff(np.r_[starts, len(group)])
    place = np.empty(len(group), dtype=np.int64)
    place[order] = np.arange(len(group)) - np.repeat(starts, sizes)
    return place


def group_of(*columns: Longs) -> Longs:
    """A number for each row, the same for rows that are equal in every column."""
    group = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, values = np.unique(column, return_inverse=True)
        # Made small again after every column, so that the product cannot overflow.
        _, group = np.unique(group * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
    return group
