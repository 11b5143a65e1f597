"""Worlds on disk: the same world again, or a named error."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from rulerag.errors import DataError, DataFormatError, FingerprintError, OutputError
from rulerag.io import read_json, write_json
from rulerag.kg.graph import KnowledgeGraph
from rulerag.synthetic.world import World

KINDS = ("static", "temporal")


@cache
def world_of(kind: str, size: int, seed: int) -> World:
    return World.generate(size, kind=kind, seed=seed)


@pytest.mark.parametrize(
    ("kind", "size"), [("static", 100), ("static", 5_000), ("temporal", 5_000)]
)
def test_a_saved_world_comes_back_whole(kind: str, size: int, tmp_path: Path) -> None:
    world = world_of(kind, size, 0)
    world.save(tmp_path / "world")
    again = World.load(tmp_path / "world")
    assert (again.kind, again.seed, again.max_body_atoms) == (kind, 0, 2)
    assert again.planted == world.planted
    assert [p.rule.quality for p in again.planted] == [p.rule.quality for p in world.planted]
    for split in ("valid", "test"):
        assert list(again.queries_of(split)) == list(world.queries_of(split))
    assert again.graph.fingerprint == world.graph.fingerprint
    assert again.graph.entities.labels == world.graph.entities.labels
    assert again.graph.relations.labels == world.graph.relations.labels
    again.save(tmp_path / "copy")
    for name in ("train.txt", "valid.txt", "test.txt", "truth.json"):
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "world" / name).read_bytes()


def test_a_saved_world_is_a_graph_folder_like_any_other(tmp_path: Path) -> None:
    world = world_of("temporal", 5_000, 0)
    world.save(tmp_path)
    graph = KnowledgeGraph.load(tmp_path)
    assert graph.fingerprint == world.graph.fingerprint
    assert graph.calendar == world.graph.calendar
    line = (tmp_path / "train.txt").read_text().split("\n")[0].split("\t")
    assert len(line) == 4 and line[3] == "2020-01-01"
    # The truth is readable by hand: a query's line, and the lines of its facts.
    row = next(r for r in read_json(tmp_path / "truth.json")["queries"]["test"] if r["supports"])
    asked = (tmp_path / "test.txt").read_text().split("\n")[row["line"] - 1].split("\t")
    place = row["supports"][0]["train_lines"][-1] - 1
    fact = (tmp_path / "train.txt").read_text().split("\n")[place].split("\t")
    assert asked[2] in (fact[0], fact[2])


def test_saving_over_another_world_leaves_one_world(tmp_path: Path) -> None:
    world_of("temporal", 5_000, 0).save(tmp_path)
    world_of("static", 5_000, 0).save(tmp_path)
    assert World.load(tmp_path).kind == "static"


def test_changed_facts_do_not_match_their_truth(tmp_path: Path) -> None:
    world_of("static", 100, 0).save(tmp_path)
    path = tmp_path / "valid.txt"
    path.write_text("\n".join(reversed(path.read_text().split("\n"))))
    with pytest.raises(FingerprintError, match=r"valid\.txt: .*truth\.json"):
        World.load(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no truth\.json here"):
        World.load(tmp_path)
    with pytest.raises(DataError, match="nowhere"):
        World.load(tmp_path / "nowhere")
    world_of("static", 100, 0).save(tmp_path)
    (tmp_path / "test.txt").unlink()
    with pytest.raises(DataError, match=r"test\.txt"):
        World.load(tmp_path)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["format"], 99, "format 99"),
        (["sha256"], [], "not the truth of a world"),
        (["rules", 0, "head"], None, "atom"),
        (["rules", 0, "planted"], "high", "not the truth of a world"),
        (["queries", "test", 0, "line"], 10_000, "is not there"),
        (["queries", "test", 0, "line"], "one", "is not there"),
        (["queries", "test", 0, "line"], None, "is not there"),
        (["queries", "test", 0, "kind"], "odd", "not the truth of a world"),
        (["queries", "test", 0, "supports"], [{"rule": 99, "train_lines": [1]}], "not there"),
        (["queries", "test", 0, "supports"], [{"rule": 0, "train_lines": [0]}], "not there"),
        (["queries", "test"], [], "is not there"),
        (["queries", "test", 0, "supports"], [{"rule": 0, "train_lines": []}], "not there"),
        (["queries", "test", 0, "supports"], [{"rule": 0}], "not the truth of a world"),
        (["queries"], {}, "not the truth of a world"),
        (["sha256"], {}, "not the truth of a world"),
        (["seed"], None, "not the truth of a world"),
        (["queries"], None, "not the truth of a world"),
    ],
)
def test_a_broken_truth_is_refused(
    keys: list[str | int], value: object, message: str, tmp_path: Path
) -> None:
    world_of("static", 100, 0).save(tmp_path)
    path = tmp_path / "truth.json"
    content = read_json(path)
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    write_json(path, content)
    with pytest.raises(DataFormatError, match=message) as caught:
        World.load(tmp_path)
    assert caught.value.path == path


def test_a_truth_that_is_no_json_object_is_refused(tmp_path: Path) -> None:
    world_of("static", 100, 0).save(tmp_path)
    for text in ("[1]", "{", ""):
        (tmp_path / "truth.json").write_text(text)
        with pytest.raises(DataFormatError, match=r"truth\.json"):
            World.load(tmp_path)


def test_an_output_place_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="taken"):
        world_of("static", 100, 0).save(tmp_path / "taken")
