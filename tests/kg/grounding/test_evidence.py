"""How much a fired rule says: values worked out by hand, and the laws of joining."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rulerag.errors import ConfigError
from rulerag.kg.grounding.evidence import EvidenceModel, evidence_sum, noisy_or_exponents
from rulerag.rules import Atom, Rule, RuleQuality


def noisy_or(weights: Iterable[float]) -> float:
    """The probability that at least one of several independent pieces of evidence holds."""
    return -math.expm1(-evidence_sum(weights))


def rule(*, temporal: bool = True, **quality: Any) -> Rule:
    body = (Atom("calls", "?x", "?y"),)
    return Rule(Atom("meets", "?x", "?y"), body, temporal=temporal, quality=RuleQuality(**quality))


STATIC = rule(temporal=False, support=6, body_size=20, pca_body_size=10)
BARE = rule(temporal=False, standard_confidence=0.2, pca_confidence=0.7)


@pytest.mark.parametrize(
    ("model", "of", "confidence"),
    [
        (EvidenceModel(prior=5), rule(support=2, body_size=2), 2 / 7),  # few cases
        (EvidenceModel(prior=5), rule(support=200, body_size=200), 200 / 205),
        (EvidenceModel(prior=0), rule(support=2, body_size=2), 1.0),
        (EvidenceModel(prior=0, exponent=2), rule(support=1, body_size=2), 0.25),
        (EvidenceModel(prior=2), STATIC, 6 / 12),  # static rules count what PCA counts
        (EvidenceModel(prior=4), rule(temporal=False, support=6, body_size=20), 6 / 24),
        (EvidenceModel(prior=0, static_confidence="standard"), STATIC, 0.3),
        (EvidenceModel(), BARE, 0.7),  # without counts the stated confidence stands
        (EvidenceModel(static_confidence="standard"), BARE, 0.2),
        (EvidenceModel(prior=100, exponent=0.5), rule(confidence=0.64), 0.8),
        (EvidenceModel(), rule(), 0.0),
    ],
)
def test_confidence(model: EvidenceModel, of: Rule, confidence: float) -> None:
    assert model.confidence(of) == pytest.approx(confidence)


def test_age_fades_by_time_steps() -> None:
    model = EvidenceModel(prior=0, decay=0.1, time_step=24)
    certain = rule(support=4, body_size=4)
    assert model.weight(certain, 240, 0) == pytest.approx(math.exp(-1.0))
    assert model.weight(certain, 240, 240) == 1.0
    assert model.weight(certain, None, 0) == model.weight(certain, 240, None) == 1.0
    ages = np.array([0, 24, 48])
    assert model.time_decay(ages) == pytest.approx([1.0, math.exp(-0.1), math.exp(-0.2)])
    assert EvidenceModel(decay=0).time_decay(ages) == pytest.approx([1.0, 1.0, 1.0])


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0, 1))
def test_laws_of_joined_evidence(weights: list[float], more: float) -> None:
    joined, total = noisy_or(weights), evidence_sum(weights)
    assert joined == pytest.approx(1 - math.prod(1 - weight for weight in weights), abs=1e-5)
    assert 0.0 <= joined <= noisy_or([*weights, more]) <= 1.0
    assert total == evidence_sum(sorted(weights)) == evidence_sum(weights[::-1])  # in any order
    exponents = noisy_or_exponents(np.array(weights, dtype=np.float64))
    assert np.isfinite(exponents).all()  # certain evidence too
    assert total == pytest.approx(exponents.sum())


def test_certain_evidence_does_not_end_the_count() -> None:
    few, many = [0.9] * 40, [0.9] * 41
    assert noisy_or(few) == noisy_or(many) == 1.0
    assert evidence_sum(few) < evidence_sum(many)
    assert evidence_sum([1.0]) < evidence_sum([1.0, 1.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": -1}, "key 'prior': -1 is out of range"),
        ({"decay": -0.1}, "key 'decay': -0.1 is out of range"),
        ({"exponent": 0}, "key 'exponent': 0 is not above 0"),
        ({"time_step": 0}, "key 'time_step': 0 is out of range"),
        ({"static_confidence": "lift"}, "key 'static_confidence': unknown confidence 'lift'"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvidenceModel(**settings)


def test_settings_name_what_changes_results() -> None:
    wanted = {"prior": 1, "exponent": 1.0, "decay": 0.5, "time_step": 1, "static_confidence": "pca"}
    assert EvidenceModel(prior=1, decay=0.5).settings() == wanted
