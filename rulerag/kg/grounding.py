"""Bindings of a rule body from a bound subject: the one join behind support, retrieval, reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.errors import DataFormatError
from rulerag.kg.graph import FactTable
from rulerag.rules import Atom, Rule
from rulerag.types import Fact

__all__ = ["FactIndex", "Grounding", "Neighbours", "TableIndex", "body_order", "ground"]

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grounding:
    """One way to satisfy a rule's body from a bound subject.

    Args:
        answer: what the head's object is bound to.
        rows: the row of the fact behind each body atom, in body order.
        latest: the latest timestamp of these facts; None for undated facts.
    """

    answer: str
    rows: tuple[int, ...]
    latest: int | None


class Row(NamedTuple):
    """One fact met while grounding: its ends, its time and where it stands."""

    subject: str
    object: str
    timestamp: int | None
    row: int


class FactIndex:
    """Facts by (relation, subject) and (relation, object), for lists up to some thousands.

    Args:
        facts: the facts; their position is their row.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._by_subject: dict[tuple[str, str], list[Row]] = {}
        self._by_object: dict[tuple[str, str], list[Row]] = {}
        for number, fact in enumerate(facts):
            row = Row(fact.subject, fact.object, fact.timestamp, number)
            self._by_subject.setdefault((fact.relation, fact.subject), []).append(row)
            self._by_object.setdefault((fact.relation, fact.object), []).append(row)

    def match(self, relation: str, subject: str | None, object_: str | None) -> Iterator[Row]:
        """The facts of a relation with the given ends; at least one end must be given."""
        if subject is not None:
            for row in self._by_subject.get((relation, subject), ()):
                if object_ is None or row.object == object_:
                    yield row
        elif object_ is not None:
            yield from self._by_object.get((relation, object_), ())


class Neighbours(NamedTuple):
    """The facts around one entity, as columns of shape (n,).

    ``relation`` is the relation id where the entity is the subject, and the id plus the number
    of relations where it is the object; ``other`` is the fact's other end.
    """

    relation: Longs
    other: Longs
    timestamp: Longs | None
    row: Longs


class TableIndex:
    """Facts of a table by entity, as columns; serves tables of millions of rows.

    Args:
        facts: the table to index.
    """

    def __init__(self, facts: FactTable) -> None:
        self.facts = facts
        n = len(facts.relations)
        rows = np.arange(len(facts))
        anchor = np.concatenate([facts.subject, facts.object])
        order = np.argsort(anchor, kind="stable")
        self._bounds = np.searchsorted(anchor[order], np.arange(len(facts.entities) + 1))
        relation = facts.relation.astype(np.int64)
        self._relation = np.concatenate([relation, relation + n])[order]
        self._other = np.concatenate([facts.object, facts.subject]).astype(np.int64)[order]
        self._row = np.concatenate([rows, rows])[order]
        self._time = None
        if facts.timestamp is not None:
            self._time = np.concatenate([facts.timestamp, facts.timestamp]).astype(np.int64)[order]

    def neighbours(self, entity: int) -> Neighbours:
        """Every fact that the entity takes part in, seen from it (a loop is seen twice)."""
        part = slice(self._bounds[entity], self._bounds[entity + 1])
        time = None if self._time is None else self._time[part]
        return Neighbours(self._relation[part], self._other[part], time, self._row[part])

    @cached_property
    def _sorted(self) -> tuple[Longs, Longs, Longs, Longs | None]:
        """Codes ``(anchor * 2 R + relation) * N + other``, ascending, with other, row and time."""
        entities, directed = len(self.facts.entities), 2 * len(self.facts.relations)
        if directed * entities * entities >= 2**63:
            raise DataFormatError(
                f"{entities:,} entities and {directed // 2:,} relations are too many to join"
            )
        anchor = np.repeat(np.arange(entities), np.diff(self._bounds))
        codes = (anchor * directed + self._relation) * entities + self._other
        order = np.argsort(codes, kind="stable")
        time = None if self._time is None else self._time[order]
        return codes[order], self._other[order], self._row[order], time

    def spans(
        self, anchor: Longs, relation: Longs, other: Longs | None = None
    ) -> tuple[Longs, Longs]:
        """Where the facts around many entities stand, for :meth:`at`, before any is read.

        Args:
            anchor: int64 array of shape (n,), entities.
            relation: int64 array of shape (n,), directed relations seen from them.
            other: int64 array of shape (n,), what the other end must be; None allows every entity.

        Returns:
            Two int64 arrays of shape (n,): the first place, and how many facts stand there.
        """
        codes = self._sorted[0]
        entities = len(self.facts.entities)
        first = (anchor * (2 * len(self.facts.relations)) + relation) * entities
        last = first + entities if other is None else first + other + 1
        start = np.searchsorted(codes, first if other is None else first + other)
        return start, np.searchsorted(codes, last) - start

    def at(self, start: Longs, length: Longs) -> tuple[Longs, Longs, Longs, Longs | None]:
        """The facts of many spans.

        Args:
            start: int64 array of shape (n,), first places.
            length: int64 array of shape (n,), how many facts of each span to read.

        Returns:
            Four columns, one row a fact: which of the n spans, the other end, the fact's row and
            its timestamp (None for undated facts).
        """
        _, others, rows, times = self._sorted
        source = np.repeat(np.arange(len(start)), length)
        place = np.arange(len(source)) - np.repeat(np.cumsum(length) - length - start, length)
        time = None if times is None else times[place]
        return source, others[place], rows[place], time

    def match(self, relation: str, subject: str | None, object_: str | None) -> Iterator[Row]:
        """The facts of a relation with the given ends; at least one end must be given."""
        facts = self.facts
        anchor = subject if subject is not None else object_
        if anchor is None or anchor not in facts.entities or relation not in facts.relations:
            return
        around = self.neighbours(facts.entities.id(anchor))
        wanted = facts.relations.id(relation) + (0 if subject is not None else len(facts.relations))
        for i in np.flatnonzero(around.relation == wanted):
            fact = facts.fact(int(around.row[i]))
            if object_ is None or fact.object == object_:
                yield Row(fact.subject, fact.object, fact.timestamp, int(around.row[i]))


