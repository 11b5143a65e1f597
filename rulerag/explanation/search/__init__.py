"""Miners of minimal retention and omission rules.

``exact`` walks the lattice level by level (few sources). For many, ``border`` searches,
``sampling`` certifies, and ``sets`` joins the two.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.search.border import (
        BorderSearch as BorderSearch,
        RuleOracle as RuleOracle,
        first_prefixes as first_prefixes,
    )
    from rulerag.explanation.search.exact import (
        MAX_EXACT_SOURCES as MAX_EXACT_SOURCES,
        DualMiner as DualMiner,
        MonoMiner as MonoMiner,
    )
    from rulerag.explanation.search.sampling import (
        ROUND_RISKS as ROUND_RISKS,
        RandomSubsets as RandomSubsets,
        ShareBets as ShareBets,
        by_size as by_size,
        samples_needed as samples_needed,
        shown_together as shown_together,
    )
    from rulerag.explanation.search.sets import (
        CertifiedMiner as CertifiedMiner,
        ClaimSets as ClaimSets,
        SampledSearch as SampledSearch,
        exact_sets as exact_sets,
    )
else:
    __getattr__ = lazy_names(__name__)
