"""The best rules of each head relation, by a score made from the counts that a rule carries."""

from __future__ import annotations

from collections.abc import Callable

from rulerag.composition import check_choice, check_range
from rulerag.rules import Rule, RuleBank

SCORES: dict[str, Callable[[Rule], float]] = {
    "product": lambda rule: rule.ranking_confidence * (rule.quality.support or 0),
    "confidence": lambda rule: rule.ranking_confidence,
}
"""By name: ``product`` is confidence times support, ``confidence`` the ranking confidence alone."""

DEFAULT_SCORE = "product"
"""On validation queries of three graphs it keeps better rules than confidence alone, which prefers
rules that hardly ever apply (``benchmarks/results/rule-pruning``; the standard confidence, Laplace
and AnyBURL smoothing, Wilson's bound, confidence times log support and support were compared too).
"""


def top_rules(bank: RuleBank, per_head: int, score: str = DEFAULT_SCORE) -> RuleBank:
    """The best rules of each head relation by a named score.

    A temporal rule of an inverse head, ``r(?y, ?x)``, predicts subjects where ``r(?x, ?y)``
    predicts objects, so that each way round has a budget of its own.

    Args:
        bank: the rules.
        per_head: how many of each head are kept.
        score: one of :data:`SCORES`.

    Raises:
        ConfigError: an unknown score, or ``per_head`` below 1.
    """
    check_range("per_head", per_head, 1)
    check_choice("score", score, SCORES)
    value = SCORES[score]

    def rank(rule: Rule) -> tuple[float, float, int, str]:
        support = rule.quality.support or 0
        return -value(rule), -rule.ranking_confidence, -support, rule.text

    groups: dict[tuple[str, str, str], list[Rule]] = {}
    for rule in bank:
        way = (rule.head.subject, rule.head.object) if rule.temporal else ("", "")
        groups.setdefault((rule.head.relation, *way), []).append(rule)
    kept = {rule.id for group in groups.values() for rule in sorted(group, key=rank)[:per_head]}
    return RuleBank(rule for rule in bank if rule.id in kept)
