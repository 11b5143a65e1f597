"""Checks of arguments: one named error for each way in which a value can be wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rulerag.errors import ConfigError, did_you_mean


def check_range(key: str, value: float, low: float, high: float = math.inf, hint: str = "") -> None:
    """Raise a ConfigError unless a number lies from ``low`` to ``high``."""
    if not low <= value <= high:
        known = f"{low} or more" if high == math.inf else f"from {low} to {high}"
        raise ConfigError(f"{value} is out of range", key=key, hint=hint or known)


def check_choice(key: str, value: str, known: Iterable[str], what: str = "") -> None:
    """Raise a ConfigError unless a name is known; ``what`` it names, the key if empty."""
    if value not in known:
        raise ConfigError(
            f"unknown {what or key} {value!r}", key=key, hint=did_you_mean(value, known)
        )
