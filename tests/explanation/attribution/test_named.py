"""An explainer is one function under a name: nothing else has to know of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rulerag.composition import names, register, registry
from rulerag.errors import ConfigError
from rulerag.explanation.attribution.values import Attribution, attributions, check_methods
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.values import Score, SetValue, valued


@pytest.fixture
def only_first() -> Iterator[str]:
    @register("explainer", "only-first")
    def explain_by_first(
        engine: ProbeEngine | SetValue,
        score: Score | None,
        *,
        samples: int | None = None,
        seed: int = 0,
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
    (found,), complete = attributions(answer.engine(), answer.predicate, [only_first])
    assert complete and found.values == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("name", ["banzhaf", "guided", "leave-one-out", "linear", "shapley"])
def test_every_explainer_takes_a_sample_size_and_a_seed(name: str) -> None:
    answer = PlantedAnswer(4, [{1}])
    for samples in (None, 16):
        (found,), _ = attributions(
            answer.engine(), answer.predicate, [name], samples=samples, seed=1
        )
        assert found.ranking[0] == 1 and found.names == answer.engine().names


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no explainer is called 'shaply' — did you mean 'shap"):
        check_methods(["linear", "shaply"])
