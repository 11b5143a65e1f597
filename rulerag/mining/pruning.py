"""Smaller rule banks: needless rules dropped, the best of each head kept, several banks joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rulerag.mining.normal_form import canonical
from rulerag.mining.pruning_scores import DEFAULT_SCORE, rule_score
from rulerag.mining.pruning_subsumption import not_subsumed
from rulerag.mining.quality import check_count
from rulerag.rules import Rule, RuleBank

if TYPE_CHECKING:
    from rulerag.kg.graph import FactTable

__all__ = ["merge_rules", "prune_covered", "prune_subsumed", "top_rules"]

Score = Callable[[Rule], float]


def prune_subsumed(bank: RuleBank, confidence: Score | None = None) -> RuleBank:
    """Drop each rule that another one with at least its confidence makes needless on any graph.

    Rule A makes rule B needless when A subsumes B
    (:func:`~rulerag.mining.pruning_subsumption.subsumes`): the bodies are equal but for names and
    order, or A's is a part of B's. Of rules that subsume each other with the same confidence the
    one with more support stays, then the shorter one, then the first by text.

    Where candidates are scored by their most confident rule, the best score of every candidate
    stays what it was, on every graph. Sums and noisy-or change, since they count a fact that two
    rules see twice. AMIE's skyline is the same rule for bodies that are closed parts of others.

    Args:
        bank: static and temporal rules, of any length, with constants or without.
        confidence: what rules are compared by; the ranking confidence when None.

    Returns:
        The others, in their order.
    """
    score = confidence or (lambda rule: rule.ranking_confidence)

    def order(rule: Rule) -> tuple[object, ...]:
        return -(rule.quality.support or 0), len(rule.body), rule.text

    return RuleBank(not_subsumed(bank, score, order))


def prune_covered(
    bank: RuleBank, facts: FactTable, *, confidence: Score | None = None, min_new: int = 1
) -> RuleBank:
    """Drop each rule that predicts nothing on a graph that more confident rules do not predict.

    Of each head the rules are gone through from the most confident on (ties: more support, then
    the shorter body, then by text); a rule stays when it predicts ``min_new`` pairs or more that
    no rule before it predicts. With ``min_new=1`` the best score of every candidate stays what it
    was on these facts; with other facts it may not, which :func:`prune_subsumed` never does.

    Args:
        bank: static rules with one body atom, or with two that join the ends of the head.
        facts: static facts.
        confidence: what rules are ordered by; the ranking confidence when None.
        min_new: least new pairs of a rule that stays.

    Returns:
        The others, in their order.

    Raises:
        ConfigError: ``min_new`` is below 1.
        MiningError: the facts are dated, or a rule is temporal or has another form.
        UnknownNameError: a relation that the graph does not hold.
    """
    from rulerag.mining.pruning_coverage import new_predictions

    check_count("min_new", min_new, 1)
    score = confidence or (lambda rule: rule.ranking_confidence)

    def rank(rule: Rule) -> tuple[object, ...]:
        return -score(rule), -(rule.quality.support or 0), len(rule.body), rule.text

    rules = list(bank)
    new = new_predictions(rules, facts, rank)
    return RuleBank(rule for rule, count in zip(rules, new, strict=True) if count >= min_new)


def top_rules(bank: RuleBank, per_head: int, score: str = DEFAULT_SCORE) -> RuleBank:
    """The best rules of each head relation by a named score.

    A temporal rule of an inverse head, ``r(?y, ?x)``, predicts subjects where ``r(?x, ?y)``
    predicts objects, so that each way round has a budget of its own.

    Args:
        bank: the rules.
        per_head: how many of each head are kept.
        score: one of :data:`~rulerag.mining.pruning_scores.SCORES`; the default is the one that
            validation queries favour.

    Raises:
        ConfigError: an unknown score, or ``per_head`` below 1.
    """
    check_count("per_head", per_head, 1)
    value = rule_score(score)

    def rank(rule: Rule) -> tuple[float, float, int, str]:
        support = rule.quality.support or 0
        return -value(rule), -rule.ranking_confidence, -support, rule.text

    groups: dict[tuple[str, str, str], list[Rule]] = {}
    for rule in bank:
        way = (rule.head.subject, rule.head.object) if rule.temporal else ("", "")
        groups.setdefault((rule.head.relation, *way), []).append(rule)
    kept = {rule.id for group in groups.values() for rule in sorted(group, key=rank)[:per_head]}
    return RuleBank(rule for rule in bank if rule.id in kept)


def merge_rules(*banks: RuleBank, prefer: str = "first") -> RuleBank:
    """Join banks of several miners or runs; rules that differ in names alone are one rule.

    Every rule is put into :func:`~rulerag.mining.normal_form.canonical` form, so that the same
    rule is known again whoever wrote it. What each bank knows of it is joined as
    :meth:`RuleBank.merge <rulerag.rules.RuleBank.merge>` does.

    Args:
        banks: any number.
        prefer: whose counts stay where two banks differ: ``first``, or ``evidence`` for those
            over more bodies (a larger sample, a larger graph).

    Raises:
        ConfigError: an unknown ``prefer``.
    """
    parts = (RuleBank([canonical(rule)]) for bank in banks for rule in bank)
    return RuleBank().merge(*parts, prefer=prefer)
