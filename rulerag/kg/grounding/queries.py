"""Conjunctive queries on facts: every way to make them true, and what that answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rulerag.kg.grounding.bindings import FactIndex, Row
from rulerag.queries import ConjunctiveQuery, ends, in_order
from rulerag.rules import Atom


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
        rows = [row for one in self.solutions for row in one.rows] or list(self.instead)
        return list(dict.fromkeys(row.row for row in rows))


def solve(query: ConjunctiveQuery, index: FactIndex) -> Iterator[Solution]:
    """Every way to make the atoms of a query true by facts, in the order of the facts.

    Args:
        query: what is asked.
        index: the facts.
    """
    order = list(in_order(query.atoms))
    rows: dict[int, Row] = {}

    def extend(step: int, bound: dict[str, str]) -> Iterator[Solution]:
        if step == len(order):
            yield Solution(bound, tuple(rows[n] for n in range(len(order))))
            return
        number = order[step]
        atom = query.atoms[number]
        known = [bound.get(term) if term.startswith("?") else term for term in ends(atom)]
        for row in index.match(atom.relation, known[0], known[1]):
            if atom.subject == atom.object and row.subject != row.object:
                continue
            if not _within(row.timestamp, query.since, query.until):
                continue
            rows[number] = row
            found = dict(zip(ends(atom), (row.subject, row.object), strict=True))
            yield from extend(step + 1, bound | {k: v for k, v in found.items() if k[0] == "?"})

    return extend(0, {})


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
        dated = [(one.latest, one) for one in found if one.latest is not None]
        pick = min if query.form == "first" else max
        best = pick((time for time, _ in dated), default=None)
        found = [one for time, one in dated if time == best]
    names = tuple(sorted({one.bound[query.wanted] for one in found}))
    if query.form == "count":
        return QueryResult(query, (len(names),) if names else (), tuple(found))
    return QueryResult(query, names, tuple(found))


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
