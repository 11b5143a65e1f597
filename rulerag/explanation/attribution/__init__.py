"""How much each source counts, and the smallest changes that change the answer.

Explainers are registered functions, called by name (``values``); all of them explain the same
numbers, those of :class:`~rulerag.explanation.probing.SetValue`.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.attribution.guided import LOG_MARGIN
    from rulerag.explanation.attribution.regions import (
        KeywordFit,
        MaskedRegions,
        Region,
        RegionExplanation,
        keyword_spans,
        search_regions,
    )
    from rulerag.explanation.attribution.surrogates import LinearSurrogate
    from rulerag.explanation.attribution.values import (
        Attribution,
        attributions,
        banzhaf_values,
        check_methods,
        leave_one_out,
        linear_surrogate,
        rule_surrogate,
        shapley_values,
    )
else:
    __getattr__ = lazy_names(__name__)
