"""Planting: the parts of a plan drawn into a draft, each with its rules and its queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rulerag.arrays import Longs
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.synthetic.draft import Draft, zipf_counts, zipf_ranks
from rulerag.synthetic.plan import ChainPlan, EchoPlan, GroupPlan, WorldPlan
from rulerag.synthetic.schema import Chain, Clue

QUERY_KINDS = ("plain", "conflict", "agree", "chain", "echo", "tail")
_PLAIN, _CONFLICT, _AGREE, _CHAIN, _ECHO, _TAIL = range(len(QUERY_KINDS))

# Days of a dated world: training ends, validation and test follow with 30 days each. A body fact
# of the last 30 training days reaches the last test day within the longest delay.
_TRAIN, _VALID, _TEST, _DELAY = 671, 701, 731, 90
_RECENT = _TRAIN - 30


@dataclass(frozen=True)
class PlantedRule:
    """A rule that a world was made with.

    Args:
        rule: the rule; its quality holds the exact counts over the training facts.
        confidence: the intended one. The counts meet it up to half a fact.
    """

    rule: Rule
    confidence: float


def plant(draft: Draft, plan: WorldPlan) -> list[PlantedRule]:
    """Draw every part of a plan, and distractors up to its size; return the rules."""
    rules: list[PlantedRule] = []
    for group in plan.groups:
        _plant_group(draft, group, rules)
    if plan.echo is not None and plan.schema.echo is not None:
        _plant_echo(draft, plan.schema.echo, plan.echo, rules)
    if plan.chain is not None:
        _plant_chain(draft, plan.schema.chain, plan.chain, rules)
    _scatter(draft, plan)
    return rules


def _days(draft: Draft, count: int, start: int = 0, end: int = _TRAIN) -> Longs:
    return draft.rng.integers(start, end, count)


def _held_out(draft: Draft, first: int, count: int) -> tuple[Longs, Longs]:
    """Splits and days of held-out facts: three tests for two validations, in turn."""
    split = np.where((np.arange(first, first + count) % 5) % 2 == 0, 2, 1)
    start = np.where(split == 2, _VALID, _TRAIN)
    return split, start + draft.rng.integers(0, _VALID - _TRAIN, count)


class _Group:
    """One group while it is planted: who is known, who is asked, and with which objects."""

    def __init__(self, draft: Draft, plan: GroupPlan) -> None:
        self.draft, self.plan = draft, plan
        order = draft.rng.permutation(len(plan.group.clues))
        self.clues: list[Clue] = [plan.group.clues[i] for i in order[: plan.num_clues]]
        subjects = draft.entities(plan.group.subject)
        if plan.group.subject == plan.group.object:
            # Those who are objects here would run out of partners if they were subjects too.
            subjects = subjects[plan.num_objects :]
        drawn = draft.rng.permutation(subjects)
        self.asked: Longs = drawn[: plan.num_asked]
        self.known: Longs = np.sort(drawn[plan.num_asked :])  # popular ones first
        self.first_rule = 0

    def cells(self, subject: Longs) -> Longs:
        """Cells whose objects are drawn for this group."""
        return self.draft.cells(subject, self.plan.group.object, size=self.plan.num_objects)

    def clue(self, number: int, cell: Longs, time: Longs) -> Longs:
        """Facts of a clue."""
        clue = self.clues[number]
        return self.draft.facts(cell, clue.relation, time, inverse=clue.inverse)

    def head(self, cell: Longs, time: Longs, split: int | Longs = 0) -> Longs:
        """Facts of the head relation."""
        return self.draft.facts(cell, self.plan.group.head, time, split=split)


def _plant_group(draft: Draft, plan: GroupPlan, rules: list[PlantedRule]) -> None:
    group = _Group(draft, plan)
    group.first_rule = len(rules)
    rules += [_group_rule(plan, i, clue) for i, clue in enumerate(group.clues)]
    _plant_known(group)
    done = 0
    for clue in range(plan.num_clues):
        _plant_asked(group, clue, done)
        done += plan.asked[clue]
    _plant_tails(group, done)
    if plan.dated:  # what the asked subjects did before
        group.head(group.cells(group.asked), _days(draft, len(group.asked)))


def _plant_known(group: _Group) -> None:
    """Blocks: one fact of every clue, some of them with the head fact, and heads alone."""
    draft, plan, blocks = group.draft, group.plan, group.plan.blocks
    per_block = plan.num_clues + plan.fillers
    cap = max(1, plan.num_objects // 2 // per_block)
    subject = np.repeat(group.known, zipf_counts(blocks, len(group.known), cap))
    for number in range(plan.num_clues):
        cell = group.cells(subject)
        followed = np.zeros(blocks, dtype=bool)
        followed[draft.rng.permutation(blocks)[: plan.support(number)]] = True
        count = int(followed.sum())
        time = np.where(followed, _days(draft, blocks, end=_TRAIN - _DELAY), _days(draft, blocks))
        group.clue(number, cell, time)
        delay = draft.rng.integers(1, _DELAY + 1, count)
        group.head(cell[followed], time[followed] + delay)
    for _ in range(plan.fillers):
        group.head(group.cells(subject), _days(draft, blocks))


def _plant_asked(group: _Group, clue: int, done: int) -> None:
    """Subjects whose held-out head fact follows from a clue of the last training days."""
    draft, plan = group.draft, group.plan
    count = plan.asked[clue]
    subject = group.asked[done : done + count]
    cell = group.cells(subject)
    body = group.clue(clue, cell, _days(draft, count, _RECENT))
    split, time = _held_out(draft, done, count)
    head = group.head(cell, time, split)
    rule = group.first_rule + clue
    conflicts, agreements = plan.conflicts(clue), plan.agreements(clue)
    parts = np.split(np.arange(count), [conflicts, conflicts + agreements])
    if conflicts:
        # The wrong pointer is the less confident and the older one: the two can be told apart.
        here = parts[0]
        wrong = group.cells(subject[here])
        group.clue(clue + 1, wrong, _days(draft, conflicts, end=_RECENT - 30))
        draft.queries(head[here], _CONFLICT, (rule, (body[here],)))
    if agreements:
        here = parts[1]
        also = group.clue(clue + 1, cell[here], _days(draft, agreements, _RECENT))
        draft.queries(head[here], _AGREE, (rule, (body[here],)), (rule + 1, (also,)))
    draft.queries(head[parts[2]], _PLAIN, (rule, (body[parts[2]],)))


def _plant_tails(group: _Group, done: int) -> None:
    """Subjects whose held-out head fact follows from nothing; some have a misleading clue."""
    draft, plan = group.draft, group.plan
    subject = group.asked[done:]
    split, time = _held_out(draft, done, len(subject))
    head = group.head(group.cells(subject), time, split)
    if plan.misled:
        wrong = group.cells(subject[: plan.misled])
        group.clue(plan.num_clues - 1, wrong, _days(draft, plan.misled))
    draft.queries(head, _TAIL)


def _group_rule(plan: GroupPlan, number: int, clue: Clue) -> PlantedRule:
    ends = ("?y", "?x") if clue.inverse else ("?x", "?y")
    quality = _quality(
        plan.dated, plan.support(number), plan.body_size(number), plan.blocks, plan.train_heads
    )
    head, body = Atom(plan.group.head, "?x", "?y"), Atom(clue.relation, *ends)
    rule = Rule(head, (body,), plan.dated, quality, miner="planted")
    return PlantedRule(rule, plan.confidences[number])


def _quality(dated: bool, support: int, body: int, pca_body: int, heads: int) -> RuleQuality:
    if dated:
        return RuleQuality(support=support, body_size=body, confidence=support / body)
    return RuleQuality(
        support=support,
        head_coverage=support / heads,
        standard_confidence=support / body,
        pca_confidence=support / pca_body,
        body_size=body,
        pca_body_size=pca_body,
    )


def _plant_chain(draft: Draft, chain: Chain, plan: ChainPlan, rules: list[PlantedRule]) -> None:
    """``first(x, z), second(z, y) => head(x, y)``, in this order of time."""
    total = plan.blocks + plan.num_asked
    x_kind, z_kind, y_kind = chain.kinds
    subject = draft.rng.permutation(draft.entities(x_kind))[:total]
    middles = draft.rng.permutation(draft.entities(z_kind))[: plan.num_middles]
    objects = draft.entities(y_kind)
    middle = zipf_ranks(draft.rng, total, plan.num_middles)
    target = zipf_ranks(draft.rng, plan.num_middles, len(objects))
    opening, joining = int(0.45 * _TRAIN), int(0.3 * _TRAIN)
    first = draft.facts(
        draft.cells(subject, z_kind, object_=middles[middle]),
        chain.first,
        _days(draft, total, end=joining),
    )
    second = draft.facts(
        draft.cells(middles, y_kind, object_=objects[target]),
        chain.second,
        _days(draft, plan.num_middles, joining, opening),
    )
    answer = target[middle]
    order = draft.rng.permutation(plan.blocks)
    outliers = order[plan.support :]
    elsewhere = draft.rng.integers(1, len(objects), len(outliers))
    answer[outliers] = (answer[outliers] + elsewhere) % len(objects)
    cell = draft.cells(subject, y_kind, object_=objects[answer])
    draft.facts(cell[: plan.blocks], chain.head, _days(draft, plan.blocks, opening))
    split, time = _held_out(draft, 0, plan.num_asked)
    head = draft.facts(cell[plan.blocks :], chain.head, time, split=split)
    asked = slice(plan.blocks, total)
    draft.queries(head, _CHAIN, (len(rules), (first[asked], second[middle[asked]])))
    quality = _quality(plan.dated, plan.support, total, plan.blocks, plan.blocks)
    body = (Atom(chain.first, "?x", "?z"), Atom(chain.second, "?z", "?y"))
    rule = Rule(Atom(chain.head, "?x", "?y"), body, plan.dated, quality, miner="planted")
    rules.append(PlantedRule(rule, plan.confidence))


def _plant_echo(draft: Draft, relation: str, plan: EchoPlan, rules: list[PlantedRule]) -> None:
    """Pairs that meet twice, pairs that meet once, and pairs that meet again when asked."""
    everyone = draft.entities("person")
    size = len(everyone) // 3
    people = draft.rng.permutation(everyone[size:])  # the popular third are the objects
    asked, known = people[: plan.num_asked], np.sort(people[plan.num_asked :])
    total = plan.doubles + plan.singles
    subject = draft.rng.permutation(np.repeat(known, zipf_counts(total, len(known), size // 4)))
    cell = draft.cells(subject, "person", size=size)
    time = _days(draft, total, end=_TRAIN - _DELAY)
    draft.facts(cell, relation, time)
    delay = draft.rng.integers(1, _DELAY + 1, plan.doubles)
    draft.facts(cell[: plan.doubles], relation, time[: plan.doubles] + delay)
    asked_cell = draft.cells(asked, "person", size=size)
    body = draft.facts(asked_cell, relation, _days(draft, plan.num_asked, _RECENT))
    split, later = _held_out(draft, 0, plan.num_asked)
    head = draft.facts(asked_cell, relation, later, split=split)
    draft.queries(head, _ECHO, (len(rules), (body,)))
    atom = Atom(relation, "?x", "?y")
    quality = RuleQuality(
        support=plan.doubles,
        body_size=plan.body_size,
        confidence=plan.doubles / plan.body_size,
    )
    rules.append(PlantedRule(Rule(atom, (atom,), True, quality, miner="planted"), plan.confidence))


def _scatter(draft: Draft, plan: WorldPlan) -> None:
    """Distractors: facts about the same entities, in relations that no rule knows."""
    total = plan.num_facts - draft.num_facts
    kinds = plan.schema.distractors
    present = {"person", plan.groups[0].group.object}
    for group in plan.groups:
        present |= {group.group.subject, group.group.object}
    kinds = tuple(d for d in kinds if {d.subject, d.object} <= present)
    for number, distractor in enumerate(kinds):
        count = total // len(kinds) + (number < total % len(kinds))
        pool = draft.entities(distractor.subject)
        # Half by popularity, half evenly, so that rare subjects have company too.
        popular = zipf_ranks(draft.rng, count, len(pool))
        even = draft.rng.integers(0, len(pool), count)
        subject = pool[np.where(draft.rng.random(count) < 0.5, popular, even)]
        cell = draft.cells(subject, distractor.object, movable=True)
        time = _days(draft, count)
        if number == 0:
            time[:1] = 0  # the calendar of a saved world begins on its first day
        draft.facts(cell, distractor.relation, time)
