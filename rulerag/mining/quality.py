"""The counts that judge a static rule, and the thresholds on them.

Galárraga et al. 2015 (AMIE+, doi:10.1007/s00778-015-0394-1), section 3; Lajus et al. 2020 (AMIE 3).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError
from rulerag.rules import RuleQuality

if TYPE_CHECKING:
    from rulerag.mining.amie_index import DirectedIndex

__all__ = [
    "check_count",
    "check_fraction",
    "functional_on_object",
    "minimum_supports",
    "static_quality",
]

Longs = npt.NDArray[np.int64]


def check_fraction(key: str, value: float) -> float:
    """A threshold that must be a fraction.

    Raises:
        ConfigError: it is no number from 0 to 1; names the key and the range.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= 1.0:  # NaN fails the comparison too
        raise ConfigError(f"{value!r} is out of range", key=key, hint="give a number from 0 to 1")
    return float(value)


def check_count(key: str, value: int, least: int, most: int | None = None) -> int:
    """A threshold that must be a whole number.

    Raises:
        ConfigError: it is no whole number from ``least`` to ``most``; names key and range.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        span = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{value!r} is out of range", key=key, hint=f"give a whole number {span}")
    return int(value)


def minimum_supports(
    head_size: Longs, *, min_head_coverage: float, min_support: int, min_head_size: int
) -> Longs:
    """The least support of each head relation; 0 where the relation is too rare to be a head.

    Args:
        head_size: int64 array of shape (R,), facts of each relation.
        min_head_coverage: least ``support / head_size``.
        min_support: least support of any rule, in facts.
        min_head_size: least facts of a head relation.
    """
    least = np.zeros(len(head_size), dtype=np.int64)
    for relation, size in enumerate(head_size.tolist()):
        if size < max(min_head_size, 1):
            continue
        needed = math.ceil(min_head_coverage * size)
        if needed and (needed - 1) / size >= min_head_coverage:
            needed -= 1  # 0.07 * 100 is 7.000000000000001, yet 7 of 100 cover 0.07
        least[relation] = max(needed, min_support, 1)
    return least


def functional_on_object(index: DirectedIndex) -> npt.NDArray[np.bool_]:
    """Whether the object is a relation's functional end, for each relation.

    AMIE predicts along the more functional direction: the object when the relation has more
    distinct objects than distinct subjects, else the subject.
    """
    distinct = np.diff(index.group_bounds)
    return distinct[index.num_relations :] > distinct[: index.num_relations]


def static_quality(
    support: int, head_size: int, body_size: int | None, pca_body_size: int
) -> RuleQuality:
    """The ratios of a static rule from its counts; without a body size no standard confidence."""
    return RuleQuality(
        support=support,
        head_coverage=support / head_size,
        standard_confidence=None if body_size is None else support / body_size,
        pca_confidence=support / pca_body_size,
        body_size=body_size,
        pca_body_size=pca_body_size,
    )
