from __future__ import annotations

import itertools
import random
from functools import partial

import pytest

from rulerag.errors import ExplanationError, ProbeBudgetError
from rulerag.explanation.attribution.counterfactual import (
    Counterfactuals,
    counterfactual_sets,
    smallest_changes,
)
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.lattice import indices_of, mask_of, minimal_transversals
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.source_rules.certified import CertifiedMiner
from rulerag.explanation.source_rules.hitting_sets import RuleChanges, smallest_hitting_sets
from rulerag.explanation.source_rules.monotone_search import RuleOracle
from tests.fakes import PlantedFunction, random_function, subset_of

smallest_removals = partial(smallest_changes, change="removed")
smallest_subsets = partial(smallest_changes, change="kept")


def yes(output: str) -> bool:
    return output.startswith("yes")


def smallest(function: PlantedFunction, *, removed: bool) -> set[frozenset[int]]:
    full = len(function.outputs) - 1
    sets = [
        mask
        for mask in range(full + 1)
        if yes(function.outputs[full ^ mask if removed else mask]) != removed
    ]
    least = min((mask.bit_count() for mask in sets), default=0)
    return {subset_of(mask) for mask in sets if mask.bit_count() == least}


def test_smallest_sets_agree_with_brute_force() -> None:
    chance = random.Random("counterfactuals")
    for _ in range(300):
        function = random_function(chance)
        engine = ProbeEngine.from_function(function, num_sources=function.num_sources)
        kept = smallest_subsets(engine, yes)
        assert kept.sets == smallest(function, removed=False) and kept.complete
        if yes(function.outputs[-1]):
            removed = smallest_removals(engine, yes)
            assert removed.sets == smallest(function, removed=True) and removed.complete
            assert frozenset() not in removed.sets


def test_levels_stop_at_the_first_size_that_changes_something() -> None:
    planted = PlantedAnswer(20, [{4, 5}, {6, 7}])
    engine = planted.engine()
    found = smallest_removals(engine, planted.predicate)
    assert found.sets == {frozenset(pair) for pair in itertools.product((4, 5), (6, 7))}
    assert found.num_probes == 1 + 20 + 190 == engine.num_probes
    kept = smallest_subsets(engine, planted.predicate)
    assert kept.sets == {frozenset({4, 5}), frozenset({6, 7})}


def test_changes_of_50_sources_come_from_the_rules() -> None:
    clauses = [{3, 17}, {8, 21, 30}, {2, 40}]
    planted = PlantedAnswer(50, clauses)
    engine = planted.engine()
    CertifiedMiner("retention").mine(engine, planted.predicate)
    mined = engine.num_probes
    removed, kept = (
        search(engine, planted.predicate) for search in (smallest_removals, smallest_subsets)
    )
    assert removed.sets == frozenset(map(frozenset, itertools.product(*clauses)))
    assert kept.sets == {frozenset({3, 17}), frozenset({2, 40})}
    assert removed.complete and kept.complete and removed.from_rules and kept.from_rules
    # Enumeration asks 1 + 50 + 1,225 + 19,600 = 20,876; what was mined is known.
    assert engine.num_probes - mined <= 50 and len(removed.sets) == 12
    alone = planted.engine()
    assert smallest_removals(alone, planted.predicate).sets == removed.sets
    assert alone.num_probes < 150
    for one in removed.sets:  # each was tried
        assert alone.known_codes([(1 << 50) - 1 - mask_of(one)]).tolist() != [-1]
    assert "12 smallest sets that, when removed, change the answer" in str(removed)
    assert "from the mined rules: each was tried, smaller ones were not all" in str(removed)
    assert Counterfactuals.from_json(removed.to_json()) == removed
    old = {key: value for key, value in removed.to_json().items() if key != "from_rules"}
    assert not Counterfactuals.from_json(old).from_rules


def test_changes_by_rules_agree_with_brute_force_where_more_sources_help() -> None:
    chance = random.Random("rules")
    for _ in range(300):
        count = chance.randrange(1, 8)
        clauses = [chance.sample(range(count), chance.randint(1, count)) for _ in range(4)]
        planted = PlantedAnswer(count, clauses[: chance.randrange(1, 5)])
        function = PlantedFunction(planted([indices_of(mask) for mask in range(1 << count)]))
        for removed in (True, False):
            oracle = RuleOracle("retention", planted.engine(), planted.predicate)
            changes = RuleChanges(oracle)
            changes.removals() if removed else changes.subsets()
            found = {frozenset(indices_of(mask)) for mask in changes.found}
            assert found == smallest(function, removed=removed) and changes.complete


