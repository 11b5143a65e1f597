"""``py.typed`` from outside: a program that uses the public API, for type checkers and Python."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rulerag.ruleqa import build
from rulerag.synthetic import World
from tests import outside


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("mypy", ("--strict", "--cache-dir", "cache", "--python-executable", sys.executable)),
        ("pyright", ("--pythonpath", sys.executable)),
    ],
)
@pytest.mark.slow
def test_a_program_that_uses_the_api_has_types(
    program: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    found = shutil.which(program, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{program} is not installed")
    shutil.copy(outside.__file__, tmp_path / "program.py")
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    command = [found, *options, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_and_it_runs(tmp_path: Path) -> None:
    assert outside.explained(["a"]) == ["a", "<!doctype", "a"]
    assert outside.searched(["one", "a word"]) == ["1"] and outside.lattice() == [[0]]
    assert asyncio.run(outside.streamed(["a"]))[-1] == "end"
    world = World.generate(900, seed=1).graph
    build("ruleqa-i", world).save(tmp_path / "dataset")
    assert "[" in outside.answered(tmp_path / "dataset")
    graph = tmp_path / "graph"
    graph.mkdir()
    static = World.generate(2000, kind="static", seed=1).graph.train
    lines = ["\t".join(fact[:3]) for fact in static]
    (graph / "train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert len(outside.mined(graph))
