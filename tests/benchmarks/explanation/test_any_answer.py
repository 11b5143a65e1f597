"""What counting every size of context alike costs and shows, in a few worlds of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.explanation.any_answer import WORLDS, measure_sizes

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "explanations"


def test_what_fails_in_large_contexts_is_certified_by_uniform_subsets_alone() -> None:
    uniform = [measure_sizes("1, not among 40 to 49", "uniform", seed) for seed in range(6)]
    by_size = [measure_sizes("1, not among 40 to 49", "by-size", seed) for seed in range(6)]
    assert sum(row["certified"] for row in uniform) >= 2
    assert min(row["worst_third"] for row in uniform) < 0.6
    assert not any(row["certified"] for row in by_size)


def test_what_always_holds_is_certified_and_costs_no_more() -> None:
    calls = {}
    for subsets in ("uniform", "by-size"):
        rows = [measure_sizes("2 + 2", subsets, seed) for seed in range(4)]
        assert all(row["right"] == row["certified"] == row["worst_third"] == 1 for row in rows)
        calls[subsets] = sum(row["calls"] for row in rows)
    assert calls["by-size"] <= calls["uniform"]


def test_the_committed_figures_are_those_of_every_world() -> None:
    rows = json.loads((RESULTS / "context_sizes.json").read_text(encoding="utf-8"))
    assert {(row["world"], row["subsets"]) for row in rows} == {
        (name, subsets) for name in WORLDS for subsets in ("uniform", "by-size")
    }
    by_size = {row["world"]: row for row in rows if row["subsets"] == "by-size"}
    for name, most in (("1", 75), ("2 + 2", 100), ("2 + 2 + 3 + 3", 165)):
        assert by_size[name]["most"] <= most
    for name, most in (("1", 100), ("2 + 2", 185), ("2 + 2 + 3 + 3", 440)):
        assert by_size[f"{name}, each"]["most"] <= most