def test_every_change_named_was_tried_though_outputs_are_uneven() -> None:
    for seed in range(20):
        planted = PlantedAnswer(30, [{1, 2}, {3, 4, 5}, {6}], noise=0.05, seed=seed)
        if not planted.says_yes((1 << 30) - 1):
            continue
        engine = planted.engine()
        removed = smallest_removals(engine, planted.predicate)
        kept = smallest_subsets(engine, planted.predicate)
        for one in removed.sets:
            assert not planted.says_yes((1 << 30) - 1 & ~mask_of(one))
        assert all(planted.says_yes(mask_of(one)) for one in kept.sets)
        assert kept.sets and engine.num_probes < 3000


def test_an_answer_that_needs_no_source_may_still_hang_on_one_that_guards_it() -> None:
    # Says yes by itself, and no when source 7 misleads it and source 9 does not set it right.
    planted = PlantedAnswer(25, [([], [7]), ([9], [])])
    found = smallest_removals(planted.engine(), planted.predicate)
    assert found.sets == {frozenset({9})} and found.complete
    certain = smallest_removals(PlantedAnswer(25, [[]]).engine(), yes)
    assert certain.sets == frozenset() and not certain.complete and certain.searched == 1
    assert "of at most 1 sources" in str(certain) and "the mined rules lead" in str(certain)


def test_a_budget_holds_for_changes_from_rules_too() -> None:
    planted = PlantedAnswer(40, [{0, 1}, {2, 3}, {4, 5}])
    with pytest.raises(ProbeBudgetError, match="0 sets found until then") as caught:
        smallest_removals(planted.engine(max_probes=15), planted.predicate)
    assert isinstance(caught.value.partial, Counterfactuals)
    sets, enough = counterfactual_sets(planted.engine(max_probes=15), planted.predicate)
    assert not enough and all(not one.complete for one in sets)
    with pytest.raises(ExplanationError, match="nothing to change"):
        smallest_removals(PlantedAnswer(40, []).engine(), yes)


def test_more_changes_than_can_be_tried_are_said_to_be_cut_short() -> None:
    planted = PlantedAnswer(60, [range(10 * n, 10 * n + 10) for n in range(5)])
    found = smallest_removals(planted.engine(), planted.predicate)  # 100,000 of them
    assert not found.complete and {len(one) for one in found.sets} == {5}
    assert 100 <= len(found.sets) <= found.num_probes < 600
    assert str(found).splitlines()[-1] == "  The search was cut short: there may be others."
    assert str(found).splitlines()[-2] == f"  … and {len(found.sets) - 20} more"


def test_hitting_sets_are_the_smallest_transversals() -> None:
    chance = random.Random("hitting")
    for _ in range(500):
        count = chance.randrange(1, 9)
        edges = [chance.randrange(1, 1 << count) for _ in range(chance.randrange(7))]
        every = set(minimal_transversals(edges))
        least = min(mask.bit_count() for mask in every)
        found = list(smallest_hitting_sets(edges, count))
        assert len(found) == len(set(found))
        assert set(found) == {mask for mask in every if mask.bit_count() == least}
        assert list(smallest_hitting_sets(edges, least - 1)) == []
    assert list(smallest_hitting_sets([0, 3], 5)) == []


def test_a_budget_says_what_was_searched() -> None:
    planted = PlantedAnswer(10, [{0, 1}, {2, 3}, {4, 5}])
    with pytest.raises(ProbeBudgetError, match="fewer than 2 sources") as caught:
        smallest_removals(planted.engine(max_probes=20), planted.predicate)
    found = caught.value.partial
    assert isinstance(found, Counterfactuals) and found.searched == 1
    assert "no set of at most 1 sources changes" in str(found)


def test_a_predicate_that_fails_at_first_has_nothing_to_change() -> None:
    with pytest.raises(ExplanationError, match="nothing to change"):
        smallest_removals(PlantedAnswer(3, []).engine(), yes)


def test_results_print_and_serialise() -> None:
    planted = PlantedAnswer(3, [{0, 1}])
    engine = ProbeEngine.from_function(planted, num_sources=3, names=["D1", "D2", "D3"])
    found = smallest_removals(engine, planted.predicate)
    assert str(found).splitlines() == [
        "2 smallest sets that, when removed, change the answer (4 probes)",
        "  D1",
        "  D2",
    ]
    assert found.to_json()["sets"] == [[0], [1]]
    never = smallest_subsets(PlantedAnswer(2, []).engine(), yes)
    assert str(never) == "no set is enough when kept (4 probes)"
