"""Link prediction with rules: filtered ranks, MRR and Hits of a rule bank.

:mod:`~rulerag.evaluation.link_prediction.protocol` runs an evaluation;
:mod:`~rulerag.evaluation.link_prediction.ranks` says what a rank is.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.evaluation.link_prediction.protocol import (
        LinkPredictionSettings as LinkPredictionSettings,
        evaluate_links as evaluate_links,
        load_rules as load_rules,
    )
else:
    __getattr__ = lazy_names(__name__)
