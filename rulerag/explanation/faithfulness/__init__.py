"""How faithful explanations are: deletion curves, planted truths, rules and claims under test."""

from typing import TYPE_CHECKING

from rulerag.lazy import front_door

if TYPE_CHECKING:
    from rulerag.explanation.faithfulness.claims import ClaimFaithfulness, claim_faithfulness
    from rulerag.explanation.faithfulness.curves import (
        comprehensiveness,
        linear_datamodeling_score,
        rule_scores,
        sufficiency,
        unasked_subsets,
    )
    from rulerag.explanation.faithfulness.planted import PlantedAnswer
    from rulerag.explanation.faithfulness.rules import mean_rule_faithfulness
else:
    __getattr__ = front_door(__name__)
