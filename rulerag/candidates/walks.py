"""Candidates by random walks from the subject to objects of the relation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from rulerag.arrays import Doubles, Longs
from rulerag.candidates.base import DECAY, FactScorer
from rulerag.candidates.facts import NO_TIME, CorpusFacts
from rulerag.composition import check_range, register
from rulerag.types import Support

_LONGEST = 3


class _Steps(NamedTuple):
    """Steps of walks.

    Args:
        ahead: the probability of each step, shape (entities, entities).
        back: its transpose.
        total: what the steps of an entity weighed together, shape (entities,).
    """

    ahead: sparse.csr_matrix
    back: sparse.csr_matrix
    total: Doubles


@register("scorer", "walks")
class Walks(FactScorer):
    """Objects of the relation by how likely a random walk from the subject ends at them.

    A walk goes along facts in either direction, each fact of an entity with equal probability
    (dated ones fade with age), a given number of steps. What no walk reaches is no candidate.

    Args:
        facts: the facts.
        steps: the length of the walks, 1 to 3.
        decay: fading of dated facts per time step, as in ``exp(-decay * age)``.
        time_step: the distance of two neighbouring times in timestamps.

    Raises:
        ConfigError: another length, or a negative decay.

    References:
        Lao and Cohen 2010 (path-constrained random walks), here without constraint.
    """

    kind = "walks"
    steps: int

    decay: float
    time_step: int

    def __init__(
        self, facts: CorpusFacts, *, steps: int = 2, decay: float = DECAY, time_step: int = 1
    ) -> None:
        check_range("steps", steps, 1, _LONGEST)
        check_range("decay", decay, 0)
        super().__init__(facts, steps=steps, decay=decay, time_step=time_step)

    @property
    def title(self) -> str:
        """What the scorer is called where it explains itself."""
        return f"{self.kind}-{self.steps}{self.fading(self.decay)}"

    def candidates(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """See :meth:`FactScorer.candidates`."""
        answers, _ = self.facts.answers(relation, time)
        step = self._steps(time).ahead
        reached = step[np.maximum(subject, 0)]
        for _ in range(self.steps - 2):
            reached = reached @ step
        if self.steps > 1:
            # Rows of the transpose are found faster than columns.
            score = (reached @ self._steps(time).back[answers].T).toarray()
        else:
            score = reached[:, answers].toarray()
        score[subject < 0] = 0
        return answers, score

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        """The shortest way, with facts of one entity that is on it for each step."""
        del relation
        way = self._way(time, subject, entity)
        if not way:
            return ()
        told = [self.facts.sentence(row) for row in way]
        return (self.reason("connected: " + "; ".join(told), way[::-1]),)

    def _way(self, time: int, subject: int, entity: int) -> list[int]:
        """The rows of one walk of the given length, the likeliest last step first found."""
        if subject < 0:
            return []
        step = self._steps(time).ahead
        ahead = self.last(self._ahead, time, subject)
        way: list[int] = []
        here = entity
        for number in range(self.steps - 1, -1, -1):
            # Facts lead both ways: those that lead to an entity are those that lead from it.
            part = slice(step.indptr[here], step.indptr[here + 1])
            near = step.indices[part]
            # From one of them a step leads here by its weight there over all that it has.
            back = ahead[number][near] * step.data[part] / self._steps(time).total[near]
            if not len(near) or not back.max() > 0:
                return []
            before = int(near[np.argmax(back)])
            way.append(self._between(time, before, here))
            here = before
        return way[::-1]

    def _ahead(self, time: int, subject: int) -> list[Doubles]:
        """The probabilities of where walks of each length are, arrays of shape (entities,)."""
        row = self._steps(time).ahead[[subject]]
        start = np.zeros(len(self.names))
        start[subject] = 1
        ahead = [start]
        for _ in range(self.steps - 1):
            ahead.append(np.asarray(row.todense(), dtype=np.float64).ravel())
            row = row @ self._steps(time).ahead if len(ahead) < self.steps else row
        return ahead

    def _between(self, time: int, one: int, other: int) -> int:
        """The latest fact that joins two entities."""
        rows = self.facts.around(one)
        subject, object_ = self.facts.table.subject[rows], self.facts.table.object[rows]
        fits = ((subject == one) & (object_ == other)) | ((subject == other) & (object_ == one))
        rows = rows[fits & (self.facts.times[rows] < time)]
        return int(rows[np.argmax(self.facts.times[rows])])

    def _steps(self, time: int) -> _Steps:
        """The steps before a time, kept for the last few times."""

        def made() -> _Steps:
            table = self.facts.table
            rows = np.arange(len(table))
            if time != NO_TIME:
                rows = np.flatnonzero(self.facts.times < time)
            subject, object_ = table.subject[rows], table.object[rows]
            ends = np.concatenate([subject, object_]), np.concatenate([object_, subject])
            size = len(self.names)
            weight = np.tile(self.facts.fresh(rows, time, self.decay / self.time_step), 2)
            step = sparse.csr_matrix((weight, ends), shape=(size, size))
            step.sum_duplicates()
            total = np.asarray(step.sum(axis=1)).ravel()
            step.data /= np.repeat(total, np.diff(step.indptr))
            return _Steps(step, step.T.tocsr(), total)

        return self.facts.remember(("walks", self.decay, self.time_step), time, made)
