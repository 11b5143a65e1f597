"""How much each source counts, and the smallest changes that change the answer.

Explainers are registered functions, called by name (``values``); all of them explain the same
numbers, those of :class:`~rulerag.explanation.probing.SetValue`.
"""

from typing import TYPE_CHECKING

from rulerag.lazy import lazy_names

if TYPE_CHECKING:
    from rulerag.explanation.attribution.guided import LOG_MARGIN as LOG_MARGIN
    from rulerag.explanation.attribution.regions import (
        KeywordFit as KeywordFit,
        MaskedRegions as MaskedRegions,
        Region as Region,
        RegionExplanation as RegionExplanation,
        keyword_spans as keyword_spans,
        search_regions as search_regions,
    )
    from rulerag.explanation.attribution.surrogates import LinearSurrogate as LinearSurrogate
    from rulerag.explanation.attribution.values import (
        Attribution as Attribution,
        attributions as attributions,
        banzhaf_values as banzhaf_values,
        check_methods as check_methods,
        leave_one_out as leave_one_out,
        linear_surrogate as linear_surrogate,
        rule_surrogate as rule_surrogate,
        shapley_values as shapley_values,
    )
else:
    __getattr__ = lazy_names(__name__)
