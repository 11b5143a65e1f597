"""Bindings of a rule body from a bound subject: the one join behind support, retrieval, reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from rulerag.kg.corpus import stated_facts
from rulerag.rules import Atom, Rule
from rulerag.types import Fact, GenerationRequest, Grounding, Groundings


class Row(NamedTuple):
    """One fact met while grounding: its ends, its time and where it stands."""

    subject: str
    object: str
    timestamp: int | None
    row: int


class FactIndex:
    """Facts by (relation, subject) and (relation, object), for lists up to some thousands.

    Args:
        facts: each with its row: its place among them, or that of the document that states it.
    """

    def __init__(self, facts: Iterable[tuple[int, Fact]]) -> None:
        self._facts = list(facts)

    @cached_property
    def _by_subject(self) -> dict[str, dict[str, list[Row]]]:
        return self._by_end(0)

    @cached_property
    def _by_object(self) -> dict[str, dict[str, list[Row]]]:
        """Made when first asked, which few questions do."""
        return self._by_end(1)

    def _by_end(self, end: int) -> dict[str, dict[str, list[Row]]]:
        """The facts by relation, then by subject (0) or object (1)."""
        found: dict[str, dict[str, list[Row]]] = {}
        for row, (subject, relation, object_, time) in self._facts:
            rows = found.setdefault(relation, {}).setdefault((subject, object_)[end], [])
            rows.append(Row(subject, object_, time, row))
        return found

    def subjects(self, relation: str) -> Iterable[str]:
        """The subjects of a relation's facts, each once."""
        return self._by_subject.get(relation, {})

    def objects(self, relation: str) -> Iterable[str]:
        """The objects of a relation's facts, each once."""
        return self._by_object.get(relation, {})

    def match(self, relation: str, subject: str | None, object_: str | None) -> Iterator[Row]:
        """The facts of a relation with the given ends; at least one end must be given."""
        if subject is not None:
            for row in self._by_subject.get(relation, {}).get(subject, ()):
                if object_ is None or row.object == object_:
                    yield row
        elif object_ is not None:
            yield from self._by_object.get(relation, {}).get(object_, ())


def ground(
    rule: Rule, subject: str, index: FactIndex, before: int | None = None
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
                found.append(Grounding(rule, answer, rows, max(times) if times else None))
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


def groundings_of(request: GenerationRequest) -> Groundings:
    """Every grounding of a request's rules on the facts of its documents, before its query's time.

    Those that the request carries are taken where they are of its query, documents and rules.

    Args:
        request: names what is known, the rules, and the subject.
    """
    query, documents, rules = request.query, request.documents, request.rules
    if request.groundings is not None and request.groundings[:3] == (query, documents, rules):
        return request.groundings
    index = FactIndex(stated_facts(documents))
    return Groundings(
        query,
        documents,
        rules,
        tuple(
            grounding
            for rule in rules
            if all(index.subjects(atom.relation) for atom in rule.body)
            for grounding in ground(rule, query.subject, index, query.timestamp)
        ),
    )


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
