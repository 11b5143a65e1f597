"""Why learned inference ranks a candidate as it does: its evidence, and what each is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rulerag.errors import MiningError
from rulerag.mining.inference.learned.features import (
    AGES,
    CLASSES,
    COUNTS,
    DENSE,
    Evidence,
    gather,
    new_evidence,
)
from rulerag.mining.inference.learned.logit import KNOWN, Weights, room_for
from rulerag.mining.paths import frontier_of, new_reached, reach

if TYPE_CHECKING:
    from rulerag.mining.inference.learned.history import History
    from rulerag.mining.paths import CodedRules
    from rulerag.rules import Rule

_KINDS = ("the asked relation", "its inverse", "any relation")
_DENSE = (
    "answered the relation lately",
    "answered the relation some time ago",
    "answered the relation ever",
    "active lately",
    "active ever",
    "longer rules: confidence by recency, summed",
    "longer rules: the best",
    "longer rules: confidence, summed",
    "longer rules: how many",
    "longer rules: noisy-or",
    "longer rules: the most recent",
)


@dataclass(frozen=True)
class Contribution:
    """One piece of evidence for a candidate.

    Args:
        evidence: what it is, in words.
        value: what it adds to the candidate's score (log-odds); None for rules whose worth stands
            in the summaries of longer rules.
        rule: the rule that fires, where it is one.
    """

    evidence: str
    value: float | None
    rule: Rule | None = None


def contributions(
    history: History,
    coded: CodedRules,
    weights: Weights,
    rules: Sequence[Rule],
    query: tuple[int, int, int],
    answer: int,
) -> list[Contribution]:
    """The evidence for a candidate, the strongest first, then the longer rules that reach it.

    Args:
        history: the facts.
        coded: the rules.
        weights: what evidence is worth.
        rules: the rule behind each coded row.
        query: known entity, directed relation, time.
        answer: the candidate.

    Raises:
        MiningError: the entity is no candidate.
    """
    subject, relation, time = query
    entities = len(history.graph.entity_bounds) - 1
    evidence = new_evidence(entities, room_for(history, np.array([subject], np.int32)))
    single = np.full(len(coded.bounds) - 1, -1, np.int32)
    gather(history, coded, single, *query, new_reached(entities), evidence)
    row = int(evidence.slot[answer])
    if row < 0:
        raise MiningError(
            f"the entity {answer} is no candidate of this query",
            hint="candidates have met the known entity or answered the relation before",
        )
    found = [
        *_contacts(weights, evidence, row),
        *_fired(weights, evidence, row, rules),
        *_dense(weights, evidence, row, relation),
    ]
    found.sort(key=lambda one: -abs(one.value or 0.0))
    return found + list(_longer(history, coded, rules, (subject, relation, time), answer))


def _contacts(weights: Weights, evidence: Evidence, row: int) -> Iterator[Contribution]:
    if evidence.table[row, 2] < 0:
        return
    yield Contribution("they met", float(weights.shared[KNOWN]))
    for kind, name in enumerate(_KINDS):
        value = int(evidence.table[row, kind])
        if value >= 0:
            lately, often = divmod(value, len(COUNTS) + 1)
            words = f"they met by {name} {_times(often)}, the last time {_age(lately)}"
            yield Contribution(words, float(weights.shared[kind * CLASSES + value]))


def _times(often: int) -> str:
    if often == len(COUNTS):
        return f"more than {COUNTS[-1]} times"
    low = COUNTS[often - 1] + 1 if often else 1
    return f"{low} to {COUNTS[often]} times" if low < COUNTS[often] else f"{low} times"


def _age(lately: int) -> str:
    if lately == len(AGES):
        return f"more than {AGES[-1]} steps ago"
    low = AGES[lately - 1] + 1 if lately else 1
    return f"{low} to {AGES[lately]} steps ago" if low < AGES[lately] else f"{low} steps ago"


def _fired(
    weights: Weights, evidence: Evidence, row: int, rules: Sequence[Rule]
) -> Iterator[Contribution]:
    for fired in range(evidence.sizes[1]):
        if evidence.row[fired] == row:
            number = int(evidence.rule[fired])
            weight, curve = weights.rule[number], evidence.curve[fired]
            value = float(weight[0] + weight[1:] @ curve)
            yield Contribution(f"the rule {rules[number].text}", value, rules[number])


def _dense(weights: Weights, evidence: Evidence, row: int, relation: int) -> Iterator[Contribution]:
    total = weights.shared[KNOWN + 1 : KNOWN + 1 + DENSE] + weights.relation[relation]
    for name, weight, value in zip(_DENSE, total, evidence.dense[row], strict=True):
        if value:
            yield Contribution(name, float(weight * value))


def _longer(
    history: History,
    coded: CodedRules,
    rules: Sequence[Rule],
    query: tuple[int, int, int],
    answer: int,
) -> Iterator[Contribution]:
    subject, relation, time = query
    entities = len(history.graph.entity_bounds) - 1
    for number in range(coded.bounds[relation], coded.bounds[relation + 1]):
        if coded.length[number] == 1:
            continue
        reached, graph = new_reached(entities), history.graph
        frontier = frontier_of(graph, coded, number, subject)
        reach(graph, coded, number, subject, time, frontier, reached)
        if answer in reached.entity[: reached.size[0]]:
            old = (time - int(reached.first[answer])) // history.step
            words = f"the rule {rules[number].text}, begun {old} steps ago"
            yield Contribution(words, None, rules[number])
