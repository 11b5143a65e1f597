"""Columns of mined temporal rules, and the rules made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rulerag.mining.tlogic_index import Ints, Longs
from rulerag.rules import Atom, Rule, RuleQuality, rule_text

if TYPE_CHECKING:
    from rulerag.kg.vocabulary import Vocabulary

__all__ = ["TemporalRules", "as_rules", "one_atom_columns"]

_BETWEEN = ("?z", "?w")


class TemporalRules(NamedTuple):
    """Temporal rules as columns.

    Attributes:
        rule: int32 array of shape (n, 9): directed relation of the head, atoms of the body, the
            body's three directed relations in time order (-1 where it is shorter), and for each of
            its four places the first place with the same entity.
        support: int64 array of shape (n,).
        body_size: int64 array of shape (n,).
    """

    rule: Ints
    support: Longs
    body_size: Longs

    @classmethod
    def join(cls, *parts: TemporalRules) -> TemporalRules:
        """The rules of several parts, end to end."""
        rule, support, body_size = zip(*parts, strict=True)
        return cls(np.concatenate(rule), np.concatenate(support), np.concatenate(body_size))

    def passing(self, min_support: int, min_confidence: float) -> TemporalRules:
        """The rules that pass two thresholds."""
        confidence = self.support / np.maximum(self.body_size, 1)
        keep = (self.support >= min_support) & (confidence >= min_confidence)
        return TemporalRules(self.rule[keep], self.support[keep], self.body_size[keep])


def one_atom_columns(head: Longs, body: Longs) -> Ints:
    """Rows of rules with one body atom, from directed relations of shape (n,)."""
    row = np.tile(np.array([0, 1, 0, -1, -1, 0, 1, 2, 3], np.int32), (len(head), 1))
    row[:, 0], row[:, 2] = head, body
    return row


def as_rules(found: TemporalRules, relations: Vocabulary) -> list[Rule]:
    """The rules, sorted by head relation, then confidence, then text.

    Bodies walk from ``?x``; a rule for an inverse head has the head ``relation(?y, ?x)``.
    """
    columns = zip(
        found.rule.tolist(), found.support.tolist(), found.body_size.tolist(), strict=True
    )
    rules = [_rule(row, support, size, relations) for row, support, size in columns]
    rules.sort(key=lambda rule: (rule.head.relation, -rule.ranking_confidence, rule.text))
    return rules


def _rule(row: list[int], support: int, size: int, relations: Vocabulary) -> Rule:
    head, length = row[:2]
    names = _variables(row[5 : 6 + length])
    body = tuple(
        _atom(relation, names[place], names[place + 1], relations)
        for place, relation in enumerate(row[2 : 2 + length])
    )
    quality = RuleQuality(support=support, body_size=size, confidence=support / size)
    head_atom = _atom(head, names[0], names[-1], relations)
    # The text is made once, from readable names: a first rule without one would make its own.
    bare = Rule(head_atom, body, True, text=" ")
    text = rule_text(bare, relations.label)
    return Rule(head_atom, body, True, quality=quality, text=text, miner="tlogic")


def _variables(links: list[int]) -> list[str]:
    """A variable for each place of the walk; linked places share theirs."""
    names = {links[0]: "?x"}
    names.setdefault(links[-1], "?y")
    free = iter(_BETWEEN)
    for place in links:
        if place not in names:
            names[place] = next(free)
    return [names[place] for place in links]


def _atom(relation: int, start: str, end: str, relations: Vocabulary) -> Atom:
    if relation < len(relations):
        return Atom(relations.names[relation], start, end)
    return Atom(relations.names[relation - len(relations)], end, start)
