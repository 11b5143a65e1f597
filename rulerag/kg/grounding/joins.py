"""Bindings of many rule bodies from one subject, as joins of sorted columns.

:func:`~rulerag.kg.grounding.ground` tries one fact after the other, which is right for the facts of
ten documents. Here every step of every rule is one lookup in the sorted facts of a whole graph, and
rules whose bodies have the same form take each step together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rulerag.arrays import Bools, Longs
from rulerag.composition import check_range
from rulerag.kg.grounding.bindings import body_order
from rulerag.kg.grounding.index import TableIndex
from rulerag.rules import Rule

MAX_ROWS = 200_000
"""Rows that a join may have by default: some 50 MB and a tenth of a second."""


@dataclass(frozen=True)
class GroundingTable:
    """Groundings as columns; row i is one way to satisfy one rule's body.

    Args:
        rule: int64 array of shape (n,), which rule, ascending.
        answer: int64 array of shape (n,), the entity that the head's object is bound to.
        rows: int64 array of shape (n, k), the row of the fact behind each body atom, in body
            order; k is the longest body, -1 fills shorter ones.
        latest: int64 array of shape (n,), the latest timestamp of these facts; None for undated
            facts.
        count: int64 array of shape (n,), how many groundings a row stands for: 1, but where a
            join was too large to be written out.
        is_complete: False where a join was too large even so, and groundings were left out.
    """

    rule: Longs
    answer: Longs
    rows: Longs
    latest: Longs | None
    count: Longs
    is_complete: bool = True

    def __len__(self) -> int:
        return len(self.rule)


class RulePlans:
    """Rules made ready for one graph: made once, grounded from many subjects.

    Rules that cannot be executed on the graph ground nothing; ``unusable`` says why. These are
    rules with relations or constants that no fact has, and rules whose body is not connected: an
    atom that nothing leads to from the head's subject would range over the whole graph.

    A hub may have millions of groundings. Where a step would make more than ``max_rows`` rows,
    rows that lead on from the same entities at the same times become one first: one of them is
    kept as an example, with their number. Answers and counts stay exact. Where that is not enough,
    the step takes the first facts of every rule, in turn, and the table says so.

    Args:
        rules: the rules; groundings name them by their place.
        index: the graph's facts.
        max_rows: rows of a join. A table has at most twice as many.

    Attributes:
        unusable: for the places of rules that cannot be executed, why.

    Raises:
        ConfigError: ``max_rows`` below 1.
    """

    def __init__(
        self, rules: Sequence[Rule], index: TableIndex, *, max_rows: int = MAX_ROWS
    ) -> None:
        check_range("max_rows", max_rows, 1)
        self.index = index
        self.max_rows = max_rows
        self.width = max((len(rule.body) for rule in rules), default=1)
        self.unusable: dict[int, str] = {}
        forms: dict[_Form, list[tuple[object, ...]]] = {}
        for number, rule in enumerate(rules):
            plan = _plan(rule, index)
            if isinstance(plan, str):
                self.unusable[number] = plan
            else:
                form, *columns = plan
                forms.setdefault(form, []).append((number, *columns))
        # Short bodies first: what a hub's long chains may take of the rows is what these leave.
        self._groups = [
            _Group(form, *(np.array(column, np.int64).T for column in zip(*same, strict=True)))
            for form, same in sorted(forms.items(), key=lambda item: len(item[0].steps))
        ]

    def ground(self, subject: str, before: int | None = None) -> GroundingTable:
        """Every grounding of every rule whose head subject is bound.

        Args:
            subject: what the head's subject is bound to.
            before: the time asked about; None allows every time.
        """
        facts = self.index.facts
        if subject not in facts.entities or not self._groups:
            return _table([], self.width, dated=facts.is_temporal)
        entity, tables = facts.entities.id(subject), []
        left, least = self.max_rows, max(self.max_rows // len(self._groups), 1)
        for group in self._groups:
            join = _Join(self.index, group, entity, before, max(left, least))
            tables.append(join.run(self.width))
            left -= len(tables[-1])
        return _table(tables, self.width, dated=facts.is_temporal)


def _table(tables: Sequence[GroundingTable], width: int, *, dated: bool) -> GroundingTable:
    """Several tables as one, rule by rule."""
    if len(tables) == 1:
        return tables[0]
    none = np.zeros(0, dtype=np.int64)
    rule = np.concatenate([none, *(table.rule for table in tables)])
    order = np.argsort(rule, kind="stable")
    latest = [table.latest for table in tables if table.latest is not None]
    return GroundingTable(
        rule[order],
        np.concatenate([none, *(table.answer for table in tables)])[order],
        np.concatenate([none.reshape(0, width), *(table.rows for table in tables)])[order],
        np.concatenate([none, *latest])[order] if dated else None,
        np.concatenate([none, *(table.count for table in tables)])[order],
        all(table.is_complete for table in tables),
    )


class _Step(NamedTuple):
    """One atom of a body, met from an end that is known already.

    Args:
        atom: its place in the body.
        anchor: the slot of the known end.
        other: the slot of the other end; None where it is bound here.
    """

    atom: int
    anchor: int
    other: int | None


class _Form(NamedTuple):
    """What rules that are joined together share. Slots of constants are negative, from -1 on.

    Args:
        steps: the body's atoms, in the order of the join.
        answer: the slot of the head's object.
        any_subject: whether the head's subject is a variable; it has slot 0 then.
        temporal: whether the body keeps a time order.
    """

    steps: tuple[_Step, ...]
    answer: int
    any_subject: bool
    temporal: bool

    def needed(self, number: int) -> list[int]:
        """The slots of variables that the steps from ``number`` on, or the answer, still read."""
        later = [slot for step in self.steps[number:] for slot in (step.anchor, step.other)]
        return sorted({slot for slot in (*later, self.answer) if slot is not None and slot >= 0})


class _Group(NamedTuple):
    """Rules of one form.

    Args:
        form: what they share.
        rule: int64 array of shape (g,), which rules.
        relation: int64 array of shape (steps, g), directed relation of each step.
        constants: int64 array of shape (k, g), the entities of slots -1 to -k.
        start: int64 array of shape (g,), what the subject must be; -1 where it is a variable.
    """

    form: _Form
    rule: Longs
    relation: Longs
    constants: Longs
    start: Longs


def _plan(rule: Rule, index: TableIndex) -> tuple[_Form, list[int], list[int], int] | str:
    """A rule's form and columns of its group, or why the graph or its form allows no join."""
    entities, relations = index.facts.entities, index.facts.relations
    start, result = rule.head.subject, rule.head.object
    slots: dict[str, int] = {}
    constants: list[int] = []

    def slot(term: str) -> int | None:
        if term.startswith("?"):
            return slots.get(term)
        constants.append(entities.id(term))
        return -len(constants)

    for term in {end for a in (rule.head, *rule.body) for end in (a.subject, a.object)}:
        if not term.startswith("?") and term not in entities:
            return f"no fact has the constant {term!r}"
    any_subject = start.startswith("?")
    if any_subject:
        slots[start] = 0
    steps, directed = [], []
    for place in body_order(rule):
        atom = rule.body[place]
        if atom.relation not in relations:
            return f"no fact has the relation {atom.relation!r}"
        ends = slot(atom.subject), slot(atom.object)
        turned = ends[0] is None
        anchor, other = reversed(ends) if turned else ends
        if anchor is None:
            return f"nothing leads from {start} to the body atom {place + 1}"
        steps.append(_Step(place, anchor, other))
        directed.append(relations.id(atom.relation) + len(relations) * turned)
        if other is None:
            slots[atom.subject if turned else atom.object] = len(slots)
    answer = slot(result)
    if answer is None:
        return f"the body does not have the head's object {result}"
    form = _Form(tuple(steps), answer, any_subject, rule.temporal)
    return form, directed, constants, -1 if any_subject else entities.id(start)


