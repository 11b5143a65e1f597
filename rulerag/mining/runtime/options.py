"""How a mining run is done, whatever is mined: settings that all miners share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pydantic

from rulerag.composition import Settings
from rulerag.errors import ConfigError
from rulerag.mining.runtime.thresholds import check_count


class RunOptions(Settings):
    """Settings of every miner; no result depends on them.

    Args:
        threads: threads of this process that work on relations.
        progress: show progress bars.
        max_memory_gb: refuse facts whose estimate is above it; the free memory when None.
        checkpoint: a folder for finished relations; an interrupted run resumes from it.

    Raises:
        ConfigError: an option is out of range; names it and the range.
    """

    threads: int = 1
    progress: bool = False
    max_memory_gb: float | None = None
    checkpoint: str | Path | None = None

    @pydantic.field_validator("threads", mode="before")
    @classmethod
    def _at_least_one(cls, value: Any) -> int:
        return check_count("threads", value, 1)

    @pydantic.field_validator("max_memory_gb")
    @classmethod
    def _positive(cls, value: float | None) -> float | None:
        if value is not None and not value > 0:
            raise ConfigError(
                f"{value!r} is out of range", key="max_memory_gb", hint="give a positive number"
            )
        return value
