"""One small dated world for every test of the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.ruleqa import RuleQADataset
from rulerag.synthetic import World


@pytest.fixture(scope="session")
def dataset() -> RuleQADataset:
    world = World.generate(600, max_body_atoms=1)
    return world_dataset(world, mine_world(world)[0])


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for the folder: the corpus is encoded and indexed once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULERAG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
