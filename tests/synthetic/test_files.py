"""Worlds on disk: a graph folder like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import OutputError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.synthetic.world import World
from tests.synthetic.worlds import world_of


@pytest.mark.parametrize(
    ("kind", "size"), [("static", 100), ("static", 5_000), ("temporal", 5_000)]
)
def test_equal_worlds_make_equal_files(kind: str, size: int, tmp_path: Path) -> None:
    world_of(kind, size, 0).save(tmp_path / "world")
    World.generate(size, kind=kind, seed=0).save(tmp_path / "copy")
    for name in ("train.txt", "valid.txt", "test.txt"):
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "world" / name).read_bytes()
    graph = KnowledgeGraph.load(tmp_path / "world")
    assert graph.fingerprint == world_of(kind, size, 0).graph.fingerprint
    assert graph.calendar == world_of(kind, size, 0).graph.calendar


def test_saving_over_another_world_leaves_one_world(tmp_path: Path) -> None:
    world_of("temporal", 5_000, 0).save(tmp_path)
    world_of("static", 5_000, 0).save(tmp_path)
    assert not KnowledgeGraph.load(tmp_path).is_temporal


def test_an_output_place_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="taken"):
        world_of("static", 100, 0).save(tmp_path / "taken")
