"""Conjunctive queries on facts: every way to make them true, and what that answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rulerag.kg.calendar import Calendar
from rulerag.kg.grounding.bindings import FactIndex, Row, join
from rulerag.kg.queries import ConjunctiveQuery, ends, in_order
from rulerag.rules import Atom
from rulerag.types import Fact


class ExtendedIndex(FactIndex):
    """Facts with some more that no document states.

    Args:
        index: the facts.
        more: further ones; they stand nowhere (row -1).
    """

    def __init__(self, index: FactIndex, more: Iterable[Fact]) -> None:
        super().__init__((-1, fact) for fact in more)
        self._stated = index

    def match(self, relation: str, subject: str | None, object_: str | None) -> Iterator[Row]:
        """As of any index, those of documents first."""
        yield from self._stated.match(relation, subject, object_)
        yield from super().match(relation, subject, object_)


class Solution(NamedTuple):
    """One way to make every atom true.

    Args:
        bound: what each variable stands for.
        rows: the fact behind each atom, in the order of the atoms.
    """

    bound: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def latest(self) -> int | None:
        """The latest time of its facts; None where none is dated."""
        return max((row.timestamp for row in self.rows if row.timestamp is not None), default=None)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What facts answer to a query.

    Args:
        query: what was asked.
        values: the answers as raw names, sorted; of ``time`` the times, of ``count`` the number,
            of ``yes or no`` either; empty where the facts do not say.
        solutions: the ways to make the atoms true that the answers rest on.
        instead: where the answer is no, the facts that say otherwise.
    """

    query: ConjunctiveQuery
    values: tuple[str | int, ...]
    solutions: tuple[Solution, ...] = ()
    instead: tuple[Row, ...] = ()

    @property
    def places(self) -> list[int]:
        """Where the facts stand that the answer rests on, each once, in order."""
        return self._places(self.solutions)

    def places_of(self, value: str | int) -> list[int]:
        """Where the facts stand that one of the values rests on."""
        if self.query.asks_time or self.query.form in ("count", "yes or no"):
            return self.places
        wanted = self.query.wanted
        return self._places([one for one in self.solutions if one.bound[wanted] == value])

    def _places(self, solutions: Sequence[Solution]) -> list[int]:
        rows = [row for one in solutions for row in one.rows] or list(self.instead)
        return list(dict.fromkeys(row.row for row in rows if row.row >= 0))


def solve(query: ConjunctiveQuery, index: FactIndex) -> Iterator[Solution]:
    """Every way to make the atoms of a query true by facts, in the order of the facts.

    Args:
        query: what is asked.
        index: the facts.
    """

    def fits(rows: Mapping[int, Row], number: int, row: Row) -> bool:
        return _within(row.timestamp, query.since, query.until)

    for terms, rows in join(query.atoms, list(in_order(query.atoms)), index, {}, fits):
        yield Solution({one: terms[one] for one in query.variables}, rows)


def execute(query: ConjunctiveQuery, index: FactIndex) -> QueryResult:
    """What facts answer to a query, exactly.

    "No" is an answer only where the facts state something else of the same name and relation: they
    are then taken to state all of it (the partial completeness assumption of AMIE, Galárraga et al.
    2013, section 4). Where they state nothing of it, they do not say.

    Args:
        query: what is asked.
        index: the facts.
    """
    found = [
        one for one in solve(query, index) if one.bound.get(query.wanted) not in query.excluded
    ]
    if query.form == "yes or no":
        instead = () if found else _instead(query, index)
        return QueryResult(
            query, ("yes",) if found else ("no",) * bool(instead), (*found,), instead
        )
    if query.form == "time":
        return QueryResult(query, tuple(sorted(set(_times(found)))), tuple(found))
    if query.form in ("first", "last"):
        dated = [(time, one) for one in found if (time := _time_of(query, one)) is not None]
        pick = min if query.form == "first" else max
        best = pick((time for time, _ in dated), default=None)
        found = [one for time, one in dated if time == best]
        if query.asks_time:
            return QueryResult(query, () if best is None else (best,), tuple(found))
    names = tuple(sorted({one.bound[query.wanted] for one in found}))
    if query.form == "count":
        return QueryResult(query, (len(names),) if names else (), tuple(found))
    return QueryResult(query, names, tuple(found))


def _time_of(query: ConjunctiveQuery, solution: Solution) -> int | None:
    """The latest time of the facts about what is wanted; of all facts where times are."""
    times = [
        row.timestamp
        for atom, row in zip(query.atoms, solution.rows, strict=True)
        if row.timestamp is not None and (not query.wanted or query.wanted in ends(atom))
    ]
    return max(times, default=None)


def known_end(atom: Atom, bound: Mapping[str, str]) -> tuple[str, bool]:
    """The known end of an atom, and whether it is the object.

    Args:
        atom: of a query.
        bound: what its variables stand for, as far as that is known.
    """
    values = [bound.get(term, "") if term.startswith("?") else term for term in ends(atom)]
    return (values[0], False) if values[0] else (values[1], True)


def values_in_words(
    result: QueryResult, labels: Mapping[str, str], calendar: Calendar | None = None
) -> list[str]:
    """The values of an answer in words.

    Args:
        result: what facts answer.
        labels: readable names of entities.
        calendar: how times read.
    """
    dated = calendar if result.query.asks_time else None
    return [
        dated.format(one) if dated and isinstance(one, int) else labels.get(str(one), str(one))
        for one in result.values
    ]


def _times(solutions: Sequence[Solution]) -> Iterator[int]:
    """The time of each solution: of its last atom that is dated, which is the one asked about."""
    for one in solutions:
        yield from [row.timestamp for row in one.rows if row.timestamp is not None][-1:]


def _instead(query: ConjunctiveQuery, index: FactIndex) -> tuple[Row, ...]:
    """Facts that say otherwise: with the object of one atom left open, the query has solutions."""
    for number, atom in enumerate(query.atoms):
        if query.wanted not in ends(atom):
            continue
        opened = ("?instead" if term == query.wanted else term for term in ends(atom))
        atoms = list(query.atoms)
        atoms[number] = Atom(atom.relation, *opened)
        other = ConjunctiveQuery(tuple(atoms), "?instead", "entities", query.since, query.until)
        return tuple(dict.fromkeys(one.rows[number] for one in solve(other, index)))
    return ()


def _within(time: int | None, since: int | None, until: int | None) -> bool:
    if time is None:
        return True
    return (since is None or time >= since) and (until is None or time <= until)
