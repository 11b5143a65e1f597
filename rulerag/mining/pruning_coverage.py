"""Which static rules predict what no better rule predicts, on one graph: an exact count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rulerag.errors import MiningError
from rulerag.mining.application_rules import code_static_rules
from rulerag.mining.tlogic_index import build_temporal_index

if TYPE_CHECKING:
    from rulerag.kg.graph import FactTable
    from rulerag.rules import Rule

__all__ = ["new_predictions"]


def new_predictions(
    rules: Sequence[Rule], facts: FactTable, rank: Callable[[Rule], tuple[object, ...]]
) -> list[int]:
    """How many pairs each rule predicts that no rule of the same head before it predicts.

    Known facts are pairs like any other. Every rule is asked from every subject, so the cost is
    that of applying the bank to all of them.

    Args:
        rules: static rules with one body atom, or with two that join the ends of the head.
        facts: what the bodies are read from.
        rank: orders the rules of a head, the best first.

    Returns:
        Counts in the order of the rules.

    Raises:
        MiningError: the facts are dated, or a rule is temporal or has another form.
        UnknownNameError: a relation that the graph does not hold.
    """
    if facts.is_temporal:
        raise MiningError(
            f"the facts of {facts.name!r} are dated; covered rules are told on static facts",
            hint="prune temporal rules by subsumption alone",
        )
    from rulerag.mining.pruning_kernel import count_new  # loads numba

    ranked = sorted(rules, key=rank)
    coded, parallel, rows = code_static_rules(
        [replace(rule, quality=replace(rule.quality, pca_confidence=1.0)) for rule in ranked],
        facts.relations,
    )
    index = build_temporal_index([replace(facts, timestamp=np.zeros(len(facts), np.int32))])
    counts = count_new(index, coded, parallel, len(facts.relations)).tolist()
    # Only readings from the subject are counted: each rule has one of these.
    half = int(coded.bounds[len(facts.relations)])
    by_id = dict(zip((rule.id for rule in rows[:half]), counts, strict=True))
    return [by_id[rule.id] for rule in rules]
