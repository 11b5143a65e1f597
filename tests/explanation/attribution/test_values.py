from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from rulerag.errors import ConfigError, PredicateError, ProbeBudgetError
from rulerag.explanation.attribution.surrogate import fit_lasso, linear_surrogate, rule_surrogate
from rulerag.explanation.attribution.values import (
    Attribution,
    banzhaf_values,
    leave_one_out,
    shapley_values,
)
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.lattice import indices_of
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.values import SetValue
from rulerag.types import Completion, Document, GenerationRequest, Query
from tests.fakes import PlantedFunction, PlantedGenerator


def random_value(chance: random.Random, num_sources: int) -> SetValue:
    table = [chance.uniform(-1, 1) for _ in range(1 << num_sources)]
    return SetValue(lambda masks: [table[mask] for mask in masks], num_sources)


def additive(weights: list[float], bias: float = 0.0) -> SetValue:
    return SetValue(
        lambda masks: [
            bias + sum(w for i, w in enumerate(weights) if mask >> i & 1) for mask in masks
        ],
        len(weights),
    )


def definition(value: SetValue, index: int) -> float:
    """Shapley's value by its definition: the mean gain over every order."""
    count, total = value.num_sources, 0.0
    for order in itertools.permutations(range(count)):
        before = sum(1 << other for other in order[: order.index(index)])
        total += float(value([before | 1 << index])[0] - value([before])[0])
    return total / math.factorial(count)


def test_shapley_values_are_those_of_the_definition() -> None:
    chance = random.Random(1)
    for count in (1, 2, 4, 5):
        value = random_value(chance, count)
        found = shapley_values(value)
        assert found.values == pytest.approx([definition(value, i) for i in range(count)])
        assert found.num_probes == 1 << count and found.errors is None
        assert found.empty is not None
        assert sum(found.values) == pytest.approx(found.full - found.empty)


def test_banzhaf_values_are_mean_gains() -> None:
    value = random_value(random.Random(2), 4)
    for index, found in enumerate(banzhaf_values(value).values):
        others = [mask for mask in range(16) if not mask >> index & 1]
        gains = value([m | 1 << index for m in others]) - value(others)
        assert found == pytest.approx(gains.mean())


@pytest.mark.parametrize("method", [leave_one_out, shapley_values, banzhaf_values])
def test_an_additive_score_gives_its_weights(method) -> None:  # type: ignore[no-untyped-def]
    weights = [0.5, -0.25, 0.0, 2.0]
    found = method(additive(weights, bias=3.0))
    assert found.values == pytest.approx(weights) and found.full == pytest.approx(5.25)
    assert found.ranking == (3, 0, 2, 1) and found.top(2) == {3, 0}


def test_sampled_values_come_near_and_say_how_near() -> None:
    value = random_value(random.Random(3), 6)
    exact = shapley_values(value)
    sampled = shapley_values(value, permutations=400, seed=1)
    assert sum(sampled.values) == pytest.approx(sum(exact.values))
    banzhaf = banzhaf_values(value, samples=64, seed=1)
    for close, true in ((sampled, exact), (banzhaf, banzhaf_values(value))):
        assert close.errors is not None
        for found, wanted, error in zip(close.values, true.values, close.errors, strict=True):
            assert 0 < error < 0.5 and abs(found - wanted) < 4 * error
    assert sampled.values != shapley_values(value, permutations=400, seed=2).values


def test_reversed_orders_make_additive_scores_exact() -> None:
    found = shapley_values(additive([1.0, 2.0, 3.0]), permutations=4)
    assert found.values == pytest.approx([1.0, 2.0, 3.0])
    assert found.errors == pytest.approx((0, 0, 0), abs=1e-12)
    # One pair of orders has no spread, and an order without its reverse is not drawn.
    value = random_value(random.Random(3), 6)
    alone = shapley_values(value, permutations=2, seed=1)
    assert alone.errors is None
    assert shapley_values(value, permutations=3, seed=1) == alone
    assert shapley_values(value, permutations=7, seed=1) == shapley_values(
        value, permutations=6, seed=1
    )


