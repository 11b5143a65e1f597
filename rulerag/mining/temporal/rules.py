"""Columns of mined temporal rules, and the rules made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.mining.paths import atoms_of_walk, labelled_rule
from rulerag.rules import Rule, RuleQuality

if TYPE_CHECKING:
    from rulerag.kg import Vocabulary


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

    def passing(self, min_support: int, min_confidence: float) -> TemporalRules:
        """The rules that pass two thresholds."""
        confidence = self.support / np.maximum(self.body_size, 1)
        keep = (self.support >= min_support) & (confidence >= min_confidence)
        return self.rows(keep)

    def rows(self, rows: npt.NDArray[np.generic]) -> TemporalRules:
        """Some rules, by an index array or a Boolean mask."""
        return TemporalRules(self.rule[rows], self.support[rows], self.body_size[rows])


def one_atom_columns(head: Longs, body: Longs) -> Ints:
    """Rows of rules with one body atom, from directed relations of shape (n,)."""
    row = np.tile(np.array([0, 1, 0, -1, -1, 0, 1, 2, 3], np.int32), (len(head), 1))
    row[:, 0], row[:, 2] = head, body
    return row


def as_rules(found: TemporalRules, relations: Vocabulary) -> list[Rule]:
    """The rules, sorted by head relation, then confidence, then text.

    Bodies walk from ``?x``; a rule for an inverse head has the head ``relation(?y, ?x)``.
    """
    rules = []
    for row, support, size in zip(*(column.tolist() for column in found), strict=True):
        head, length = row[:2]
        atoms = atoms_of_walk(head, row[2 : 2 + length], row[5 : 6 + length], relations)
        quality = RuleQuality(support=support, body_size=size, confidence=support / size)
        rules.append(labelled_rule(*atoms, quality, relations.label, "tlogic", temporal=True))
    rules.sort(key=lambda rule: (rule.head.relation, -rule.ranking_confidence, rule.text))
    return rules
