"""Worlds of each kind, and the benchmarks built of them, once for all tests."""

from __future__ import annotations

import pytest

from rulerag.kg.graph import KnowledgeGraph
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.synthetic.world import World
from tests.ruleqa.worlds import SMALL, Graphs, make


@pytest.fixture(scope="session")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Graphs:
    """One small graph of each kind, saved and loaded as a user's would be."""
    loaded = {}
    for kind in SMALL:
        folder = tmp_path_factory.mktemp("worlds") / kind
        World.generate(3000, kind=kind).save(folder)
        loaded[kind] = KnowledgeGraph.load(folder)
    return loaded


@pytest.fixture(scope="session")
def built(graphs: Graphs) -> dict[str, RuleQADataset]:
    return {kind: make(graphs, kind) for kind in SMALL}
