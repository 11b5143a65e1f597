"""Which static rules predict what no better rule predicts, on one graph: an exact count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rulerag.arrays import Longs
from rulerag.mining.indexes import NEVER, TemporalIndex
from rulerag.mining.inference import index_at_time_zero
from rulerag.mining.paths import CodedRules, code_static_rules, frontier_of, new_reached, reach
from rulerag.mining.runtime import compiled, int64
from rulerag.rules import Rule, RuleBank, RuleQuality

if TYPE_CHECKING:
    from rulerag.kg import FactTable


def prune_covered(bank: RuleBank, facts: FactTable) -> RuleBank:
    """Drop each rule that predicts nothing on a graph that more confident rules do not predict.

    Of each head the rules are gone through from the most confident on (ties: more support, then
    the shorter body, then by text); a rule stays when it predicts a pair, known or not, that no
    rule before it predicts. The best score of every candidate stays what it was on these facts;
    with other facts it may not, which
    :func:`~rulerag.mining.pruning.prune_subsumed` never does. The cost is that of
    applying the bank to every subject.

    Args:
        bank: static rules with one body atom, or with two that join the ends of the head.
        facts: static facts.

    Returns:
        The others, in their order.

    Raises:
        MiningError: the facts are dated, or a rule is temporal or has another form.
        UnknownNameError: a relation that the graph does not hold.
    """
    index = index_at_time_zero([facts])

    def rank(rule: Rule) -> tuple[object, ...]:
        support = rule.quality.support or 0
        return -rule.ranking_confidence, -support, len(rule.body), rule.text

    # Coded rules are sorted by confidence: with one for all they keep the order given here.
    equal = RuleQuality(pca_confidence=1.0)
    ranked = [replace(rule, quality=equal) for rule in sorted(bank, key=rank)]
    coded, rows = code_static_rules(ranked, facts.relations)
    counts = _count_new(index, coded, len(facts.relations)).tolist()
    # Only readings from the subject are counted: each rule has one of these.
    kept = {rule.id for rule, count in zip(rows, counts, strict=False) if count}
    return RuleBank(rule for rule in bank if rule.id in kept)


@compiled
def _count_new(index: TemporalIndex, rules: CodedRules, relations: int) -> Longs:
    """Pairs (subject, object) that each rule is the first of its head to predict.

    Args:
        index: the facts, all at time 0.
        rules: what to apply, in the order of each head.
        relations: R; rules of inverse heads are not asked.

    Returns:
        int64 array of shape (m,), m the rules of the first R directed heads.
    """
    entities = len(index.entity_bounds) - 1
    reached, none = new_reached(entities), frontier_of(index, rules, int64(-1), int64(0))
    seen = np.full(entities, -1, np.int64)
    counts = np.zeros(rules.bounds[relations], np.int64)
    begins = np.zeros(2 * relations, np.bool_)
    for head in range(relations):
        first, last = rules.bounds[head], rules.bounds[head + 1]
        begins[:] = False
        for rule in range(first, last):
            begins[rules.body[rule, 0]] = True
        for subject in range(entities if last > first else 0):
            # Most entities have few relations, and no body begins with any of them.
            begun = False
            for group in range(index.entity_bounds[subject], index.entity_bounds[subject + 1]):
                begun |= begins[index.group_relation[group]]
            if not begun:
                continue
            mark = head * entities + subject
            for rule in range(first, last):
                reach(index, rules, rule, subject, int64(1), none, reached)
                for number in range(reached.size[0]):
                    entity = reached.entity[number]
                    reached.first[entity] = NEVER
                    if seen[entity] != mark:
                        seen[entity] = mark
                        counts[rule] += 1
                reached.size[0] = 0
    return counts
