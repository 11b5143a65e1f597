"""What the tests of the command line share: graphs and datasets in folders, and a way to run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.cli import main
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World


class Result(NamedTuple):
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def quiet_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library first imported in one test logs to that test's stderr, which is closed in others.

    A process of its own, as users have, keeps its stderr.
    """
    monkeypatch.setattr(logging, "raiseExceptions", False)


@pytest.fixture
def rulerag(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = stop.value.code
        return Result(code if isinstance(code, int) else 0, out, err)

    return run


@pytest.fixture
def refused(rulerag: Run) -> Callable[..., str]:
    """Runs a command that must be refused; gives the one message that it writes."""

    def run(*arguments: object) -> str:
        result = rulerag(*arguments)
        assert result.code == 2, result
        lines = result.err.strip().splitlines()
        assert len(lines) == 1, result.err
        assert lines[0].startswith("error: ")
        return lines[0]

    return run


@pytest.fixture(scope="session")
def worlds() -> dict[str, World]:
    """One small world of each kind, with rules of one atom."""
    return {k: World.generate(1500, kind=k, max_body_atoms=1) for k in ("temporal", "static")}


@pytest.fixture(scope="session")
def graphs(worlds: dict[str, World], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The graph folders of the worlds."""
    folders = {}
    for kind, world in worlds.items():
        folders[kind] = tmp_path_factory.mktemp("graphs") / kind
        world.save(folders[kind])
    return folders


@pytest.fixture(scope="session")
def datasets(worlds: dict[str, World], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The dataset folders of the worlds; to be read only."""
    folders = {}
    for kind, world in worlds.items():
        folders[kind] = tmp_path_factory.mktemp("datasets") / kind
        world_dataset(world, mine_world(world)[0]).save(folders[kind])
    return folders


@pytest.fixture(scope="session")
def dated(datasets: dict[str, Path]) -> Path:
    """The dataset folder of the dated world."""
    return datasets["temporal"]


@pytest.fixture(scope="session")
def dated_dataset(dated: Path) -> RuleQADataset:
    """What stands in that folder."""
    return RuleQADataset.load(dated)


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A path that nobody can write, not even the system's owner: it lies below a file."""
    file = tmp_path / "file"
    file.write_text("in the way\n")
    return file / "below"


@pytest.fixture
def experiment(dated: Path, tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a small experiment file over a dataset, with further lines."""

    def write(more: str = "", dataset: Path = dated) -> Path:
        file = tmp_path / "experiment.yaml"
        file.write_text(
            "metadata: {benchmark: world, method: symbolic}\n"
            f"dataset: {{path: {dataset}, query_set: full}}\n"
            "selector: {type: head}\nretriever: {type: symbolic}\n"
            + ("" if "generator:" in more else "generator: {type: symbolic}\n")
            + f"top_k: 10\n{more}"
        )
        return file

    return write
