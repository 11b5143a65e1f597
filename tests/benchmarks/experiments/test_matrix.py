"""With and without rules, everything else equal: what the pairs of the tables share."""

from __future__ import annotations

import pytest

from benchmarks.experiments.matrix.rows import PAIRS, READING_PAIRS, reading_row, row
from rulerag.assembly.presets import method
from rulerag.composition.config import Config
from rulerag.retrieval.guided.merging.control import DiversifiedRetriever
from rulerag.retrieval.guided.settings import GuidedSettings
from rulerag.ruleqa.settings import GRAPHS

RULES_AND_PLAIN = 9
"""Searches of a rule-guided row: its eight rules and the plain query."""


def retrieval(config: Config) -> dict[str, object]:
    """What decides the ten documents beside the rules: merging, depth, budget, what is searched."""
    merging = config.section("retriever")
    searches = RULES_AND_PLAIN if is_guided(config) else 1
    default = GuidedSettings()
    assert default.pool == 200
    assert default.power == (DiversifiedRetriever.__init__.__kwdefaults__ or {})["power"]
    learned = merging.get("weights") is not None
    inside = merging["retriever"].without("query_encoder").to_dict()
    return {
        "merging": "learned" if learned else "evidence",
        "depth": merging.read("pool", int, 200) * searches,
        "power": merging.read("power", float, default.power),
        "budget": config.read("top_k", int, 10),
        "retriever": inside,
    }


def is_guided(config: Config) -> bool:
    return bool(config["retriever.type"] == "guided")


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("ours", "control"), PAIRS)
def test_a_retriever_without_rules_is_as_deep_and_merged_alike(
    name: str, ours: str, control: str
) -> None:
    configs = [method(f"{one}__symbolic", name) for one in (ours, control)]
    with_rules, without = map(retrieval, configs)
    assert with_rules == without
    assert is_guided(configs[0]) and not is_guided(configs[1])
    assert bool(row(ours).training) == bool(row(control).training)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("ours", "control", "part"), READING_PAIRS)
def test_a_reading_pair_differs_in_its_rules_alone(
    name: str, ours: str, control: str, part: str
) -> None:
    with_rules, without = (method(one, name) for one in (ours, control))
    assert retrieval(with_rules) == retrieval(without)
    found = [is_guided(one) for one in (with_rules, without)]
    shown = [one.read("reader_rules", str, "selected") != "none" for one in (with_rules, without)]
    assert found[0] and shown[0]
    assert found[1] == (part == "reader") and shown[1] == (part == "retriever")
    readers = [one["generator"].without("adapter").to_dict() for one in (with_rules, without)]
    assert readers[0] == readers[1]
    assert bool(reading_row(ours).training) == bool(reading_row(control).training)
