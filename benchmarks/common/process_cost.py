"""What a fresh process costs: seconds and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

# What the system counts resident memory in.
_UNITS_OF_A_MB = 1024 * 1024 if sys.platform == "darwin" else 1024


def in_fresh_process(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a module of the benchmarks in a process of its own.

    Args:
        module: its name; it prints one JSON object.
        arguments: of its command line.
        environment: variables on top of those of this process.

    Returns:
        ``wall`` and ``cpu`` seconds and ``memory_mb`` of the whole process, and what it printed.

    Raises:
        RuntimeError: the process failed.
    """
    command: Sequence[str] = [sys.executable, "-m", module, *arguments]
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, **(environment or {})}
    ) as process:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(
            f"{module} {' '.join(arguments)} failed with status {process.returncode}"
        )
    return {
        "wall": wall,
        "cpu": usage.ru_utime + usage.ru_stime,
        "memory_mb": usage.ru_maxrss / _UNITS_OF_A_MB,
        **json.loads(output),
    }
