"""Worlds on disk: a graph folder like any other."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from rulerag.errors import OutputError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.synthetic.world import World

KINDS = ("static", "temporal")


@cache
def world_of(kind: str, size: int, seed: int) -> World:
    return World.generate(size, kind=kind, seed=seed)


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


def test_a_saved_world_is_a_graph_folder_like_any_other(tmp_path: Path) -> None:
    world = world_of("temporal", 5_000, 0)
    world.save(tmp_path)
    graph = KnowledgeGraph.load(tmp_path)
    assert graph.fingerprint == world.graph.fingerprint
    assert graph.calendar == world.graph.calendar
    line = (tmp_path / "train.txt").read_text().split("\n")[0].split("\t")
    assert len(line) == 4 and line[3] == "2020-01-01"


def test_saving_over_another_world_leaves_one_world(tmp_path: Path) -> None:
    world_of("temporal", 5_000, 0).save(tmp_path)
    world_of("static", 5_000, 0).save(tmp_path)
    assert not KnowledgeGraph.load(tmp_path).is_temporal


def test_an_output_place_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="taken"):
        world_of("static", 100, 0).save(tmp_path / "taken")
