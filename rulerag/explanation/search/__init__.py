"""Miners of minimal retention and omission rules.

``exact`` walks the lattice level by level (few sources). For many, ``border`` searches,
``sampling`` certifies, and ``sets`` joins the two.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.search.border import BorderSearch, RuleOracle, first_prefixes
    from rulerag.explanation.search.exact import MAX_EXACT_SOURCES, DualMiner, MonoMiner
    from rulerag.explanation.search.sampling import (
        ROUND_RISKS,
        RandomSubsets,
        ShareBets,
        by_size,
        samples_needed,
        shown_together,
    )
    from rulerag.explanation.search.sets import (
        CertifiedMiner,
        ClaimSets,
        SampledSearch,
        exact_sets,
    )
else:
    __getattr__ = lazy_names(__name__)
