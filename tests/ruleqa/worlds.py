"""Small benchmarks of each kind, built of worlds that know their truth."""

from __future__ import annotations

from typing import Any

import pytest

from rulerag.kg.graph import KnowledgeGraph
from rulerag.ruleqa import RuleQASettings, build
from rulerag.ruleqa.dataset import RuleQADataset

SMALL = {
    "temporal": (
        "ruleqa-i",
        RuleQASettings(num_queries=40, miner="tlogic", min_support=10, min_confidence=0.3),
    ),
    "static": (
        "ruleqa-f",
        RuleQASettings(num_queries=40, miner="amie", max_atoms=3, min_confidence=0.3),
    ),
}
KINDS = pytest.mark.parametrize("kind", SMALL)
Graphs = dict[str, KnowledgeGraph]


def make(
    graphs: Graphs, kind: str, variant: str = "test", seed: int = 0, **changes: Any
) -> RuleQADataset:
    name, settings = SMALL[kind]
    settings = RuleQASettings.joined(settings, changes)
    return build(name, graphs[kind], settings=settings, variant=variant, seed=seed)
