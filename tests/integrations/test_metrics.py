"""The metric of RAGAS and of DeepEval, evaluated by the real packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integrations.apart import run
from tests.integrations.systems import CONTEXTS, QUESTION, REASON, partly


@pytest.mark.parametrize("here", [True, False], ids=["pinned", "newest"])
def test_ragas(here: bool, tmp_path: Path) -> None:
    printed = run("ragas", tmp_path, "-m", "tests.integrations.measured", "ragas", here=here)
    assert json.loads(printed.splitlines()[-1]) == {
        "version": "0.3.1" if here else "0.4.3",
        "score": 2 / 3,
        "reason": REASON,
        "no claim": True,
        "evaluated": [2 / 3, 0],
    }


def test_deepeval(tmp_path: Path) -> None:
    printed = run("deepeval", tmp_path, "-m", "tests.integrations.measured", "deepeval")
    found = json.loads(printed.splitlines()[-1])
    assert "'retrieval_context' cannot be None" in found.pop("missing")
    assert found == {
        "version": "4.3.1",
        "score": 2 / 3,
        "reason": REASON,
        "passes 0.7": False,
        "by heart": 0,
        "no claim": True,
        "evaluated": {
            partly(QUESTION, CONTEXTS): [[2 / 3, True]],
            "It is Rome.": [[0, False]],
            "I don't know.": [],
        },
    }
