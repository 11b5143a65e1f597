from __future__ import annotations

import itertools
import math
import random

import pytest

from rulerag.errors import ConfigError, ExplanationError, ProbeBudgetError
from rulerag.explanation.counterfactual import (
    Counterfactuals,
    _at_distance,
    order_counterfactuals,
    smallest_removals,
    smallest_subsets,
)
from rulerag.explanation.planted import PlantedAnswer
from rulerag.explanation.probe import ProbeEngine
from rulerag.types import Completion, Document, GenerationRequest, Query
from tests.fakes import PlantedFunction, random_function, subset_of

DOCUMENTS = tuple(Document(f"d{i}", f"Text {i}.") for i in range(4))
REQUEST = GenerationRequest(Query("q", "?"), DOCUMENTS)


class FirstWins:
    """A generator that names the first document whose id is in a list."""

    fingerprint = "first"

    def __init__(self, *wanted: str) -> None:
        self.wanted = wanted

    def generate(self, requests):  # type: ignore[no-untyped-def]
        names = [[d.id for d in r.documents if d.id in self.wanted] for r in requests]
        return [Completion(found[0] if found else "") for found in names]


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


def test_limits_of_size_and_budget_say_what_was_searched() -> None:
    planted = PlantedAnswer(10, [{0, 1}, {2, 3}, {4, 5}])
    found = smallest_removals(planted.engine(), planted.predicate, max_size=2)
    assert found.sets == frozenset() and found.searched == 2 and not found.complete
    assert "of at most 2 sources" in str(found)
    with pytest.raises(ProbeBudgetError, match="fewer than 2 sources") as caught:
        smallest_removals(planted.engine(max_probes=20), planted.predicate)
    assert isinstance(caught.value.partial, Counterfactuals) and caught.value.partial.searched == 1


def test_a_predicate_that_fails_at_first_has_nothing_to_change() -> None:
    with pytest.raises(ExplanationError, match="nothing to change"):
        smallest_removals(PlantedAnswer(3, []).engine(), yes)
    with pytest.raises(ExplanationError, match="nothing to change"):
        order_counterfactuals(FirstWins("d0"), REQUEST, lambda output: output == "d1")


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


def test_orders_are_asked_by_their_distance() -> None:
    found = order_counterfactuals(FirstWins("d1", "d3"), REQUEST, lambda output: output == "d1")
    # d3 has to pass d1, and d2 stands between them.
    assert found.distance == 2 and found.orders == ((0, 2, 3, 1), (0, 3, 1, 2))
    assert found.num_orders == 1 + 3 + 5 and found.complete
    assert found.to_json()["orders"] == [[0, 2, 3, 1], [0, 3, 1, 2]]
    stable = order_counterfactuals(FirstWins("d2"), REQUEST, lambda output: output == "d2")
    assert stable.orders == () and stable.complete and stable.num_orders == 24
    cut = order_counterfactuals(
        FirstWins("d2"), REQUEST, lambda output: output == "d2", max_orders=10
    )
    assert not cut.complete and cut.searched == 2 and cut.num_orders == 9
    with pytest.raises(ConfigError, match="max_orders"):
        order_counterfactuals(FirstWins("d2"), REQUEST, yes, max_orders=0)


def test_every_order_has_one_distance() -> None:
    for count in range(6):
        seen = []
        for distance in range(math.comb(count, 2) + 1):
            for order in _at_distance(tuple(range(count)), distance):
                turned = sum(a > b for a, b in itertools.combinations(order, 2))
                assert turned == distance
                seen.append(order)
        assert sorted(seen) == list(itertools.permutations(range(count)))
