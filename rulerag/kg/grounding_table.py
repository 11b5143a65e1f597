"""Bindings of many rule bodies from one subject, as joins of sorted columns.

:func:`~rulerag.kg.grounding.ground` tries one fact after the other, which is right for the facts of
ten documents. Here every step of every rule is one lookup in the sorted facts of a whole graph, and
rules whose bodies have the same form take each step together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.kg.grounding import body_order

if TYPE_CHECKING:
    from rulerag.kg.grounding import TableIndex
    from rulerag.rules import Rule

__all__ = ["GroundingTable", "RulePlans", "ground_table"]

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


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
    """

    rule: Longs
    answer: Longs
    rows: Longs
    latest: Longs | None

    def __len__(self) -> int:
        return len(self.rule)


class _Step(NamedTuple):
    """One atom of a body, met from an end that is bound already.

    Args:
        atom: its place in the body.
        anchor: the slot of the bound end; -1 for a constant.
        other: the slot of the other end; -1 for a constant, -2 where it is bound here.
    """

    atom: int
    anchor: int
    other: int


@dataclass(frozen=True)
class _Group:
    """Rules whose bodies have the same form.

    Args:
        steps: the atoms, in the order of the join.
        answer: the slot of the head's object; -1 for a constant.
        temporal: whether the body keeps a time order.
        rule: int64 array of shape (g,), which rules.
        relation: int64 array of shape (steps, g), directed relation of each step.
        anchor: int64 array of shape (steps, g), the constant at a step's bound end; -1: a slot.
        other: int64 array of shape (steps, g), the constant at its other end; -1: a slot.
        start: int64 array of shape (g,), what the subject must be; -1 where it is a variable.
        result: int64 array of shape (g,), the constant answer; -1 where it is a variable.
    """

    steps: tuple[_Step, ...]
    answer: int
    temporal: bool
    rule: Longs
    relation: Longs
    anchor: Longs
    other: Longs
    start: Longs
    result: Longs


class RulePlans:
    """Rules made ready for one graph: made once, grounded from many subjects.

    Rules that speak of relations or constants which the graph lacks ground nothing.

    Args:
        rules: the rules; groundings name them by their place.
        index: the graph's facts.
    """

    def __init__(self, rules: Sequence[Rule], index: TableIndex) -> None:
        self.index = index
        self.width = max((len(rule.body) for rule in rules), default=0)
        forms: dict[tuple[object, ...], list[_Plan]] = {}
        for number, rule in enumerate(rules):
            plan = _plan(number, rule, index)
            if plan is not None:
                form = (plan.steps, plan.answer, plan.start < 0, rule.temporal)
                forms.setdefault(form, []).append(plan)
        self._groups = [_group(plans) for plans in forms.values()]

    def ground(self, subject: str, before: int | None = None) -> GroundingTable:
        """Every grounding of every rule whose head subject is bound.

        Args:
            subject: what the head's subject is bound to.
            before: the time asked about; None allows every time.
        """
        facts = self.index.facts
        tables = []
        if subject in facts.entities:
            entity = facts.entities.id(subject)
            tables = [_Join(self.index, group, entity, before).run() for group in self._groups]
        rule = np.concatenate([np.zeros(0, np.int64), *(t.rule for t in tables)])
        answer = np.concatenate([np.zeros(0, np.int64), *(t.answer for t in tables)])
        rows = np.full((len(rule), self.width), -1, dtype=np.int64)
        at = 0
        for table in tables:
            rows[at : at + len(table), : table.rows.shape[1]] = table.rows
            at += len(table)
        latest = None
        if facts.timestamp is not None:
            latest = np.concatenate([np.zeros(0, np.int64), *(_times(t) for t in tables)])
        order = np.argsort(rule, kind="stable")
        return GroundingTable(
            rule[order], answer[order], rows[order], None if latest is None else latest[order]
        )


def ground_table(
    rules: Sequence[Rule], subject: str, index: TableIndex, before: int | None = None
) -> GroundingTable:
    """Every grounding of many rules' bodies whose head subject is bound, as columns.

    The same groundings as :func:`~rulerag.kg.grounding.ground` finds rule by rule. For many
    subjects under the same rules, make :class:`RulePlans` once.

    Args:
        rules: the rules; each body must be connected to the head's subject or to a constant.
        subject: what the head's subject is bound to.
        index: the facts.
        before: the time asked about; None allows every time.
    """
    return RulePlans(rules, index).ground(subject, before)


class _Plan(NamedTuple):
    """How one rule's body is joined; see :class:`_Group`."""

    number: int
    steps: tuple[_Step, ...]
    answer: int
    temporal: bool
    relation: list[int]
    anchor: list[int]
    other: list[int]
    start: int
    result: int


