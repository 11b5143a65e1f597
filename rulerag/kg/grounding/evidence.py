"""How much a fired rule says: smoothed confidence, faded by age, joined by noisy-or."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from rulerag.composition import check_choice, check_range, register
from rulerag.errors import ConfigError
from rulerag.rules import Rule

# A weight of exactly 1 would end a noisy-or: every later piece of evidence would be lost in it.
_ALMOST_ONE = 1.0 - 1e-6


@register("evidence", "grounded")
@dataclass(frozen=True, kw_only=True)
class EvidenceModel:
    """Weights the groundings of rules, shared by the symbolic retriever and reader.

    The weight of one grounding is ``(support / (body_size + prior)) ** exponent * exp(-decay *
    age)``: the rule's confidence, lowered when it rests on few cases (TLogic, arXiv:2112.08025,
    section 3, smooths by the same added constant), sharpened so that many weak groundings do not
    outweigh a strong one, and faded by the age of the grounding's latest fact.

    The weights of one answer's groundings are joined by noisy-or, so a rule that leads to an
    answer in several ways counts several times.

    Args:
        prior: cases added to the body of every rule; 0 is the bare confidence.
        exponent: the power of the confidence; 1 is the confidence itself.
        decay: fading per time step of the graph; 0 keeps old facts at full weight.
        time_step: the distance of two neighbouring times in timestamps (24 for days in hours).
        static_confidence: of rules without a time order: ``pca`` or ``standard``.

    Raises:
        ConfigError: an unknown confidence, a negative prior or decay, no exponent, or a time
            step below 1.
    """

    prior: float = 5.0
    exponent: float = 1.0
    decay: float = 0.0
    time_step: int = 1
    static_confidence: str = "pca"

    def __post_init__(self) -> None:
        check_choice("static_confidence", self.static_confidence, ("pca", "standard"), "confidence")
        if self.exponent <= 0:
            raise ConfigError(f"{self.exponent} is not above 0", key="exponent", hint="say 1")
        for key, least in (("prior", 0), ("decay", 0), ("time_step", 1)):
            check_range(key, getattr(self, key), least)

    def settings(self) -> dict[str, float | str]:
        """The settings that change results, for fingerprints."""
        return asdict(self)

    def confidence(self, rule: Rule) -> float:
        """The smoothed, sharpened confidence of a rule; of its bare confidence without counts."""
        quality = rule.quality
        standard = rule.temporal or self.static_confidence == "standard"
        body = quality.body_size if standard else (quality.pca_body_size or quality.body_size)
        if quality.support is None or body is None:
            bare = rule.ranking_confidence
            if standard and not rule.temporal and quality.standard_confidence is not None:
                bare = quality.standard_confidence
            return float(bare**self.exponent)
        return float((quality.support / (body + self.prior)) ** self.exponent)

    def time_decay(self, age: npt.NDArray[np.int64] | int) -> npt.NDArray[np.float64]:
        """The factor ``exp(-decay * age)`` for ages in timestamps, of the same shape."""
        return np.exp(-self.decay * np.asarray(age, dtype=np.float64) / self.time_step)

    def weight(self, rule: Rule, now: int | None, latest: int | None) -> float:
        """The weight of one grounding whose latest fact is from ``latest``, asked at ``now``."""
        confidence = self.confidence(rule)
        if now is None or latest is None:
            return confidence
        return confidence * float(self.time_decay(now - latest))


def evidence_sum(weights: Iterable[float]) -> float:
    """The sum of ``-log(1 - w)``, of which noisy-or is ``1 - exp(-sum)``.

    It grows where noisy-or is rounded to 1, and does not depend on the order of the weights, so
    that equal evidence is equal as a number.
    """
    return math.fsum(-math.log1p(-min(weight, _ALMOST_ONE)) for weight in weights)


def noisy_or_exponents(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``-log(1 - w)`` for each weight: noisy-or becomes a sum of these, same order of results."""
    return -np.log1p(-np.minimum(weights, _ALMOST_ONE))
