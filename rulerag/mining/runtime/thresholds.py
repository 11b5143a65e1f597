"""Checks of thresholds."""

from __future__ import annotations

import numpy as np

from rulerag.errors import ConfigError


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
