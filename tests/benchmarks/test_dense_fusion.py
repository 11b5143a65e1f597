"""The rows of the fusion benchmark are configurations that build and are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fusion import ROWS, measure
from rulerag.demo import mine_world, world_dataset
from rulerag.kg.worlds import World


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))


def test_rows_are_measured() -> None:
    world = World.generate(600, max_body_atoms=1)
    dataset = world_dataset(world, mine_world(world)[0])
    queries = dataset.query_set("supported")[:10]
    chosen = [*list(ROWS)[:1], "BM25 and dense, guided, reciprocal rank", "symbolic"]
    figures = {name: measure(dataset, queries, ROWS[name], top_k=3) for name in chosen}
    for name, row in figures.items():
        union = row["answer_recall_union"]
        assert 0 <= (row["answer_recall"] or 0) <= 1
        assert (union is None) == ("plain" in name and "fused" not in name)
    assert (figures["symbolic"]["answer_recall"] or 0) > (
        figures["dense, plain"]["answer_recall"] or 0
    )
