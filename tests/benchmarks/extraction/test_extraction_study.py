"""The benchmark of extraction: a small run, and the page that shows the committed one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.extraction.__main__ import main
from benchmarks.extraction.study import TEXTS
from rulerag.synthetic import PARTS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_small_worlds_give_every_figure_and_a_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--worlds", "4", "--facts", "600", "--seeds", "5", "--out", str(tmp_path)]
    assert main([*command, "--kinds", "temporal"]) == 0
    assert "| dated | seen | patterns |" in capsys.readouterr().out
    assert main(command) == 0
    assert "| dated | seen | patterns |" not in capsys.readouterr().out
    worlds = json.loads((tmp_path / "extraction.json").read_text())["worlds"]
    assert [one["kind"] for one in worlds] == ["temporal", "static"]
    for world in worlds:
        assert list(world["parts"]) == list(PARTS)
        for rows in world["parts"].values():
            assert set(rows) == {"labels", "patterns", "facts"}
            assert rows["labels"]["f1"] <= rows["patterns"]["f1"]
        seen = world["parts"]["seen"]
        assert seen["patterns"]["f1"] > 1.2 * seen["labels"]["f1"] > 0
        assert list(world["texts"]) == list(TEXTS)
    table = (tmp_path / "extraction.md").read_text()
    assert table.count("\n| undated | ") == 2 * (8 + 6)
    assert main([*command, "--facts", "700"]) == 2
    assert "worlds of other settings" in capsys.readouterr().err


def test_the_page_shows_what_was_measured() -> None:
    page = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
    measured = (ROOT / "benchmarks" / "results" / "extraction" / "extraction.md").read_text("utf-8")
    means = measured.partition("\n\nWorld ")[0].splitlines()
    rows = [line for line in means if line.startswith(("| dated |", "| undated |"))]
    assert {line.split(" | ")[1] for line in rows} == {*PARTS, *TEXTS}
    assert set(rows) <= set(page.splitlines())
