"""How much a fired rule says: values worked out by hand, and the laws of joining."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.errors import ConfigError
from rulerag.kg.grounding.evidence import EvidenceModel, evidence_sum, noisy_or_exponents
from rulerag.rules import Atom, Rule, RuleQuality

HEAD = Atom("meets", "?x", "?y")
WEIGHTS = st.lists(st.floats(0, 1), max_size=12)


def noisy_or(weights: Iterable[float]) -> float:
    """The probability that at least one of several independent pieces of evidence holds."""
    return -math.expm1(-evidence_sum(weights))


def rule(*, temporal: bool = True, **quality: float) -> Rule:
    counts = RuleQuality(**quality)  # type: ignore[arg-type]
    return Rule(HEAD, (Atom("calls", "?x", "?y"),), temporal=temporal, quality=counts)


def test_confidence_is_lowered_for_few_cases() -> None:
    few, many = rule(support=2, body_size=2), rule(support=200, body_size=200)
    model = EvidenceModel(prior=5)
    assert model.confidence(few) == pytest.approx(2 / 7)
    assert model.confidence(many) == pytest.approx(200 / 205)
    assert EvidenceModel(prior=0).confidence(few) == 1.0


def test_sharpness_is_a_power() -> None:
    model = EvidenceModel(prior=0, exponent=2)
    assert model.confidence(rule(support=1, body_size=2)) == pytest.approx(0.25)


def test_static_rules_count_what_pca_counts() -> None:
    static = rule(temporal=False, support=6, body_size=20, pca_body_size=10)
    assert EvidenceModel(prior=2).confidence(static) == pytest.approx(6 / 12)
    without = rule(temporal=False, support=6, body_size=20)
    assert EvidenceModel(prior=4).confidence(without) == pytest.approx(6 / 24)


def test_without_counts_the_stated_confidence_stands() -> None:
    model = EvidenceModel(prior=100, exponent=0.5)
    assert model.confidence(rule(confidence=0.64)) == pytest.approx(0.8)
    assert model.confidence(rule()) == 0.0


def test_age_fades_by_time_steps() -> None:
    model = EvidenceModel(prior=0, decay=0.1, time_step=24)
    certain = rule(support=4, body_size=4)
    assert model.weight(certain, 240, 0) == pytest.approx(math.exp(-1.0))
    assert model.weight(certain, 240, 240) == 1.0
    assert model.weight(certain, None, 0) == model.weight(certain, 240, None) == 1.0
    ages = np.array([0, 24, 48])
    assert model.time_decay(ages) == pytest.approx([1.0, math.exp(-0.1), math.exp(-0.2)])
    assert EvidenceModel(decay=0).time_decay(ages) == pytest.approx([1.0, 1.0, 1.0])


def test_noisy_or_by_hand() -> None:
    assert noisy_or([]) == 0.0
    assert noisy_or([0.3]) == pytest.approx(0.3)
    assert noisy_or([0.5, 0.5]) == pytest.approx(0.75)
    assert noisy_or([0.8, 0.5, 0.0]) == pytest.approx(0.9)


@given(WEIGHTS, st.floats(0, 1))
def test_more_evidence_never_says_less(weights: list[float], more: float) -> None:
    joined = noisy_or(weights)
    assert 0.0 <= joined <= 1.0
    assert noisy_or([*weights, more]) >= joined
    assert noisy_or(reversed(weights)) == pytest.approx(joined)


@given(WEIGHTS)
def test_exponents_are_noisy_or_as_a_sum(weights: list[float]) -> None:
    exponents = noisy_or_exponents(np.array(weights, dtype=np.float64))
    assert np.isfinite(exponents).all()  # certain evidence too
    assert -np.expm1(-exponents.sum()) == pytest.approx(noisy_or(weights), abs=1e-12)


@given(WEIGHTS)
def test_the_sum_behind_it_does_not_depend_on_the_order(weights: list[float]) -> None:
    total = evidence_sum(weights)
    assert total == evidence_sum(sorted(weights)) == evidence_sum(weights[::-1])
    assert total == pytest.approx(noisy_or_exponents(np.array(weights, dtype=np.float64)).sum())


def test_certain_evidence_does_not_end_the_count() -> None:
    few, many = [0.9] * 40, [0.9] * 41
    assert noisy_or(few) == noisy_or(many) == 1.0
    assert evidence_sum(few) < evidence_sum(many)
    assert evidence_sum([1.0]) < evidence_sum([1.0, 1.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": -1}, "key 'prior': -1 is below 0"),
        ({"decay": -0.1}, "key 'decay': -0.1 is below 0"),
        ({"exponent": 0}, "key 'exponent': 0 is not above 0"),
        ({"time_step": 0}, "key 'time_step': 0 is below 1"),
    ],
)
def test_bad_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvidenceModel(**settings)  # type: ignore[arg-type]


def test_settings_name_what_changes_results() -> None:
    assert EvidenceModel(prior=1, decay=0.5).settings() == {
        "prior": 1,
        "exponent": 1.0,
        "decay": 0.5,
        "time_step": 1,
        "static_confidence": "pca",
    }


def test_static_rules_count_by_pca_or_standard_confidence() -> None:
    quality = RuleQuality(support=6, body_size=20, pca_body_size=10)
    counted = Rule(HEAD, (Atom("p", "?x", "?y"),), quality=quality)
    assert EvidenceModel(prior=0).confidence(counted) == 0.6
    standard = EvidenceModel(prior=0, static_confidence="standard")
    assert standard.confidence(counted) == 0.3
    assert standard.settings() != EvidenceModel(prior=0).settings()
    bare = RuleQuality(standard_confidence=0.2, pca_confidence=0.7)
    uncounted = Rule(HEAD, counted.body, quality=bare)
    assert (EvidenceModel().confidence(uncounted), standard.confidence(uncounted)) == (0.7, 0.2)
    with pytest.raises(ConfigError, match="static_confidence"):
        EvidenceModel(static_confidence="lift")
