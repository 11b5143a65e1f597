"""The tutorials: their blocks, run one after another, print what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import ROOT, alike, printed_and_shown


@pytest.mark.parametrize(("page", "blocks"), [("benchmark", 3), ("other-benchmarks", 2)])
def test_benchmarks(
    page: str, blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = list(printed_and_shown(ROOT / "docs" / f"{page}.md"))
    assert len(pairs) == blocks
    for printed, shown in pairs:
        assert printed == shown


@pytest.mark.slow
@pytest.mark.timeout(900)  # two trainings of each kind
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing")  # PEFT's, of transformers
def test_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    pairs = list(printed_and_shown(ROOT / "docs" / "train.md"))
    assert len(pairs) == 4
    for printed, shown in pairs:
        assert alike(printed, shown, within=0.1), f"{printed}\n\n{shown}"
