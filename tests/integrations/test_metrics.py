"""The metric of RAGAS and of DeepEval, evaluated by the real packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integrations.apart import run
from tests.integrations.systems import CONTEXTS, QUESTION, REASON, partly


@pytest.mark.parametrize("here", [True, False], ids=["pinned", "newest"])
def test_ragas(here: bool, tmp_path: Path) -> None:
    printed = run("ragas", tmp_path, "-m", "tests.integrations.measured_by_ragas", here=here)
    found = json.loads(printed.splitlines()[-1])
    assert found.pop("version") == ("0.3.1" if here else "0.4.3")
    assert found == {
        "score": 2 / 3,
        "reason": REASON,
        "no claim": True,
        "evaluated": [2 / 3, 0],
    }


def test_deepeval(tmp_path: Path) -> None:
    printed = run("deepeval", tmp_path, "-m", "tests.integrations.measured_by_deepeval")
    found = json.loads(printed.splitlines()[-1])
    assert found.pop("version") == "4.3.1"
    assert "'retrieval_context' cannot be None" in found.pop("missing")
    assert found == {
        "score": 2 / 3,
        "reason": REASON,
        "passes 0.7": False,
        "by heart": 0,
        "no claim": True,
        "evaluated": {
            f"{QUESTION} {partly(QUESTION, CONTEXTS)}": [[2 / 3, True]],
            f"{QUESTION} It is Rome.": [[0, False]],
            f"{QUESTION} I don't know.": [],
        },
    }
