"""What every scorer over facts shares: questions in groups, ties, what is stated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from rulerag.arrays import Doubles, Longs
from rulerag.candidates.facts import INVERSE, CorpusFacts
from rulerag.io import fingerprint_object
from rulerag.protocols import CandidateScorer, ScoredCandidates
from rulerag.types import Query, Support

T = TypeVar("T")

DECAY = 0.01
"""How dated facts fade per time step where no setting says so."""

# Questions of one relation that are scored at once, fewer where it has many facts, so that
# matrices of questions and facts stay within some 64 MB.
_BATCH, _ENTRIES = 256, 2**24
# A relation in which fewer facts than this lead back to their subject has it by accident.
_LOOPS = 0.05


@runtime_checkable
class Movable(Protocol):
    """A scorer that can be made again over other facts, which learning needs."""

    def over(self, facts: CorpusFacts) -> CandidateScorer:
        """The same scorer over other facts."""
        ...


class FactScorer(ABC):
    """Scores the candidate answers of questions from the facts of a corpus.

    Candidates are ordered by score; of equal ones, the entity that is more often an object of the
    relation comes first, then the first in the order of names. Of a prediction on undated facts,
    what the facts state already is no candidate (the filtered setting of link prediction, Bordes
    et al. 2013), and the subject is one only where a twentieth of the relation's facts are loops.
    Facts from the question's time or later do not count.

    Args:
        facts: the facts.
        settings: every setting that changes scores, by its name.
    """

    def __init__(self, facts: CorpusFacts, **settings: Any) -> None:
        self.facts = facts
        self._settings = settings
        for name, value in settings.items():
            setattr(self, name, value)

    @property
    def names(self) -> Sequence[str]:
        """The names of entities by id."""
        return self.facts.names

    @property
    def title(self) -> str:
        """What the scorer is called where it explains itself."""
        told = "-".join(str(value) for value in self._settings.values() if value is not None)
        return f"{self.kind}-{told}" if told else self.kind

    def fading(self, decay: float) -> str:
        """What tells apart, in titles, scorers of dated facts that differ in their decay."""
        return f"-fading-{decay:g}" if self.facts.is_dated and decay != DECAY else ""

    kind = "facts"

    @cached_property
    def fingerprint(self) -> str:
        """Names the facts and every setting that changes scores."""
        return fingerprint_object([self.kind, self.facts.fingerprint, self._settings])

    def over(self, facts: CorpusFacts) -> Self:
        """The same scorer over other facts."""
        return type(self)(facts, **self._settings)

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        """Return, for each query, its candidates, best first; none for an unknown relation."""
        nothing = np.zeros(0, np.int64), np.zeros(0)
        found: list[ScoredCandidates] = [
            ScoredCandidates(self.names, *nothing, _no_support) for _ in queries
        ]
        marked = np.zeros(len(self.names), bool)
        for relation, time, places, subject in self._groups(queries):
            entity, score = self.candidates(relation, time, subject)
            order = self._tie_order(relation, time, entity)
            if order is not None:
                entity, score = entity[order], score[:, order]
            loops = self._has_loops(relation)
            for line, place in enumerate(places.tolist()):
                values = np.array(score[line], dtype=np.float64)
                if not loops:
                    values[entity == subject[line]] = 0
                if queries[place].prediction and not self.facts.is_dated:
                    stated = self.facts.table.object[
                        self.facts.rows_of(int(subject[line]), relation)
                    ]
                    marked[stated] = True
                    values[marked[entity]] = 0
                    marked[stated] = False
                able = np.flatnonzero(values > 0)
                best = able[np.argsort(-values[able], kind="stable")]
                found[place] = ScoredCandidates(
                    self.names,
                    entity[best],
                    values[best],
                    partial(self.support, relation, time, int(subject[line])),
                )
        return found

    @abstractmethod
    def candidates(self, relation: int, time: int, subject: Longs) -> tuple[Longs, Doubles]:
        """Scores of the candidates of questions of one relation and time.

        Args:
            relation: its id.
            time: facts before it count; see :meth:`CorpusFacts.coded`.
            subject: the subjects, shape (b,), -1 for unknown ones.

        Returns:
            Distinct entities, shape (m,), and scores of shape (b, m); 0 for no candidate.
        """

    @abstractmethod
    def support(self, relation: int, time: int, subject: int, entity: int) -> tuple[Support, ...]:
        """What speaks for a candidate, the strongest first."""

    def last(self, what: Callable[..., T], *question: int) -> T:
        """What was made of the last question, which is asked of one candidate after the other."""
        known = self._last.get(what.__name__)
        if known is None or known[0] != question:
            known = self._last[what.__name__] = question, what(*question)
        found: T = known[1]
        return found

    @cached_property
    def _last(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {}

    def reason(self, why: str, rows: Sequence[int]) -> Support:
        """A reason with its facts and the documents that state them."""
        facts = tuple(self.facts.fact(row) for row in rows)
        documents = dict.fromkeys(self.facts.document(row).id for row in rows)
        return Support(self.title, why, facts, tuple(documents))

    def _groups(self, queries: Sequence[Query]) -> Iterator[tuple[int, int, Longs, Longs]]:
        """Relation, time, places and subjects of questions that are scored at once."""
        subject, relation, time = self._coded(queries)
        order = np.lexsort((subject, time, relation))
        order = order[relation[order] >= 0]
        if not len(order):
            return
        keys = np.stack([relation[order], time[order]], axis=1)
        starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)][: len(order)])
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            facts = len(self.facts.rows(int(relation[order[start]])))
            size = min(_BATCH, max(1, _ENTRIES // max(1, facts)))
            for cut in range(start, end, size):
                places = order[cut : min(cut + size, end)]
                yield int(relation[places[0]]), int(time[places[0]]), places, subject[places]

    def _coded(self, queries: Sequence[Query]) -> tuple[Longs, Longs, Longs]:
        """Subject, relation and time of queries, see :meth:`CorpusFacts.coded`."""
        return self.facts.coded(queries)

    def _tie_order(self, relation: int, time: int, entity: Longs) -> Longs | None:
        """The order that breaks ties; None where entities have it."""
        answers, counts = self.facts.answers(relation, time)
        if len(entity) == len(answers) and (entity is answers or (entity == answers).all()):
            return None
        often = np.zeros(len(self.names))
        often[answers] = counts
        return np.lexsort((self.facts.name_rank[entity], -often[entity]))

    def _has_loops(self, relation: int) -> bool:
        known = self._loops.get(relation)
        if known is None:
            rows = self.facts.rows(relation)
            table = self.facts.table
            loops = table.subject[rows] == table.object[rows]
            known = self._loops[relation] = bool(len(rows)) and float(loops.mean()) >= _LOOPS
        return known

    @cached_property
    def _loops(self) -> dict[int, bool]:
        return {}


def _no_support(entity: int) -> tuple[Support, ...]:
    del entity
    return ()


class RememberedScorer:
    """What a scorer found for the last questions.

    A retriever and a reader ask the same ones. Questions for the subject of a relation
    (``^relation``) are asked of the same scorer over facts with swapped ends; one that cannot be
    made over other facts has no candidates for them.

    Args:
        scorer: the scorer.
        most: how many questions are remembered.
    """

    def __init__(self, scorer: CandidateScorer, *, most: int = 2048) -> None:
        self.scorer: CandidateScorer = scorer
        self._most = most
        self._known: dict[tuple[object, ...], ScoredCandidates] = {}

    @property
    def fingerprint(self) -> str:
        """That of the scorer."""
        return self.scorer.fingerprint

    @property
    def names(self) -> Sequence[str]:
        """The names of entities by id."""
        return self.scorer.names

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        """Return, for each query, its candidates, best first."""
        keys = [_key(query) for query in queries]
        missing = {
            key: query for key, query in zip(keys, queries, strict=True) if key not in self._known
        }
        fresh: dict[tuple[object, ...], ScoredCandidates] = {}
        for back in (False, True):
            asked = {k: q for k, q in missing.items() if q.relation.startswith(INVERSE) is back}
            if asked:
                scorer = self._backward if back else self.scorer
                fresh |= dict(zip(asked, scorer.score(list(asked.values())), strict=True))
        found = [fresh[key] if key in fresh else self._known[key] for key in keys]
        if len(self._known) + len(fresh) > self._most:
            self._known.clear()
        self._known.update(list(fresh.items())[-self._most :])
        return found

    @cached_property
    def _backward(self) -> CandidateScorer:
        facts = getattr(self.scorer, "facts", None)
        if not isinstance(facts, CorpusFacts) or not isinstance(self.scorer, Movable):
            return self.scorer
        return self.scorer.over(facts.reversed)


def _key(query: Query) -> tuple[object, ...]:
    """What scores may hang on: all but the id and the gold answers."""
    return query.text, query.subject, query.relation, query.timestamp, query.prediction