def _plan(number: int, rule: Rule, index: TableIndex) -> _Plan | None:
    """The join of a rule's body; None where the graph or the rule's form allows none."""
    entities, relations = index.facts.entities, index.facts.relations
    slots: dict[str, int] = {}
    constants: dict[str, int] = {}
    for term in {end for a in (rule.head, *rule.body) for end in (a.subject, a.object)}:
        if not term.startswith("?"):
            if term not in entities:
                return None
            constants[term] = entities.id(term)
    if rule.head.subject.startswith("?"):
        slots[rule.head.subject] = 0
    steps, relation, anchors, others = [], [], [], []
    for place in body_order(rule):
        atom = rule.body[place]
        if atom.relation not in relations:
            return None
        turned = atom.subject not in slots and atom.subject not in constants
        anchor, other = (atom.object, atom.subject) if turned else (atom.subject, atom.object)
        if anchor not in slots and anchor not in constants:
            return None
        known = slots.get(other, -1 if other in constants else -2)
        steps.append(_Step(place, slots.get(anchor, -1), known))
        relation.append(relations.id(atom.relation) + len(relations) * turned)
        anchors.append(constants.get(anchor, -1))
        others.append(constants.get(other, -1))
        if known == -2:
            slots[other] = len(slots)
    if rule.head.object not in slots and rule.head.object not in constants:
        return None
    return _Plan(
        number,
        tuple(steps),
        slots.get(rule.head.object, -1),
        rule.temporal,
        relation,
        anchors,
        others,
        constants.get(rule.head.subject, -1),
        constants.get(rule.head.object, -1),
    )


def _group(plans: Sequence[_Plan]) -> _Group:
    first = plans[0]

    def columns(values: list[list[int]]) -> Longs:
        return np.array(values, dtype=np.int64).T.reshape(len(first.steps), len(plans))

    return _Group(
        first.steps,
        first.answer,
        first.temporal,
        np.array([plan.number for plan in plans], dtype=np.int64),
        columns([plan.relation for plan in plans]),
        columns([plan.anchor for plan in plans]),
        columns([plan.other for plan in plans]),
        np.array([plan.start for plan in plans], dtype=np.int64),
        np.array([plan.result for plan in plans], dtype=np.int64),
    )


class _Join:
    """The join of one group from one subject: rows of bindings that grow atom by atom."""

    def __init__(self, index: TableIndex, group: _Group, subject: int, before: int | None) -> None:
        self._index = index
        self._group = group
        self._before = before
        self._member = np.flatnonzero((group.start < 0) | (group.start == subject))
        full = np.full(len(self._member), subject, dtype=np.int64)
        # Slot 0 is the head's subject where that is a variable.
        self._slots = [full] if bool((group.start < 0).all()) else []
        self._rows: dict[int, Longs] = {}
        self._times: dict[int, Longs] = {}

    def run(self) -> GroundingTable:
        group = self._group
        for number, step in enumerate(group.steps):
            if not len(self._member):
                break
            self._take(number, step)
        if not len(self._member):
            none = np.zeros(0, dtype=np.int64)
            return GroundingTable(none, none, np.zeros((0, len(group.steps)), np.int64), none)
        answer = group.result[self._member] if group.answer < 0 else self._slots[group.answer]
        places = range(len(group.steps))
        rows = np.stack([self._rows[place] for place in places], axis=1)
        latest = None
        if self._times:
            latest = np.stack([self._times[place] for place in places], axis=1).max(axis=1)
        return GroundingTable(group.rule[self._member], answer, rows, latest)

    def _take(self, number: int, step: _Step) -> None:
        group, member = self._group, self._member
        anchor = self._slots[step.anchor] if step.anchor >= 0 else group.anchor[number, member]
        wanted = None
        if step.other != -2:
            wanted = self._slots[step.other] if step.other >= 0 else group.other[number, member]
        found = self._index.lookup(anchor, group.relation[number, member], wanted)
        source, other, row, time = found
        if time is not None:
            keep = self._in_time(step.atom, source, time)
            source, other, row, time = source[keep], other[keep], row[keep], time[keep]
        self._member = member[source]
        self._slots = [slot[source] for slot in self._slots]
        self._rows = {place: rows[source] for place, rows in self._rows.items()}
        self._times = {place: times[source] for place, times in self._times.items()}
        if step.other == -2:
            self._slots.append(other)
        self._rows[step.atom] = row
        if time is not None:
            self._times[step.atom] = time

    def _in_time(self, atom: int, source: Longs, time: Longs) -> Bools:
        """Whether facts lie before the time asked about and keep the body's time order."""
        keep = np.ones(len(time), dtype=np.bool_)
        if self._before is not None:
            keep &= time < self._before
        if self._group.temporal:
            for place, times in self._times.items():
                keep &= times[source] <= time if place < atom else times[source] >= time
        return keep


def _times(table: GroundingTable) -> Longs:
    return np.zeros(0, dtype=np.int64) if table.latest is None else table.latest
