from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.explanation.faithfulness.planted import PlantedAnswer
from tests.fakes import brute_force


def test_clauses_and_spoiling_sources() -> None:
    planted = PlantedAnswer(4, [{0, 1}, ({2}, {3})])
    assert planted([(0, 1), (2,), (2, 3), (0, 1, 2, 3), ()]) == ["yes", "yes", "no", "yes", "no"]
    assert not planted.is_monotone and PlantedAnswer(4, [{0, 1}]).is_monotone
    assert planted.predicate("yes") and not planted.predicate("no")
    with pytest.raises(ConfigError, match="not known"):
        planted.minimal()


@pytest.mark.parametrize("clauses", [[{0, 1}, {2}], [{0}, {0, 1}], [set()], [], [{0, 1}, {1, 2}]])
def test_the_minimal_rules_are_those_of_a_brute_force(clauses: list[set[int]]) -> None:
    planted = PlantedAnswer(4, clauses)
    assert planted.minimal() == brute_force(4, planted.says_yes, "retention")[1]
    silent = brute_force(4, lambda mask: not planted.says_yes(mask), "omission")[1]
    assert planted.minimal("omission") == silent


def counted_validity(planted: PlantedAnswer, sources: tuple[int, ...]) -> float:
    """The share counted one by one, noise as drawn."""
    kept = sum(1 << source for source in sources)
    masks = [mask for mask in range(1 << planted.num_sources) if kept & ~mask == 0]
    return sum(map(planted.says_yes, masks)) / len(masks)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_validity_is_the_share_of_subsets(noise: float) -> None:
    clauses = [{0, 1}, ({2, 3}, {4}), {1, 5}]
    planted = PlantedAnswer(12, clauses, noise=noise, seed=3)
    for sources in ((), (0,), (0, 1), (2, 3), (2, 3, 4), (4, 5)):
        exact = counted_validity(planted, sources)
        assert planted.validity(sources) == pytest.approx(exact, abs=0.05 if noise else 1e-12)


def test_noise_turns_the_same_subsets_round_every_time() -> None:
    clean, noisy = PlantedAnswer(12, [{0}]), PlantedAnswer(12, [{0}], noise=0.2, seed=5)
    turned = [mask for mask in range(1 << 12) if clean.says_yes(mask) != noisy.says_yes(mask)]
    again = PlantedAnswer(12, [{0}], noise=0.2, seed=5)
    other = PlantedAnswer(12, [{0}], noise=0.2, seed=6)
    assert 0.17 < len(turned) / (1 << 12) < 0.23
    assert all(again.says_yes(mask) == noisy.says_yes(mask) for mask in range(1 << 12))
    assert any(other.says_yes(mask) != noisy.says_yes(mask) for mask in range(1 << 12))


def test_bad_formulas_are_refused() -> None:
    with pytest.raises(ConfigError, match="beyond 3 sources"):
        PlantedAnswer(3, [{3}])
    with pytest.raises(ConfigError, match="key 'noise'"):
        PlantedAnswer(3, [{1}], noise=1.0)