class _Join:
    """The join of one group from one subject: rows of bindings that grow atom by atom."""

    def __init__(
        self, index: TableIndex, group: _Group, subject: int, before: int | None, limit: int
    ) -> None:
        self._index = index
        self._group = group
        self._before = before
        self._limit = limit
        self._is_complete = True
        self._member = np.flatnonzero((group.start < 0) | (group.start == subject))
        self._count = np.ones(len(self._member), dtype=np.int64)
        full = np.full(len(self._member), subject, dtype=np.int64)
        self._slots = [full] if group.form.any_subject else []
        self._rows: dict[int, Longs] = {}
        self._times: dict[int, Longs] = {}

    def run(self, width: int) -> GroundingTable:
        """The groundings, the rows of their facts filled up to a width."""
        group, form = self._group, self._group.form
        for number, step in enumerate(form.steps):
            self._take(number, step)
        rows = np.full((len(self._member), width), -1, dtype=np.int64)
        for place, column in self._rows.items():
            rows[:, place] = column
        times, rule = list(self._times.values()), group.rule[self._member]
        latest = np.max(times, axis=0) if times else None
        answer = self._values(form.answer)
        return GroundingTable(rule, answer, rows, latest, self._count, self._is_complete)

    def _take(self, number: int, step: _Step) -> None:
        start, length = self._spans(number, step)
        if length.sum() > self._limit:
            self._keep(self._examples(number))
            start, length = self._spans(number, step)
        if length.sum() > self._limit:
            length = self._first_facts(length)
            self._is_complete = False
        source, other, row, time = self._index.at(start, length)
        if time is not None:
            keep = self._in_time(step.atom, source, time)
            source, other, row, time = source[keep], other[keep], row[keep], time[keep]
        self._keep(source)
        if step.other is None:
            self._slots.append(other)
        self._rows[step.atom] = row
        if time is not None:
            self._times[step.atom] = time

    def _spans(self, number: int, step: _Step) -> tuple[Longs, Longs]:
        """Where the facts stand that a step may take, for each row of bindings."""
        wanted = None if step.other is None else self._values(step.other)
        relation = self._group.relation[number, self._member]
        return self._index.spans(self._values(step.anchor), relation, wanted)

    def _values(self, slot: int) -> Longs:
        """What a slot holds, for each row of bindings."""
        return self._slots[slot] if slot >= 0 else self._group.constants[-1 - slot, self._member]

    def _keep(self, source: Longs) -> None:
        """Go on from some rows of bindings, in this order; a row may go on several times."""
        self._member = self._member[source]
        self._count = self._count[source]
        self._slots = [slot[source] for slot in self._slots]
        self._rows = {place: rows[source] for place, rows in self._rows.items()}
        self._times = {place: times[source] for place, times in self._times.items()}

    def _examples(self, number: int) -> Longs:
        """One row for those that the steps from ``number`` on cannot tell apart; counts them."""
        known = [slot for slot in self._group.form.needed(number) if slot < len(self._slots)]
        slots = [self._slots[slot] for slot in known]
        columns = [self._member, *slots, *self._times.values()]
        order = np.lexsort(columns)
        differs = np.zeros(len(order), dtype=np.bool_)
        differs[:1] = True
        for column in columns:
            differs[1:] |= np.diff(column[order]) != 0
        first = np.flatnonzero(differs)
        total = np.add.reduceat(self._count[order], first)
        example = order[first]
        self._count[example] = total
        return np.sort(example)

    def _first_facts(self, length: Longs) -> Longs:
        """Shorter spans, within the limit together: the rules' rows take their facts in turn."""
        starts = np.flatnonzero(np.diff(self._member, prepend=-1) != 0)
        sizes = np.diff(np.append(starts, len(self._member)))
        order = np.argsort(np.arange(len(length)) - np.repeat(starts, sizes), kind="stable")
        before = np.cumsum(length[order]) - length[order]
        kept = np.empty_like(length)
        kept[order] = np.clip(self._limit - before, 0, length[order])
        return kept

    def _in_time(self, atom: int, source: Longs, time: Longs) -> Bools:
        """Whether facts lie before the time asked about and keep the body's time order."""
        keep = np.ones(len(time), dtype=np.bool_)
        if self._before is not None:
            keep &= time < self._before
        if self._group.form.temporal:
            for place, times in self._times.items():
                keep &= times[source] <= time if place < atom else times[source] >= time
        return keep