SIX = range(1 << 6)
FUNCTIONS: dict[str, list[float]] = {
    "additive": [sum((0.5, -1.0, 2.0, 0.25, 0.0, 1.0)[i] for i in indices_of(m)) for m in SIX],
    "AND": [float(m & 3 == 3) for m in SIX],
    "OR": [float(m & 7 != 0) for m in SIX],
    "DNF": [float(m & 3 == 3 or m & 28 == 28) for m in SIX],
    "parity": [float((m & 3).bit_count() % 2) for m in SIX],
    "two-sided": [
        (0.0 if m & 5 == 5 else -70.0) + 3 * (m >> 1 & 1) - 2 * (m >> 4 & 1) for m in SIX
    ],
    "random": [random.Random(m).gauss(0, 1) for m in SIX],
}
ESTIMATORS = {
    "Banzhaf, 64": lambda value, seed: banzhaf_values(value, samples=64, seed=seed),
    "Banzhaf, 31": lambda value, seed: banzhaf_values(value, samples=31, seed=seed),
    "Shapley, 40": lambda value, seed: shapley_values(value, permutations=40, seed=seed),
    "Shapley, 21": lambda value, seed: shapley_values(value, permutations=21, seed=seed),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_stated_errors_are_the_true_spread(name: str, estimator: str) -> None:
    """Over many seeds: no bias, and the stated error within 5 % of the standard deviation.

    Squared errors are averaged, since a variance, unlike its root, is estimated without bias.
    """
    table = FUNCTIONS[name]
    runs = 4000 if estimator.startswith("Banzhaf") else 2500
    whole = SetValue(lambda masks: [table[mask] for mask in masks], 6)
    found = [ESTIMATORS[estimator](whole, seed) for seed in range(runs)]
    values = np.array([one.values for one in found])
    stated = np.sqrt(np.mean(np.square([one.errors for one in found]), axis=0))
    exact = banzhaf_values if estimator.startswith("Banzhaf") else shapley_values
    spread = values.std(axis=0, ddof=1)
    assert (
        np.abs(values.mean(axis=0) - exact(whole).values) <= 4 * spread / runs**0.5 + 1e-9
    ).all()
    assert stated == pytest.approx(spread, rel=0.05, abs=1e-9)


def test_complement_pairs_would_spread_banzhaf_values_more() -> None:
    """Why they are not drawn: with them the spread on an additive score was 1.4 times as large."""
    value = additive([0.5, -1.0, 2.0, 0.25, 0.0, 1.0])
    half = 0.25 * np.sum(np.square([0.5, -1.0, 2.0, 0.25, 0.0]))  # all but the last source
    values = [banzhaf_values(value, samples=64, seed=seed).values[5] for seed in range(2000)]
    independent = (4 * half / 64) ** 0.5
    assert np.std(values) == pytest.approx(independent, rel=0.1)
    paired = (2 * 4 * half / 64) ** 0.5
    assert np.std(values) < 0.8 * paired


def test_values_over_few_samples_state_finite_errors() -> None:
    for seed in range(200):
        found = banzhaf_values(additive([1.0, 2.0, 3.0]), samples=4, seed=seed)
        assert found.errors is not None and np.isfinite(found.errors).all()


def test_probes_are_counted_for_each_explainer() -> None:
    value = random_value(random.Random(3), 6)
    banzhaf_values(value)
    assert leave_one_out(value).num_probes == 7 and value.num_probes == 64


def test_a_predicate_is_a_score_and_probes_are_shared() -> None:
    planted = PlantedAnswer(4, [{0, 1}, {2}])
    engine = planted.engine()
    found = shapley_values(engine, planted.predicate)
    assert engine.num_probes == found.num_probes == 16
    assert found.values == pytest.approx([1 / 6, 1 / 6, 2 / 3, 0])
    assert leave_one_out(engine, planted.predicate).values == (0, 0, 0, 0)
    assert engine.num_probes == 16
    alone = PlantedAnswer(4, [{0, 1}])
    assert leave_one_out(alone.engine(), alone.predicate).values == (1, 1, 0, 0)


def test_many_sources_are_sampled_or_refused() -> None:
    planted = PlantedAnswer(40, [{3}])
    with pytest.raises(ConfigError, match=r"2\^40 = 1,099,511,627,776 probes.*permutations=200"):
        shapley_values(planted.engine(), planted.predicate)
    with pytest.raises(ConfigError, match="samples=400"):
        banzhaf_values(planted.engine(), planted.predicate)
    assert shapley_values(planted.engine(), planted.predicate, permutations=4).top(1) == {3}
    assert banzhaf_values(planted.engine(), planted.predicate, samples=40).top(1) == {3}
    assert linear_surrogate(planted.engine(), planted.predicate).top(1) == {3}


def test_outputs_may_be_numbers() -> None:
    class Counting(PlantedGenerator):
        def generate(self, requests):  # type: ignore[no-untyped-def]
            return [Completion(str(len(request.documents))) for request in requests]

    documents = tuple(Document(f"d{i}", f"Text {i}.") for i in range(3))
    request = GenerationRequest(Query("q", "?"), documents)
    engine = ProbeEngine.from_generator(Counting(str), request)
    assert shapley_values(engine).values == pytest.approx([1, 1, 1])
    with pytest.raises(PredicateError, match=r"ValueError: .*on the output 'no'"):
        leave_one_out(PlantedAnswer(2, []).engine())


def test_bad_scores_are_named() -> None:
    engine = ProbeEngine.from_function(PlantedFunction(["Paris"] * 4), num_sources=2)
    with pytest.raises(PredicateError, match=r"ZeroDivisionError.*on the output 'Paris'"):
        leave_one_out(engine, lambda output: 1 / 0)
    with pytest.raises(PredicateError, match="is nan"):
        leave_one_out(engine, lambda output: float("nan"))
    with pytest.raises(ConfigError, match="numbers already"):
        leave_one_out(additive([1.0]), len)
    with pytest.raises(ConfigError, match="2 names for 1"):
        SetValue(lambda masks: [0.0] * len(masks), 1, names=["a", "b"])
    for settings in ({"permutations": 1}, {"permutations": 0}):
        with pytest.raises(ConfigError, match="key 'permutations'"):
            shapley_values(additive([1.0]), **settings)
    with pytest.raises(ConfigError, match="key 'samples'"):
        banzhaf_values(additive([1.0]), samples=2)


def test_a_budget_is_held() -> None:
    planted = PlantedAnswer(6, [{0}])
    with pytest.raises(ProbeBudgetError):
        shapley_values(planted.engine(max_probes=20), planted.predicate)


def test_attributions_print_and_serialise() -> None:
    found = shapley_values(additive([0.5, 1.0]), permutations=4)
    assert str(found).splitlines() == [
        "Shapley (sampled), 4 probes, all sources score 1.5",
        "  +1.0000 ± 0  source 1",
        "  +0.5000 ± 0  source 0",
    ]
    assert found.to_json()["values"] == [0.5, 1.0]
    assert isinstance(found, Attribution)


# --- the surrogate -----------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.01, 0.1])
def test_the_lasso_meets_its_conditions(penalty: float) -> None:
    """What its optimum is known by: the correlations of columns and residuals, source by source."""
    chance = np.random.default_rng(4)
    kept = (chance.random((64, 12)) < 0.5).astype(float)
    kept[:, 5] = 1.0  # a source that every ablation kept
    found = kept @ chance.normal(size=12) + chance.normal(size=64) * 0.1 + 2
    fitted = fit_lasso(kept, found, penalty)
    masks = [sum(1 << i for i in range(12) if row[i]) for row in kept]
    left = found - np.array([fitted(mask) for mask in masks])
    assert left.mean() == pytest.approx(0, abs=1e-9) and fitted.weights[5] == 0
    for index in (*range(5), *range(6, 12)):
        column = (kept[:, index] - kept[:, index].mean()) / kept[:, index].std()
        pull, weight = float(column @ left) / 64, fitted.weights[index]
        if weight:
            assert pull == pytest.approx(np.sign(weight) * penalty, abs=1e-6)
        else:
            assert abs(pull) <= penalty + 1e-6


def test_the_surrogate_finds_few_sources_among_many() -> None:
    weights = [0.0] * 50
    weights[7], weights[31] = 2.0, 1.0
    found = linear_surrogate(additive(weights), ablations=48, seed=2)
    assert found.ranking[:2] == (7, 31) and found.num_probes == 48
    assert sum(abs(value) > 1e-6 for value in found.values) < 12
    assert found.full == pytest.approx(3.0, abs=0.5) and found.empty == pytest.approx(0, abs=0.5)


def test_a_constant_score_has_no_weights() -> None:
    found = linear_surrogate(additive([0.0] * 5, bias=1.0))
    assert found.values == (0.0,) * 5 and found.full == found.empty == 1.0


@pytest.mark.parametrize("settings", [{"ablations": 1}, {"penalty": 0.0}])
def test_bad_settings_of_the_surrogate_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"key '{next(iter(settings))}'"):
        linear_surrogate(additive([1.0, 2.0]), **settings)  # type: ignore[arg-type]


def test_rules_are_a_surrogate_that_asks_nothing() -> None:
    planted = PlantedAnswer(8, [{0, 1}, {5}])
    found = rule_surrogate(planted.minimal(), planted.engine().names)
    for mask in range(256):
        assert found.predict(mask) == planted.says_yes(mask)
    exact = banzhaf_values(planted.engine(), planted.predicate)
    assert found.values == pytest.approx(exact.values) and found.num_probes == 0
    assert (found.full, found.empty) == (1, 0)
    assert found.errors is None
    sampled = rule_surrogate([{i} for i in range(24)], [str(i) for i in range(40)])
    assert sampled.errors is not None  # more sources than exact values can have
    assert sampled.errors[30] == sampled.values[30] == 0
    nothing = rule_surrogate([], ["a", "b"])
    assert nothing.values == (0, 0) and nothing.full == 0
