"""How a mining run is done, whatever is mined: settings that all miners share."""

from __future__ import annotations

from pathlib import Path

import pydantic

from rulerag.composition import Settings


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

    threads: int = pydantic.Field(default=1, ge=1)
    progress: bool = False
    max_memory_gb: float | None = pydantic.Field(default=None, gt=0)
    checkpoint: str | Path | None = None
