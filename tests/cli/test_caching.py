"""What is kept between commands: shown, cleared, and found again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.cache import remember


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RULERAG_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "rulerag"


def test_what_is_cached_is_shown_and_cleared(rulerag: Any, folder: Path) -> None:
    remember("bm25", "one", [1])
    remember("datasets", "two", [2])
    shown = rulerag("cache")
    assert shown.code == 0 and rulerag("cache", "show") == shown
    assert [line.split()[:3] for line in shown.out.splitlines()[:3]] == [
        ["kind", "files", "MB"],
        ["bm25", "1", "0.0"],
        ["datasets", "1", "0.0"],
    ]
    assert shown.out.endswith(f"MB in {folder}\n")
    assert rulerag("cache", "clear", "bm25").out == "cleared bm25: 1 files, 0.0 MB\n"
    assert rulerag("cache", "clear").out.startswith("cleared datasets: 1 files")
    assert rulerag("cache", "clear").out == "nothing was cached\n"


def test_what_cannot_be_cleared_is_named(rulerag: Any, refused: Callable[..., str]) -> None:
    assert "nothing of the kind 'bm52' is cached — did you mean 'bm25'?" in refused(
        "cache", "clear", "bm52"
    )
    assert "shown together" in refused("cache", "show", "bm25")
    assert rulerag("cache", "drop").code == 2
