from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rulerag.errors import ConfigError, ExplanationError, PredicateError
from rulerag.explanation import lattice
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.records import ExactRules
from rulerag.explanation.search.exact import DualMiner, MonoMiner
from tests.fakes import PlantedFunction, brute_force, random_function, subset_of
from tests.planted import PlantedAnswer

KINDS = ("retention", "omission")


def yes(output: str) -> bool:
    return output.startswith("yes")


def mine(function: PlantedFunction, kind: str, predicate: Callable[[str], bool]) -> ExactRules:
    engine = ProbeEngine.from_function(function, num_sources=function.num_sources)
    rules = MonoMiner(kind).mine(engine, predicate)
    assert rules.num_probes == engine.num_probes == len(function.asked)
    assert len(set(function.asked)) == len(function.asked)
    return rules


def needed(valid: set[frozenset[int]], num_sources: int, kind: str) -> set[int]:
    """The masks of the valid sets and of the maximal invalid ones, as the subsets to ask."""
    masks = {lattice.mask_of(s) for s in valid}
    sets = {
        m
        for m in range(1 << num_sources)
        if m in masks or all(m | 1 << i in masks for i in range(num_sources) if not m >> i & 1)
    }
    full = lattice.full_mask(num_sources)
    return sets if kind == "retention" else {full ^ m for m in sets}


