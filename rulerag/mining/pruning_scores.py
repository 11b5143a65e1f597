"""Scores that rank rules when only the best of each head are kept.

All of them come from the counts that a rule carries; which one keeps the best rules was measured on
validation queries (``python -m benchmarks.rule_pruning``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rulerag.errors import ConfigError, did_you_mean
from rulerag.rules import Rule

__all__ = ["DEFAULT_SCORE", "SCORES", "rule_score", "wilson_bound"]

_SMOOTHING = 5.0  # AnyBURL's "unseen negative examples" (Meilicke et al. 2019)
_Z = 1.959964  # two-sided 95 %


def _confidence(rule: Rule) -> float:
    """Temporal confidence, else PCA, else standard: what ranks rules elsewhere too."""
    return rule.ranking_confidence


def _pca(rule: Rule) -> float:
    value = rule.quality.pca_confidence
    return rule.ranking_confidence if value is None else value


def _standard(rule: Rule) -> float:
    value = rule.quality.standard_confidence
    return rule.ranking_confidence if value is None else value


def _counts(rule: Rule) -> tuple[float, float] | None:
    """Support, and the number of bodies that the ranking confidence is a share of."""
    quality = rule.quality
    if not quality.support:
        return None
    if quality.confidence is not None or quality.pca_confidence is None:
        size = quality.body_size
    else:
        size = quality.pca_body_size
    return (quality.support, size) if size else None


def _smoothed(rule: Rule) -> float:
    counts = _counts(rule)
    return rule.ranking_confidence if counts is None else counts[0] / (counts[1] + _SMOOTHING)


def _laplace(rule: Rule) -> float:
    counts = _counts(rule)
    return rule.ranking_confidence if counts is None else (counts[0] + 1) / (counts[1] + 2)


def _wilson(rule: Rule) -> float:
    counts = _counts(rule)
    return 0.0 if counts is None else wilson_bound(*counts)


def _weighted(rule: Rule) -> float:
    return rule.ranking_confidence * math.log1p(rule.quality.support or 0)


def _product(rule: Rule) -> float:
    return rule.ranking_confidence * (rule.quality.support or 0)


def _support(rule: Rule) -> float:
    return float(rule.quality.support or 0)


def wilson_bound(support: float, size: float) -> float:
    """The lower end of the 95 % interval of ``support / size`` (Wilson 1927)."""
    share, z = support / size, _Z * _Z / size
    root = _Z * math.sqrt(max(0.0, share * (1 - share) / size + z / (4 * size)))
    return max(0.0, (share + z / 2 - root) / (1 + z))


SCORES: dict[str, Callable[[Rule], float]] = {
    "confidence": _confidence,
    "laplace": _laplace,
    "pca": _pca,
    "product": _product,
    "smoothed": _smoothed,
    "standard": _standard,
    "support": _support,
    "weighted": _weighted,
    "wilson": _wilson,
}
"""By name: ``confidence`` is the ranking confidence; ``pca`` and ``standard`` are AMIE's two;
``laplace`` is (support + 1) / (size + 2), ``smoothed`` is support / (size + 5); ``wilson`` is the
lower end of the 95 % interval; ``weighted`` is confidence times log(1 + support), ``product``
confidence times support; ``support`` is the support alone. The size is the PCA body size where the
ranking confidence is PCA confidence, else the body size."""

DEFAULT_SCORE = "product"
"""The best MRR of all scores on validation queries, over all budgets and three graphs
(``benchmarks/results/rule-pruning``): confidence alone prefers rules that hardly ever apply."""


def rule_score(name: str = DEFAULT_SCORE) -> Callable[[Rule], float]:
    """The score of a name in :data:`SCORES`.

    Raises:
        ConfigError: there is no such score.
    """
    if name not in SCORES:
        raise ConfigError(f"unknown score {name!r}", key="score", hint=did_you_mean(name, SCORES))
    return SCORES[name]
