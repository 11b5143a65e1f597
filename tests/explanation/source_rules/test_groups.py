from __future__ import annotations

import random

from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.sources import partition
from rulerag.explanation.records.results import CertifiedRules, ExactRules
from rulerag.explanation.source_rules.groups import grouped, groups_of, mine_in_groups
from tests.fakes import PlantedFunction, brute_force, planted_answer, planted_rule, random_function

A, B = planted_rule("a"), planted_rule("b")


def test_a_view_keeps_and_removes_whole_groups() -> None:
    function = PlantedFunction([f"{mask:04b}" for mask in range(16)])
    engine = ProbeEngine.from_function(function, num_sources=4)
    view = grouped(engine, {"front": [0, 2], "back": [3]})
    assert view.names == ("front", "back")
    assert view.probe([0, 1, 2, 3]) == ["0010", "0111", "1010", "1111"]  # source 1 always stays
    assert view.num_probes == engine.num_probes == 4


def test_rules_over_groups_are_those_of_the_coarser_function() -> None:
    chance = random.Random("groups")
    for _ in range(60):
        function = random_function(chance, max_sources=6)
        if function.num_sources < 3:
            continue
        engine = ProbeEngine.from_function(function, num_sources=function.num_sources)
        groups = {"g": [0, 1], "rest": list(range(2, function.num_sources))}
        found = mine_in_groups(engine, groups, lambda output: output == "yes")

        def holds(mask: int, f: PlantedFunction = function) -> bool:
            kept = (mask & 1) * 3 | (mask >> 1) * (len(f.outputs) - 4)
            return f.outputs[kept] == "yes"

        assert found.outer.minimal == brute_force(2, holds, "retention")[1]
        assert engine.num_probes == len(set(function.asked))


def test_groups_that_matter_are_opened() -> None:
    planted = PlantedAnswer(12, [{1, 7}])
    engine = planted.engine()
    groups = {"a": range(4), "b": range(4, 8), "c": range(8, 12)}
    found = mine_in_groups(engine, groups, planted.predicate)
    assert [rule.names for rule in found.outer.rules] == [("a", "b")]
    assert found.opened == ("a", "b")
    assert [rule.names for rule in found.inner.rules] == [("source 1", "source 7")]
    assert isinstance(found.inner, ExactRules)
    assert engine.num_probes < 2**9
    single = mine_in_groups(planted.engine(), {"x": [1], "y": [7]}, planted.predicate)
    assert single.inner is single.outer and single.opened == ()


def test_many_sources_inside_are_tested_on_random_subsets() -> None:
    planted = PlantedAnswer(40, [{1, 27}])
    found = mine_in_groups(
        planted.engine(), {"a": range(20), "b": range(20, 40)}, planted.predicate
    )
    assert isinstance(found.inner, CertifiedRules)
    assert [rule.names for rule in found.inner.rules] == [("source 1", "source 27")]


def test_omission_rules_in_groups() -> None:
    planted = PlantedAnswer(8, [{1}, {6}])
    found = mine_in_groups(
        planted.engine(),
        {"a": range(4), "b": range(4, 8)},
        lambda output: output == "no",
        kind="omission",
    )
    assert [rule.names for rule in found.outer.rules] == [("a", "b")]
    assert [rule.names for rule in found.inner.rules] == [("source 1", "source 6")]


def test_groups_by_document_and_by_rule() -> None:
    texts = ["One. Two.", "Three.", "Four.", "Five."]
    answer = planted_answer("x", [[A], [None, B], [None], [B, A]], rules=(A, B), texts=texts)
    sentences = partition(answer.request().documents, "sentence")
    of_document = groups_of(answer, sentences, "document")
    assert of_document == {"D1": [0, 1], "D2": [2], "D3": [3], "D4": [4]}
    assert groups_of(answer, sentences, "rule") == {"R1": [0, 1], "R2": [2, 4], "query": [3]}
