"""Programs with packages that do not go with the pins, run in a process of their own.

DeepEval and the newest RAGAS need other versions of shared packages than constraints.txt pins.
An environment for them, in the root of the checkout, is used where it is there::

    python3 -m venv .venv-metrics
    .venv-metrics/bin/pip install . ragas==0.4.3 deepeval==4.3.1 langchain-community==0.4.1
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APART = ROOT / ".venv-metrics" / "bin" / "python"
_QUIET = ("RAGAS_DO_NOT_TRACK", "DEEPEVAL_TELEMETRY_OPT_OUT", "DEEPEVAL_DISABLE_DOTENV")


def run(package: str, folder: Path, *words: str, here: bool = False) -> str:
    """What a Python program prints; skips, by name, where the package is not there.

    Args:
        package: what it needs.
        folder: where it runs.
        words: its arguments.
        here: by this Python, and not that of ``.venv-metrics``.
    """
    if here and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if not here and not APART.exists():
        pytest.skip(f"{package} needs .venv-metrics (tests/integrations/apart.py says how)")
    quiet = dict.fromkeys(_QUIET, "true")
    done = subprocess.run(
        [sys.executable if here else str(APART), *words],
        cwd=folder,
        env={**os.environ, **quiet, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
