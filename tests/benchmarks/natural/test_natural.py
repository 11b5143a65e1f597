"""A whole run on a small world, and one that goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.natural.__main__ import main
from benchmarks.natural.study import TITLES
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.io import read_json, read_jsonl, write_json
from rulerag.synthetic import World


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    world = World.generate(1500, kind="temporal", max_body_atoms=1)
    world_dataset(world, mine_world(world)[0]).save(tmp_path / "world")
    return tmp_path / "world"


def test_a_run_and_its_continuation(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [str(folder), "--out", str(out), "--questions", "30", "--linker", "letters"]
    arguments += ["--query-set", "supported"]
    assert main(arguments) == 0
    (file,) = out.glob("*.json")
    figures = read_json(file)
    (linked,) = out.glob("*-letters.jsonl")
    rows = list(read_jsonl(linked))
    assert len(rows) == 30
    right = sum(all(row["right"]) for row in rows) / len(rows)
    assert figures["linking"]["letters"]["all"] == pytest.approx(right, abs=0.04)
    forms = [row["form"] for row in figures["retrieval"]]
    assert sorted(forms) == sorted(TITLES)
    assert figures["known"]["precision"] == figures["known"]["recall"] == 1
    for row in figures["retrieval"]:
        assert row["added"] == pytest.approx(row["after"] - row["before"])
    assert "facts, exact questions" in capsys.readouterr().out
    kept = figures["retrieval"].pop(1)
    write_json(file, figures)
    assert main([*arguments, "--parts", "retrieval"]) == 0
    (again,) = [r for r in read_json(file)["retrieval"] if r["form"] == kept["form"]]
    assert {**again, "seconds": 0} == {**kept, "seconds": 0}
