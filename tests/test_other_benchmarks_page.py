"""The page about benchmarks of others: its blocks print what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import ROOT, printed_and_shown


def test_the_page_prints_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = list(printed_and_shown(ROOT / "docs" / "other-benchmarks.md"))
    assert len(pairs) == 2
    for printed, shown in pairs:
        assert printed == shown
