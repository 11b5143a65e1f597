"""How faithful explanations are: rules, claims and self-explanations."""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.faithfulness.answers import (
        ClaimFaithfulness as ClaimFaithfulness,
        claim_faithfulness as claim_faithfulness,
        mean_rule_faithfulness as mean_rule_faithfulness,
    )
    from rulerag.explanation.faithfulness.self_explanations import (
        SelfFaithfulness as SelfFaithfulness,
        SelfFaithfulnessSummary as SelfFaithfulnessSummary,
        assess_self_explanation as assess_self_explanation,
        mean_self_faithfulness as mean_self_faithfulness,
    )
else:
    __getattr__ = lazy_names(__name__)