@pytest.mark.parametrize("kind", KINDS)
def test_mono_agrees_with_brute_force_and_asks_no_more_than_needed(kind: str) -> None:
    chance = random.Random(kind)
    for _ in range(600):
        function = random_function(chance)
        rules = mine(function, kind, yes)
        valid, minimal = brute_force(
            function.num_sources, lambda mask, f=function: yes(f.outputs[mask]), kind
        )
        assert rules.valid == valid and rules.minimal == minimal
        assert set(function.asked) == needed(valid, function.num_sources, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_minimal_rules_are_the_minimal_transversals(kind: str) -> None:
    chance = random.Random(f"transversals {kind}")
    for _ in range(150):
        function = random_function(chance, max_sources=9)
        full = lattice.full_mask(function.num_sources)
        failing = [mask for mask, output in enumerate(function.outputs) if not yes(output)]
        edges = failing if kind == "omission" else [full ^ mask for mask in failing]
        expected = {subset_of(mask) for mask in lattice.minimal_transversals(edges)}
        assert mine(function, kind, yes).minimal == expected


def test_opposite_rules_never_contradict_and_are_dual_where_every_subset_falls_under_one() -> None:
    chance, dual = random.Random("duality"), 0
    for _ in range(200):
        function = random_function(chance)
        full = lattice.full_mask(function.num_sources)
        engine = ProbeEngine.from_function(function, num_sources=function.num_sources)
        found = DualMiner().mine(engine, retention=yes, omission=lambda o: not yes(o))
        kept, removed = (set(part.minimal_masks) for part in found)
        assert all(one & other for one in kept for other in removed)
        undecided = any(
            all(one & ~mask for one in kept) and all(one & mask for one in removed)
            for mask in range(full + 1)
        )
        assert (removed == set(lattice.minimal_transversals(kept))) == (not undecided)
        dual += not undecided
    assert 30 < dual < 170


def test_dual_finds_both_kinds_and_shares_the_probes() -> None:
    chance = random.Random("dual")
    shared = 0
    for _ in range(150):
        function = random_function(chance)
        table = [f"{output}{chance.randrange(2)}" for output in function.outputs]
        other = chance.choice((lambda o: not yes(o), lambda o: o.endswith("1"), yes))
        asked = []
        dual = PlantedFunction(table)
        engine = ProbeEngine.from_function(dual, num_sources=dual.num_sources)
        found = DualMiner().mine(engine, retention=yes, omission=other)
        for rules, kind, predicate in zip(found, KINDS, (yes, other), strict=True):
            alone = PlantedFunction(table)
            mono = mine(alone, kind, predicate)
            assert rules.kind == kind
            assert rules.valid == mono.valid and rules.minimal == mono.minimal
            assert rules.num_probes == mono.num_probes
            asked.append(set(alone.asked))
        assert len(set(dual.asked)) == len(dual.asked) == engine.num_probes
        assert set(dual.asked) == asked[0] | asked[1]
        shared += len(asked[0] & asked[1])
    assert shared > 0


@given(
    st.integers(0, 5).flatmap(lambda n: st.lists(st.booleans(), min_size=1 << n, max_size=1 << n))
)
def test_laws(truth: list[bool]) -> None:
    function = PlantedFunction(["yes" if t else "no" for t in truth])
    num_sources = function.num_sources
    full = lattice.full_mask(num_sources)
    retention = mine(function, "retention", yes)
    mirrored = PlantedFunction([function.outputs[full ^ m] for m in range(full + 1)])
    omission = mine(mirrored, "omission", yes)
    # Omitting is retaining the complement: a mirrored function swaps the two kinds.
    assert retention.minimal == omission.minimal and retention.valid == omission.valid
    masks = {lattice.mask_of(rule) for rule in retention.minimal}
    assert lattice.minimal_elements(masks) == masks
    above = {m for m in range(full + 1) if any(small & ~m == 0 for small in masks)}
    assert retention.valid == {subset_of(m) for m in above}
    assert (frozenset() in retention.minimal) == all(truth)
    assert bool(retention.minimal) == truth[full]


def test_twenty_sources_when_the_predicate_allows() -> None:
    def answer(batch: list[tuple[int, ...]]) -> list[str]:
        return ["yes" if {*range(12)} <= set(kept) else "no" for kept in batch]

    engine = ProbeEngine.from_function(answer, num_sources=20)
    rules = MonoMiner("retention").mine(engine, yes)
    assert rules.minimal == {frozenset(range(12))}
    assert len(rules.valid) == 1 << 8 and rules.num_probes == (1 << 8) + 12


def test_more_than_twenty_sources_are_refused_with_cost_and_alternative() -> None:
    engine = ProbeEngine.from_function(lambda kept: ["yes"] * len(kept), num_sources=21)
    with pytest.raises(ExplanationError, match=r"2,097,152 probes.*CertifiedMiner"):
        MonoMiner("omission").mine(engine, yes)
    assert engine.num_probes == 0


def test_a_budget_stops_with_what_is_certain() -> None:
    chance = random.Random("budget")
    stopped = 0
    for _ in range(400):
        function = random_function(chance, max_sources=5)
        whole = {kind: mine(PlantedFunction(function.outputs), kind, yes) for kind in KINDS}
        budget = chance.randrange(1 + (1 << function.num_sources))
        engine = ProbeEngine.from_function(
            function, num_sources=function.num_sources, max_probes=budget
        )
        found = DualMiner().mine(engine, retention=yes, omission=yes)
        assert len(function.asked) <= budget
        stopped += not all(part.complete for part in found)
        for part in found:
            assert part.minimal <= whole[part.kind].minimal
            assert part.valid <= whole[part.kind].valid
            assert part.complete == (not part.ended)
            if part.ended:
                assert f"budget of {budget} probes" in part.ended
                assert "certain, there may be more" in str(part)
            else:
                assert part.minimal == whole[part.kind].minimal
                assert part.valid == whole[part.kind].valid
    assert 50 < stopped < 400


def test_an_exact_budget_is_enough_and_a_warm_engine_is_not_asked_again() -> None:
    function = PlantedFunction(["no", "yes", "yes", "yes"])
    engine = ProbeEngine.from_function(function, num_sources=2, max_probes=4)
    first = MonoMiner("retention").mine(engine, yes)
    second = MonoMiner("retention").mine(engine, yes)
    assert first.complete and len(function.asked) == 4 == engine.num_probes
    assert second.minimal == first.minimal and second.num_probes == first.num_probes


def test_a_predicate_sees_each_distinct_output_once() -> None:
    seen: list[str] = []
    engine = ProbeEngine.from_function(PlantedFunction(["a", "b"] * 8), num_sources=4)
    MonoMiner("retention").mine(engine, lambda output: bool(seen.append(output)) or True)
    assert sorted(seen) == ["a", "b"]


def test_a_predicate_that_fails_is_named_with_the_output() -> None:
    engine = ProbeEngine.from_function(PlantedFunction(["Paris, France"] * 4), num_sources=2)
    with pytest.raises(PredicateError, match=r"ZeroDivisionError.*on the output 'Paris, France'"):
        MonoMiner("retention").mine(engine, lambda output: bool(1 / 0))
    with pytest.raises(PredicateError, match=r"returned None on the output 'Paris, France'.*True"):
        MonoMiner("omission").mine(engine, lambda output: None)  # type: ignore
    kept = MonoMiner("retention").mine(engine, lambda output: np.bool_(True))  # type: ignore
    assert kept.minimal == {frozenset()}


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'retention'"):
        MonoMiner("retentions")


def test_results_print() -> None:
    function = PlantedFunction(["yes" if m in (3, 7, 5, 6) else "no" for m in range(8)])
    engine = ProbeEngine.from_function(function, num_sources=3, names=["D1", "D2", "D3"])
    rules = MonoMiner("retention").mine(engine, yes)
    assert str(rules).splitlines() == [
        "3 minimal retention rules (4 valid of 8 subsets, 7 probes)",
        "  holds whenever D1 and D2 are kept together",
        "  holds whenever D1 and D3 are kept together",
        "  holds whenever D2 and D3 are kept together",
    ]
    first = rules.rules[0]
    assert (first.kind, first.sources, first.names) == ("retention", {0, 1}, ("D1", "D2"))
    assert len(rules) == 3 and first.certificate.always and first.certified and first.bound == 1
    removed = MonoMiner("omission").mine(engine, lambda output: output == "no")
    assert "  holds whenever D1 and D2 are both removed" in str(removed)
    assert str(MonoMiner("omission").mine(engine, bool).rules[0]).startswith("holds whatever")
    many = PlantedFunction(["yes" if m.bit_count() >= 4 else "no" for m in range(1 << 8)])
    lines = str(mine(many, "retention", yes)).splitlines()
    assert lines[0].startswith("70 minimal") and lines[-1] == "  … and 50 more"


# --- the planted answers that searches are tried on ----------------------------------------------


@pytest.mark.parametrize("clauses", [[{0, 1}, {2}], [{0}, {0, 1}], [set()], [], [{0, 1}, {1, 2}]])
def test_planted_rules_are_those_of_a_brute_force(clauses: list[set[int]]) -> None:
    planted = PlantedAnswer(4, clauses)
    assert planted.minimal() == brute_force(4, planted.says_yes, "retention")[1]
    silent = brute_force(4, lambda mask: not planted.says_yes(mask), "omission")[1]
    assert planted.minimal("omission") == silent


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_validity_of_a_planted_rule_is_its_share_of_subsets(noise: float) -> None:
    planted = PlantedAnswer(12, [{0, 1}, ({2, 3}, {4}), {1, 5}], noise=noise, seed=3)
    for sources in ((), (0,), (0, 1), (2, 3), (2, 3, 4), (4, 5)):
        kept = sum(1 << source for source in sources)
        held = [planted.says_yes(mask) for mask in range(1 << 12) if kept & ~mask == 0]
        tolerance = 0.05 if noise else 1e-12
        assert planted.validity(sources) == pytest.approx(np.mean(held), abs=tolerance)
