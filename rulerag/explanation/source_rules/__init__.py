"""Miners of minimal retention and omission rules.

``exact`` walks the lattice level by level (few sources); ``certified`` finds rules among many
sources by ``monotone_search`` and tests them on random subsets (``certification``); ``groups``
takes sources together first; ``hitting_sets`` derives one family of rules from the other.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.source_rules.anytime import ShareBets, shown_together
    from rulerag.explanation.source_rules.certification import lower_bound, samples_needed
    from rulerag.explanation.source_rules.certified import CertifiedMiner
    from rulerag.explanation.source_rules.draws import by_size, random_superset
    from rulerag.explanation.source_rules.exact import MAX_EXACT_SOURCES, DualMiner, MonoMiner
    from rulerag.explanation.source_rules.groups import GroupView, view_groups
    from rulerag.explanation.source_rules.hitting_sets import Duality, RuleChanges, check_duality
    from rulerag.explanation.source_rules.monotone_search import (
        BorderSearch,
        CoarseToFine,
        RuleOracle,
        shrink,
    )
else:
    __getattr__ = front_door(__name__)
