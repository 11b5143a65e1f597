"""Values of the sources: against their definitions, their stated errors, names, and bad input."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rulerag.composition import names, register, registry
from rulerag.errors import ConfigError, PredicateError, ProbeBudgetError
from rulerag.explanation.attribution import (
    Attribution,
    attributions,
    banzhaf_values,
    check_methods,
    leave_one_out,
    linear_surrogate,
    rule_surrogate,
    shapley_values,
)
from rulerag.explanation.attribution.guided import guided_surrogate
from rulerag.explanation.attribution.kernel import kernel_surrogate
from rulerag.explanation.probing import ProbeEngine, Score, SetValue, valued
from tests.fakes import PlantedFunction
from tests.planted import PlantedAnswer


def tabled(table: list[float]) -> SetValue:
    return SetValue(lambda masks: [table[mask] for mask in masks], len(table).bit_length() - 1)


def additive(weights: list[float], bias: float = 0.0) -> SetValue:
    count = len(weights)

    def score(mask: int) -> float:
        return bias + sum(weights[i] for i in range(count) if mask >> i & 1)

    return SetValue(lambda masks: list(map(score, masks)), count)


def randomly(num_sources: int, seed: int = 3) -> SetValue:
    chance = random.Random(seed)
    return tabled([chance.uniform(-1, 1) for _ in range(1 << num_sources)])


# --- by their definitions ----------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_exact_values_are_those_of_the_definitions(count: int) -> None:
    value = randomly(count)
    shapley, banzhaf = shapley_values(value), banzhaf_values(value)
    for index in range(count):
        gains = []
        for order in itertools.permutations(range(count)):
            before = sum(1 << other for other in order[: order.index(index)])
            gains.append(float(value([before | 1 << index])[0] - value([before])[0]))
        assert shapley.values[index] == pytest.approx(sum(gains) / math.factorial(count))
        others = [mask for mask in range(1 << count) if not mask >> index & 1]
        means = (value([m | 1 << index for m in others]) - value(others)).mean()
        assert banzhaf.values[index] == pytest.approx(means)
    assert sum(shapley.values) == pytest.approx(shapley.full - (shapley.empty or 0))
    assert shapley.num_probes == banzhaf.num_probes == 1 << count and shapley.errors is None


@pytest.mark.parametrize("explain", [leave_one_out, shapley_values, banzhaf_values])
def test_an_additive_score_gives_its_weights(explain: Callable[..., Attribution]) -> None:
    made = explain(additive([0.5, -0.25, 0.0, 2.0], bias=3.0))
    assert made.values == pytest.approx([0.5, -0.25, 0.0, 2.0]) and made.full == pytest.approx(5.25)
    assert made.ranking == (3, 0, 2, 1) and made.top(2) == {3, 0}
    assert explain(additive([0.5, 1.0, 0.5, 1.0])).ranking == (1, 3, 0, 2)


def test_a_predicate_is_a_score_and_probes_are_shared() -> None:
    planted = PlantedAnswer(4, [{0, 1}, {2}])
    engine = planted.engine()
    made = shapley_values(engine, planted.predicate)
    assert engine.num_probes == made.num_probes == 16
    assert made.values == pytest.approx([1 / 6, 1 / 6, 2 / 3, 0])
    assert leave_one_out(engine, planted.predicate).values == (0, 0, 0, 0)
    assert engine.num_probes == 16
    # Each explainer counts what it needs.
    value = randomly(6)
    banzhaf_values(value)
    assert leave_one_out(value).num_probes == 7 and value.num_probes == 64


def test_many_sources_are_sampled() -> None:
    for count, exact in ((10, True), (11, False)):
        for explain in (shapley_values, banzhaf_values):
            made = explain(additive([1.0] * count))
            assert made.method.endswith("(exact)") == exact
    planted = PlantedAnswer(40, [{3}])
    for explain, samples in ((shapley_values, 4), (banzhaf_values, 40), (linear_surrogate, 64)):
        made = explain(planted.engine(), planted.predicate, samples=samples)  # type: ignore[operator]
        assert made.top(1) == {3}


# --- what sampled values state -----------------------------------------------------------------

SIX = range(1 << 6)
FUNCTIONS: dict[str, list[float]] = {
    "additive": additive([0.5, -1.0, 2.0, 0.25, 0.0, 1.0])(SIX).tolist(),
    "AND": [float(m & 3 == 3) for m in SIX],
    "DNF": [float(m & 3 == 3 or m & 28 == 28) for m in SIX],
    "parity": [float((m & 3).bit_count() % 2) for m in SIX],
    "two-sided": [
        (0.0 if m & 5 == 5 else -70.0) + 3 * (m >> 1 & 1) - 2 * (m >> 4 & 1) for m in SIX
    ],
    "random": [random.Random(m).gauss(0, 1) for m in SIX],
}


@pytest.mark.parametrize(("explain", "samples"), [(banzhaf_values, 31), (shapley_values, 21)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_stated_errors_are_the_true_spread(
    name: str, explain: Callable[..., Attribution], samples: int
) -> None:
    """Over many seeds: no bias, and the stated error within 5 % of the standard deviation.

    Squared errors are averaged, since a variance, unlike its root, is estimated without bias.
    """
    runs, whole = 3000, tabled(FUNCTIONS[name])
    made = [explain(whole, samples=samples, seed=seed) for seed in range(runs)]
    values = np.array([one.values for one in made])
    stated = np.sqrt(np.mean(np.square([one.errors for one in made]), axis=0))
    spread = values.std(axis=0, ddof=1)
    bias = np.abs(values.mean(axis=0) - explain(whole).values)
    assert (bias <= 4 * spread / runs**0.5 + 1e-9).all()
    assert stated == pytest.approx(spread, rel=0.06, abs=1e-9)


def test_reversed_orders_make_additive_scores_exact_and_a_single_pair_has_no_spread() -> None:
    made = shapley_values(additive([1.0, 2.0, 3.0]), samples=4)
    assert made.values == pytest.approx([1.0, 2.0, 3.0])
    assert made.errors == pytest.approx((0, 0, 0), abs=1e-12)
    value = randomly(6)
    assert shapley_values(value, samples=2, seed=1).errors is None
    for odd, even in ((3, 2), (7, 6)):  # an order without its reverse is not drawn
        assert shapley_values(value, samples=odd, seed=1) == shapley_values(
            value, samples=even, seed=1
        )
    for seed in range(200):
        few = banzhaf_values(additive([1.0, 2.0, 3.0]), samples=4, seed=seed)
        assert few.errors is not None and np.isfinite(few.errors).all()


# --- linear surrogates -------------------------------------------------------------------------


def test_the_linear_surrogate_finds_few_sources_among_many() -> None:
    weights = [0.0] * 50
    weights[7], weights[31] = 2.0, 1.0
    made = linear_surrogate(additive(weights), samples=48, seed=2)
    assert made.ranking[:2] == (7, 31) and made.num_probes == 48
    assert sum(abs(value) > 1e-6 for value in made.values) < 12
    assert made.full == pytest.approx(3.0, abs=0.5) and made.empty == pytest.approx(0, abs=0.5)
    flat = linear_surrogate(additive([0.0] * 5, bias=1.0))
    assert flat.values == (0.0,) * 5 and flat.full == flat.empty == 1.0


def test_rules_are_a_surrogate_that_asks_nothing() -> None:
    planted = PlantedAnswer(8, [{0, 1}, {5}])
    made = rule_surrogate(planted.minimal(), planted.engine().names)
    assert all(made.predict(mask) == planted.says_yes(mask) for mask in range(256))
    exact = banzhaf_values(planted.engine(), planted.predicate)
    assert made.values == pytest.approx(exact.values) and made.num_probes == 0
    assert (made.full, made.empty, made.errors) == (1, 0, None)
    sampled = rule_surrogate([{i} for i in range(24)], [str(i) for i in range(40)])
    assert sampled.errors is not None  # more sources than exact values can have
    assert sampled.errors[30] == sampled.values[30] == 0
    nothing = rule_surrogate([], ["a", "b"])
    assert nothing.values == (0, 0) and nothing.full == 0


# --- by name -----------------------------------------------------------------------------------


@pytest.fixture
def only_first() -> Iterator[str]:
    @register("explainer", "only-first")
    def explain_by_first(
        engine: ProbeEngine | SetValue, score: Score | None, *, samples: int = 1, seed: int = 0
    ) -> Attribution:
        value = valued(engine, score)
        full, without = value([value.full, value.full & ~1]).tolist()
        values = (full - without, *[0.0] * (value.num_sources - 1))
        return Attribution("first", value.names, values, None, full, None, value.num_probes)

    yield "only-first"
    del registry._REGISTERED["explainer", "only-first"]


def test_a_registered_function_is_an_explainer(only_first: str) -> None:
    assert only_first in names("explainer")
    answer = PlantedAnswer(3, [{0}])
    (made,), complete = attributions(answer.engine(), answer.predicate, [only_first])
    assert complete and made.values == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "name", ["banzhaf", "guided", "kernel", "leave-one-out", "linear", "shapley"]
)
@pytest.mark.parametrize("samples", [None, 4, 16])
def test_every_explainer_takes_a_sample_size_and_a_seed(name: str, samples: int | None) -> None:
    answer = PlantedAnswer(4, [{1}])
    (made,), _ = attributions(answer.engine(), answer.predicate, [name], samples=samples, seed=1)
    assert made.names == answer.engine().names and (samples == 4 or made.ranking[0] == 1)
    assert Attribution.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_what_the_budget_does_not_allow_is_left_out() -> None:
    planted = PlantedAnswer(6, [{0}])
    with pytest.raises(ProbeBudgetError):
        shapley_values(planted.engine(max_probes=20), planted.predicate)
    made, complete = attributions(
        planted.engine(max_probes=20), planted.predicate, ["leave-one-out", "shapley"]
    )
    assert [one.method for one in made] == ["leave-one-out"] and not complete


def test_attributions_print() -> None:
    assert str(shapley_values(additive([0.5, 1.0]), samples=4)).splitlines() == [
        "Shapley (sampled), 4 probes, all sources score 1.5",
        "  +1.0000 ± 0  source 1",
        "  +0.5000 ± 0  source 0",
    ]


PARIS = ProbeEngine.from_function(PlantedFunction(["Paris"] * 4), num_sources=2)
FORTY = additive([1.0] * 40)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: check_methods(["linear", "shaply"]), ConfigError, "'shaply' — did you mean 'shap"),
        (lambda: shapley_values(FORTY, exact=40), ConfigError, "2^40 = 1,099,511,627,776 probes"),
        (lambda: banzhaf_values(FORTY, exact=40), ConfigError, "name a number of samples"),
        (lambda: shapley_values(FORTY, samples=1), ConfigError, "key 'samples'"),
        (lambda: banzhaf_values(FORTY, samples=3), ConfigError, "key 'samples'"),
        (lambda: linear_surrogate(FORTY, samples=1), ConfigError, "key 'samples'"),
        (lambda: linear_surrogate(FORTY, penalty=0.0), ConfigError, "key 'penalty'"),
        (lambda: guided_surrogate(FORTY, samples=3), ConfigError, "key 'samples'"),
        (lambda: guided_surrogate(FORTY, margin=0.0), ConfigError, "key 'margin'"),
        (lambda: kernel_surrogate(FORTY, samples=3), ConfigError, "key 'samples'"),
        (lambda: leave_one_out(FORTY, len), ConfigError, "numbers already"),
        (lambda: SetValue(lambda masks: [], 1, names=["a", "b"]), ConfigError, "2 names for 1"),
        (lambda: leave_one_out(PARIS, lambda output: 1 / 0), PredicateError, "ZeroDivisionError"),
        (lambda: leave_one_out(PARIS, lambda output: math.nan), PredicateError, "is nan"),
        (lambda: leave_one_out(PARIS), PredicateError, "on the output 'Paris'"),
    ],
)
def test_bad_input_is_named(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)
