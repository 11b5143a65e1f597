"""Where the data sets, the published results and the figures of papers are."""

from __future__ import annotations

import os
from pathlib import Path

from rulerag.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
PUBLISHED = ROOT / "benchmarks" / "results" / "published"
"""The figures that papers print."""


def data_folder() -> Path:
    """The folder of the data sets: ``RULERAG_DATA``, or ``shared/data`` beside the checkout."""
    return _base("data")


def shared_folder(kind: str, name: str) -> Path:
    """The folder ``name`` of the data sets (``data``) or of the published results (``reference``).

    Raises:
        DataError: it is missing; names the environment variable that says where it is.
    """
    base = _base(kind)
    if not (base / name).exists():
        hint = f"set RULERAG_{kind.upper()} to the folder above it"
        raise DataError("missing", path=base / name, hint=hint)
    return base / name


def _base(kind: str) -> Path:
    return Path(os.environ.get(f"RULERAG_{kind.upper()}") or ROOT.parent / "shared" / kind)
