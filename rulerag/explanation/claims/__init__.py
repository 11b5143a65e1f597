"""What an answer says, claim by claim, and whether another answer says the same.

``splitting`` cuts an answer into claims, ``verdicts`` decides by a ladder of steps, from cheap to
dear, whether an output makes a claim; every verdict names its step.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.claims.refusals import is_refusal
    from rulerag.explanation.claims.splitting import (
        Claim,
        claim_at,
        split_claims,
        split_sentences,
    )
    from rulerag.explanation.claims.verdicts import Entailment, SameClaim, Verdict
else:
    __getattr__ = lazy_names(__name__)
