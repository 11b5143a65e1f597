"""Fewer rules: the best of each head, none that another implies or that predicts nothing new."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.mining.pruning.coverage import prune_covered as prune_covered
    from rulerag.mining.pruning.scores import (
        DEFAULT_SCORE as DEFAULT_SCORE,
        SCORES as SCORES,
        top_rules as top_rules,
    )
    from rulerag.mining.pruning.subsumption import prune_subsumed as prune_subsumed
else:
    __getattr__ = lazy_names(__name__)
