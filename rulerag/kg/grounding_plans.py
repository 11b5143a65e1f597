"""How the joins of rule bodies are laid out: bodies of one form are joined together."""

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

__all__ = ["Group", "Plan", "Step", "join_group", "join_plan"]

Longs = npt.NDArray[np.int64]


class Step(NamedTuple):
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
class Group:
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

    steps: tuple[Step, ...]
    answer: int
    temporal: bool
    rule: Longs
    relation: Longs
    anchor: Longs
    other: Longs
    start: Longs
    result: Longs

    def needed(self, number: int) -> list[int]:
        """The slots that the steps from ``number`` on, or the answer, still read."""
        later = [slot for step in self.steps[number:] for slot in (step.anchor, step.other)]
        return sorted({slot for slot in (*later, self.answer) if slot >= 0})


class Plan(NamedTuple):
    """How one rule's body is joined; see :class:`Group`."""

    number: int
    steps: tuple[Step, ...]
    answer: int
    temporal: bool
    relation: list[int]
    anchor: list[int]
    other: list[int]
    start: int
    result: int


def join_plan(number: int, rule: Rule, index: TableIndex) -> Plan | str:
    """The join of a rule's body, or in words why the graph or the rule's form allows none.

    Args:
        number: the rule's place among those that are planned together.
        rule: the rule.
        index: the graph's facts.
    """
    entities, relations = index.facts.entities, index.facts.relations
    slots: dict[str, int] = {}
    constants: dict[str, int] = {}
    for term in {end for a in (rule.head, *rule.body) for end in (a.subject, a.object)}:
        if not term.startswith("?"):
            if term not in entities:
                return f"no fact has the constant {term!r}"
            constants[term] = entities.id(term)
    if rule.head.subject.startswith("?"):
        slots[rule.head.subject] = 0
    steps, relation, anchors, others = [], [], [], []
    for place in body_order(rule):
        atom = rule.body[place]
        if atom.relation not in relations:
            return f"no fact has the relation {atom.relation!r}"
        turned = atom.subject not in slots and atom.subject not in constants
        anchor, other = (atom.object, atom.subject) if turned else (atom.subject, atom.object)
        if anchor not in slots and anchor not in constants:
            return f"nothing leads from {rule.head.subject} to the body atom {place + 1}"
        known = slots.get(other, -1 if other in constants else -2)
        steps.append(Step(place, slots.get(anchor, -1), known))
        relation.append(relations.id(atom.relation) + len(relations) * turned)
        anchors.append(constants.get(anchor, -1))
        others.append(constants.get(other, -1))
        if known == -2:
            slots[other] = len(slots)
    if rule.head.object not in slots and rule.head.object not in constants:
        return f"the body does not have the head's object {rule.head.object}"
    return Plan(
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


def join_group(plans: Sequence[Plan]) -> Group:
    """The joins of rules whose plans have the same steps, answer slot and order in time."""
    first = plans[0]

    def columns(values: list[list[int]]) -> Longs:
        return np.array(values, dtype=np.int64).T.reshape(len(first.steps), len(plans))

    return Group(
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
