"""The rows of the tuner are configurations that build and are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tuning.settings import TABLES, tune
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.composition.config import Config
from rulerag.synthetic.world import World


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RULERAG_CACHE", str(tmp_path / "cache"))


def test_rows_are_measured() -> None:
    world = World.generate(600, max_body_atoms=1)
    dataset = world_dataset(world, mine_world(world)[0])
    queries = dataset.query_set("supported")[:10]
    chosen = [
        row
        for row in TABLES["fusion"]
        if (row.retriever, row.change)
        in {("dense", "plain"), ("bm25 and dense", "reciprocal rank"), ("symbolic", "")}
    ]
    plain, fused, symbolic = tune(dataset, queries, chosen)
    assert plain["answer_recall@10_union"] == plain["answer_recall@10"]
    assert fused["documents_per_query_union"] > 10
    assert symbolic["answer_recall@10"] > plain["answer_recall@10"]
    assert all(0 <= one["exact_match"] <= 1 for one in (plain, fused, symbolic))


def test_every_row_is_another_configuration() -> None:
    for rows in TABLES.values():
        assert len({Config(row.settings).fingerprint for row in rows}) == len(rows)