def ground(
    rule: Rule, subject: str, index: FactIndex | TableIndex, before: int | None = None
) -> list[Grounding]:
    """Every grounding of a rule's body whose head subject is bound, in the order of the facts.

    Two variables may be bound to the same entity. In a temporal rule the body facts follow one
    another without going back in time, and all lie strictly before ``before``.

    Args:
        rule: the rule; its body must be connected to the head's subject.
        subject: what the head's subject is bound to.
        index: the facts.
        before: the time asked about; None allows every time.
    """
    found: list[Grounding] = []
    order = body_order(rule)
    ground_rows: dict[int, Row] = {}

    def extend(step: int, bound: Mapping[str, str]) -> None:
        if step == len(order):
            rows = tuple(ground_rows[i].row for i in range(len(rule.body)))
            times = [r.timestamp for r in ground_rows.values() if r.timestamp is not None]
            answer = bound.get(rule.head.object)
            if answer is None and not rule.head.object.startswith("?"):
                answer = rule.head.object
            if answer is not None:
                found.append(Grounding(answer, rows, max(times) if times else None))
            return
        number = order[step]
        atom = rule.body[number]
        ends = _value(atom.subject, bound), _value(atom.object, bound)
        for row in index.match(atom.relation, *ends):
            # r(?x, ?x) matches loops only: one variable cannot stand for two entities.
            if atom.subject == atom.object and row.subject != row.object:
                continue
            if not _in_time(rule, ground_rows, number, row, before):
                continue
            ground_rows[number] = row
            extend(step + 1, {**bound, atom.subject: row.subject, atom.object: row.object})
            del ground_rows[number]

    start = {rule.head.subject: subject} if rule.head.subject.startswith("?") else {}
    if start or rule.head.subject == subject:
        extend(0, start)
    return found


def _value(term: str, bound: Mapping[str, str]) -> str | None:
    return bound.get(term) if term.startswith("?") else term


def body_order(rule: Rule) -> list[int]:
    """Body atoms in an order in which each shares a bound term with what came before.

    Atoms with nothing left to bind come as early as they can, and constants are followed only
    where no bound variable leads on: both keep joins small. Atoms that nothing leads to stay last.
    """
    bound = {rule.head.subject} if rule.head.subject.startswith("?") else set()
    left = list(range(len(rule.body)))
    order: list[int] = []
    while left:
        number = min(left, key=lambda i: _steps_off(rule.body[i], bound))
        left.remove(number)
        order.append(number)
        bound |= {rule.body[number].subject, rule.body[number].object}
    return order


def _steps_off(atom: Atom, bound: set[str]) -> int:
    """0 where both ends are known, 1 where a bound variable leads to the atom, 2 a constant."""
    ends = (atom.subject, atom.object)
    known = [end in bound or not end.startswith("?") for end in ends]
    if all(known):
        return 0
    if any(end in bound and end.startswith("?") for end in ends):
        return 1
    return 2 if any(known) else 3


def _in_time(
    rule: Rule, rows: Mapping[int, Row], number: int, row: Row, before: int | None
) -> bool:
    """Whether a fact keeps the body's time order and lies before the time asked about."""
    if row.timestamp is None:
        return True
    if before is not None and row.timestamp >= before:
        return False
    if not rule.temporal:
        return True
    for other, placed in rows.items():
        if placed.timestamp is None:
            continue
        if other < number and placed.timestamp > row.timestamp:
            return False
        if other > number and placed.timestamp < row.timestamp:
            return False
    return True
