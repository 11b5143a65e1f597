"""Answers from counts of the corpus's facts: the most recent, the most frequent, the prior.

Only what a system sees is counted, the facts of the documents that are no later than the question,
once for each document that states them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rulerag.types import Document, Query

_UNDATED = -1
DatedObject = tuple[int, str]
"""The time of a fact, :data:`_UNDATED` without one, and its object."""


class Ranked(NamedTuple):
    """A candidate; two of equal merit are tied but for the rule that orders ties."""

    name: str
    merit: tuple[int, int]


class CountedFacts:
    """The facts of a corpus, grouped to be counted.

    Args:
        corpus: the documents.
    """

    def __init__(self, corpus: Iterable[Document]) -> None:
        self._groups: defaultdict[tuple[str, str], list[DatedObject]] = defaultdict(list)
        self._ranked: dict[tuple[str, str, bool, int | None], list[tuple[int, str]]] = {}
        self.last = _UNDATED
        for fact in (fact for document in corpus for fact in document.facts):
            time = _UNDATED if fact.timestamp is None else fact.timestamp
            self.last = max(self.last, time)
            for key in ((fact.subject, fact.relation), (fact.subject, ""), ("", fact.relation)):
                self._groups[key].append((time, fact.object))

    @property
    def dated(self) -> bool:
        """Whether a fact has a time, without which none is the most recent."""
        return self.last > _UNDATED

    def objects(self, query: Query, subject: str, relation: str) -> set[str]:
        """The objects of the facts of a subject and a relation, as far as the query may know."""
        until = self._until(query)
        seen = self._groups.get((subject, relation), ())
        return {name for time, name in seen if until is None or time <= until}

    def ranked(
        self, query: Query, subject: str = "", relation: str = "", *, recent: bool = False
    ) -> list[tuple[int, str]]:
        """Merits and objects, best first, of the facts of a subject, of a relation, or of both.

        Ties: of equally frequent objects the one stated last comes first, of equally recent ones
        the one stated most often, then the first in the order of names.

        Args:
            query: whose time bounds the facts.
            subject: of the facts; any when empty.
            relation: of the facts; any when empty.
            recent: order by time, rather than by the number of facts.
        """
        key = (subject, relation, recent, self._until(query))
        if key not in self._ranked:
            self._ranked[key] = _order(self._groups.get(key[:2], ()), recent, key[3])
        return self._ranked[key]

    def _until(self, query: Query) -> int | None:
        """The last time that a query may know of; None where that is the whole corpus."""
        if query.timestamp is None or query.timestamp >= self.last:
            return None
        return query.timestamp


def _order(seen: Iterable[DatedObject], recent: bool, until: int | None) -> list[tuple[int, str]]:
    counts: dict[str, int] = {}
    latest: dict[str, int] = {}
    for time, name in seen:
        if until is None or time <= until:
            counts[name] = counts.get(name, 0) + 1
            latest[name] = max(time, latest.get(name, time))
    first, second = (latest, counts) if recent else (counts, latest)
    order = sorted(counts, key=lambda name: (-first[name], -second[name], name))
    return [(first[name], name) for name in order]


Candidates = Callable[[CountedFacts, Query], Iterator[Ranked]]


@dataclass(frozen=True)
class Baseline:
    """A way to answer without retrieval, rules or a model.

    Args:
        name: of its records.
        title: what tables call it.
        candidates: gives the candidates of a query, best first, each once.
        needs_time: whether it needs dated facts.
    """

    name: str
    title: str
    candidates: Candidates
    needs_time: bool = False


def _most_recent(facts: CountedFacts, query: Query) -> Iterator[Ranked]:
    for merit, name in facts.ranked(query, query.subject, query.relation, recent=True):
        yield Ranked(name, (0, merit))


def _most_frequent(facts: CountedFacts, query: Query) -> Iterator[Ranked]:
    given: set[str] = set()
    levels = ((query.subject, query.relation), (query.subject, ""), ("", query.relation))
    for level, (subject, relation) in enumerate(levels):
        for merit, name in facts.ranked(query, subject, relation):
            if name not in given:
                given.add(name)
                yield Ranked(name, (level, merit))


def _relation_prior(facts: CountedFacts, query: Query) -> Iterator[Ranked]:
    known = facts.objects(query, query.subject, query.relation)
    for merit, name in facts.ranked(query, relation=query.relation):
        if name not in known:
            yield Ranked(name, (0, merit))


BASELINES = (
    Baseline("most-recent", "no system: most recent object", _most_recent, needs_time=True),
    Baseline("most-frequent", "no system: most frequent object", _most_frequent),
    Baseline("relation-prior", "no system: relation prior", _relation_prior),
)
"""In the order of the tables."""


def best_and_tied(
    candidates: Iterator[Ranked], most: int, labels: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The labels of the best candidates, and of all that tie with the first of them.

    Args:
        candidates: best first.
        most: how many of the best.
        labels: readable labels of raw names.
    """
    best = list(itertools.islice(candidates, most))
    tied = [one for one in best if one.merit == best[0].merit]
    if len(tied) == len(best) == most:
        tied += itertools.takewhile(lambda one: one.merit == best[0].merit, candidates)
    shown, equal = ([labels.get(one.name, one.name) for one in few] for few in (best, tied))
    return shown, equal
