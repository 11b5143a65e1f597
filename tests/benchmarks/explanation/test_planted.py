"""Known truth by every way in, in two worlds each; and the committed figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from benchmarks.explanation.planted import PLANTED, WAYS, WORLDS, by_python, disjoint, measure, run

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "explanations"


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_is_exact_and_certified(way: str) -> None:
    row = measure(partial(disjoint, 2, 2), WAYS[way], 2)
    assert row["exact"] == row["certified"] == 2 and row["worst_third"] == 1


def test_the_command_asks_what_the_function_asks() -> None:
    rows = [
        measure(partial(disjoint, 1), WAYS[way], 2)
        for way in ("rulerag.explain", "rulerag explain")
    ]
    assert rows[0] == rows[1]


def test_what_fails_in_large_contexts_is_certified_by_uniform_subsets_alone() -> None:
    make, each = WORLDS["1, not among 40 to 49"]
    uniform, by_size = (
        measure(make, partial(by_python, each=each, subsets=subsets), 6)
        for subsets in ("uniform", "by-size")
    )
    assert uniform["certified"] >= 2 and uniform["worst_third"] < 0.6
    assert by_size["certified"] == 0


def test_the_table_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(out=tmp_path, worlds=1)
    text = (tmp_path / "planted.md").read_text(encoding="utf-8")
    assert text == capsys.readouterr().out
    assert text.splitlines()[2].startswith("| 1 | rulerag.explain | ")
    assert len(text.splitlines()) == 2 + len(WAYS) * len(PLANTED)
