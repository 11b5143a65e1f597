"""Candidates by counts of facts: the most recent, the most frequent, the prior of the relation."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.candidates.base import FactScorer
from rulerag.candidates.facts import CorpusFacts
from rulerag.composition import register
from rulerag.types import Support


class _Counts(FactScorer):
    """Scores objects by the facts that name them: number and age."""

    recent = False

    def of_rows(self, rows: Longs, now: int) -> tuple[Longs, Doubles]:
        """The objects of some facts and their scores.

        By number, of equal ones the most recent first, or by recency, of equal ones the most
        frequent first: the second counts less than one of the first.
        """
        objects = self.facts.table.object[rows].astype(np.int64)
        found, where, counts = np.unique(objects, return_inverse=True, return_counts=True)
        latest = np.full(len(found), -1, np.int64)
        np.maximum.at(latest, where, self.facts.times[rows])
        age = np.maximum(now - latest, 0)
        if self.recent:
            return found, 1 / (1 + age + 1 / (1 + counts))
        return found, (counts + 0.5 / (1 + age)) / max(1, len(rows))

    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        """The latest fact that names the candidate, and how many there are."""
        rows = self._rows(relation, time, subject)
        rows = rows[self.facts.table.object[rows] == entity]
        if not len(rows):
            return ()
        named = self.facts.answer(relation, entity)
        why = f"{named} in {len(rows)} facts" if len(rows) > 1 else named
        return (self.reason(why, [int(rows[np.argmax(self.facts.times[rows])])]),)

    def _rows(self, relation: int, time: int, subject: int) -> Longs:
        rows = self.facts.rows_of(subject, relation)
        return rows[self.facts.times[rows] < time]


class _OfSubject(_Counts):
    """Counts the facts of the subject and the relation."""

    def candidates(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """See :meth:`FactScorer.candidates`."""
        answers, _ = self.facts.answers(relation, time)
        column = self._column
        column[answers] = np.arange(len(answers))
        score = np.zeros((len(subject), len(answers)))
        now = self.facts.now(time)
        for line, one in enumerate(subject.tolist()):
            found, values = self.of_rows(self._rows(relation, time, one), now)
            score[line, column[found]] = values
        return answers, score

    @cached_property
    def _column(self) -> Longs:
        return np.zeros(len(self.names), np.int64)


@register("scorer", "most-recent")
class MostRecent(_OfSubject):
    """The objects of the subject and the relation, the one stated last first.

    Of equally recent ones the more frequent comes first. The score of an object is
    ``1 / (1 + age + 1 / (1 + count))``, its age in units of the graph's time.

    Args:
        facts: the facts.
    """

    kind, recent = "most-recent", True

    def __init__(self, facts: CorpusFacts) -> None:
        super().__init__(facts)


@register("scorer", "most-frequent")
class MostFrequent(_OfSubject):
    """The objects of the subject and the relation by the number of their facts.

    Of equally frequent ones the more recent comes first. The score is the fraction of the facts.

    Args:
        facts: the facts.
    """

    kind = "most-frequent"

    def __init__(self, facts: CorpusFacts) -> None:
        super().__init__(facts)


@register("scorer", "relation-prior")
class RelationPrior(_Counts):
    """The objects of the relation by the number of its facts that name them, of any subject.

    Args:
        facts: the facts.
    """

    kind = "relation-prior"

    def __init__(self, facts: CorpusFacts) -> None:
        super().__init__(facts)

    def candidates(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """See :meth:`FactScorer.candidates`."""
        rows = self.facts.rows(relation, time)
        found, values = self.of_rows(rows, self.facts.now(time))
        return found, np.tile(values, (len(subject), 1))

    def _rows(self, relation: int, time: int, subject: int) -> Longs:
        del subject
        return self.facts.rows(relation, time)
