"""What a sample of subsets proves about all of them: exact binomial bounds on a share.

References:
    Clopper and Pearson 1934 (Biometrika 26, 404-413): exact limits from the binomial law.
    Jennison and Turnbull 2000 (Group Sequential Methods), section 8.5: the same limits after an
    early stop, with the outcomes of a plan ordered by the stage at which they end.
"""

from __future__ import annotations

import math

from scipy.special import bdtr, betaincinv

from rulerag.errors import ConfigError

__all__ = ["check_level", "lower_bound", "samples_needed", "staged_lower_bound", "upper_bound"]

_HALVINGS = 60


def check_level(name: str, value: float) -> float:
    """The value when it is a share strictly between 0 and 1.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1:
        hint = "exact rules need every subset: MonoMiner" if value == 1 else None
        raise ConfigError(
            f"expected a number between 0 and 1, both excluded, found {value!r}",
            key=name,
            hint=hint,
        )
    return float(value)


def samples_needed(validity: float, risk: float) -> int:
    """How many draws without one failure show a share of at least ``validity``.

    With a share below ``validity`` so many successes in a row are rarer than ``risk``: 59 for a
    validity of 0.95 and a risk of 0.05.
    """
    return max(1, math.ceil(math.log(risk) / math.log(validity)))


def lower_bound(successes: int, samples: int, risk: float) -> float:
    """The Clopper-Pearson lower limit of a share; it is above the truth with at most ``risk``."""
    if successes == 0:
        return 0.0
    return float(betaincinv(successes, samples - successes + 1, risk))


def upper_bound(successes: int, samples: int, risk: float) -> float:
    """The Clopper-Pearson upper limit of a share; it is below the truth with at most ``risk``."""
    if successes == samples:
        return 1.0
    return float(betaincinv(successes + 1, samples - successes, 1 - risk))


def staged_lower_bound(first: int, total: int, failures: int, risk: float) -> float:
    """The lower limit of a share when the plan stops early after a clean first stage.

    The plan: draw ``first`` times; without a failure stop, otherwise go on to ``total`` draws.
    Outcomes are ordered as clean first stage, then by ``failures``, fewest first. The limit is the
    share under which an outcome at least as good has the probability ``risk``, so that stopping
    early costs nothing of the confidence, and a clean first stage proves ``risk ** (1 / first)``,
    what a plan of one stage proves.

    Args:
        first: draws of the first stage.
        total: draws of both stages.
        failures: how many of all draws failed; 0 stands for a clean first stage.
        risk: the probability that the limit is above the truth, at most.
    """
    if failures == 0:
        return float(risk ** (1 / first))
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        clean = middle**first
        few = _at_most(failures, total, 1 - middle)
        few_after_clean = clean * _at_most(failures, total - first, 1 - middle)
        if clean + few - few_after_clean < risk:
            low = middle
        else:
            high = middle
    return low


def _at_most(count: int, draws: int, share: float) -> float:
    """The probability of at most ``count`` hits among ``draws``, each a hit with ``share``."""
    return float(bdtr(count, draws, share)) if count < draws else 1.0
