"""Bindings of a rule body from a bound subject: the one join behind support, retrieval, reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
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


def join(
    atoms: Sequence[Atom],
    order: Sequence[int],
    index: FactIndex,
    bound: Mapping[str, str],
    fits: Callable[[Mapping[int, Row], int, Row], bool],
) -> Iterator[tuple[Mapping[str, str], tuple[Row, ...]]]:
    """Every way to make atoms true: what their terms are bound to, and the fact behind each atom.

    Args:
        atoms: what has to hold.
        order: in which they are looked up; each shares a bound term with those before it.
        index: the facts.
        bound: what variables are bound to from the start.
        fits: whether a fact may stand for an atom, given the facts of the atoms before it.
    """
    rows: dict[int, Row] = {}

    def extend(step: int, bound: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        number = order[step]
        atom = atoms[number]
        for row in index.match(atom.relation, bound.get(atom.subject), bound.get(atom.object)):
            # r(?x, ?x) matches loops only: one variable cannot stand for two entities.
            if atom.subject == atom.object and row.subject != row.object:
                continue
            if fits(rows, number, row):
                rows[number] = row
                found = {**bound, atom.subject: row.subject, atom.object: row.object}
                if step + 1 < len(order):
                    yield from extend(step + 1, found)
                else:
                    yield found
                del rows[number]

    terms = (term for atom in atoms for term in (atom.subject, atom.object))
    names = {term: term for term in terms if not term.startswith("?")}
    for found in extend(0, names | dict(bound)):
        yield found, tuple(rows[number] for number in range(len(order)))


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
    start = {rule.head.subject: subject} if rule.head.subject.startswith("?") else {}
    if not start and rule.head.subject != subject:
        return []
    fits = partial(_in_time, rule, before)
    found, head = [], rule.head.object
    for bound, rows in join(rule.body, body_order(rule), index, start, fits):
        answer = bound.get(head, None if head.startswith("?") else head)
        if answer is not None:
            times = [row.timestamp for row in rows if row.timestamp is not None]
            places = tuple(row.row for row in rows)
            found.append(Grounding(rule, answer, places, max(times, default=None)))
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
    rule: Rule, before: int | None, rows: Mapping[int, Row], number: int, row: Row
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
