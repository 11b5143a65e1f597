"""A dataset folder of a generated world, and frameworks that report nothing to their makers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rulerag import RuleQADataset
from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.integrations import System, open_system
from rulerag.synthetic import World
from rulerag.types import Query

for name in ("HAYSTACK_TELEMETRY_ENABLED", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING"):
    os.environ[name] = "false"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset folder with dates and rules of one atom; to be read only."""
    world = World.generate(1500, kind="temporal", max_body_atoms=1)
    place = tmp_path_factory.mktemp("datasets") / "temporal"
    world_dataset(world, mine_world(world)[0]).save(place)
    return place


@pytest.fixture(scope="session")
def system(folder: Path) -> System:
    """The folder with its default pipeline, and four documents a question."""
    return open_system(folder, top_k=4)


@pytest.fixture(scope="session")
def query(folder: Path) -> Query:
    """A test query whose documents lead to an answer."""
    return RuleQADataset.load(folder).query_set("full")[0]
