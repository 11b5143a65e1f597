"""Miners of minimal retention and omission rules.

``exact`` walks the lattice level by level (few sources). For many, ``border`` searches, ``draws``
and ``bets`` certify, and ``sets`` joins them; ``certified`` is the same for one kind of rule.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.search.bets import ShareBets, samples_needed, shown_together
    from rulerag.explanation.search.border import BorderSearch, RuleOracle, first_prefixes
    from rulerag.explanation.search.certified import CertifiedMiner
    from rulerag.explanation.search.draws import RandomSubsets, by_size
    from rulerag.explanation.search.exact import MAX_EXACT_SOURCES, DualMiner, MonoMiner
    from rulerag.explanation.search.sets import ClaimSets, SampledSearch, exact_sets
else:
    __getattr__ = lazy_names(__name__)
