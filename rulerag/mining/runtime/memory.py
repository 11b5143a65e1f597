"""Whether a run fits into memory, before it starts."""

from __future__ import annotations

import os

from rulerag.errors import MiningError


def available_memory() -> int | None:
    """Bytes that can be used without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(
    needed: int,
    max_memory_gb: float | None,
    what: str,
    hint: str = "raise max_memory_gb, or mine fewer facts (a time window)",
) -> None:
    """Refuse work whose estimate is above what it may use.

    Args:
        needed: bytes.
        max_memory_gb: what is allowed; the free memory when None.
        what: the work, and "needs".
        hint: what would help.

    Raises:
        MiningError: with both numbers and what would help.
    """
    allowed = available_memory() if max_memory_gb is None else max_memory_gb * 1e9
    if allowed is not None and needed > allowed:
        source = "is free" if max_memory_gb is None else "is allowed (max_memory_gb)"
        raise MiningError(
            f"{what} about {needed / 1e9:.2f} GB and {allowed / 1e9:.2f} GB {source}", hint=hint
        )
