"""Applying mined rules to queries: which entities answer, and how surely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pydantic

from rulerag.composition import Settings
from rulerag.mining.indexes import build_temporal_index
from rulerag.mining.inference.batching import (
    Candidates,
    applied_rules,
    in_parts,
    index_at_time_zero,
    known_facts,
)
from rulerag.mining.paths import code_rules, code_static_rules

if TYPE_CHECKING:
    from rulerag.kg import FactTable
    from rulerag.rules import Rule


class TemporalInferenceSettings(Settings):
    """How :class:`TemporalInference` scores, with TLogic's published settings.

    Args:
        decay: TLogic's lambda, per time step of the graph's calendar.
        weight: TLogic's a, from 0 to 1.
        smoothing: added to body sizes in confidences.
        top_k: when to stop; 0 tries every rule.
        min_confidence: rules below it are not tried.
        min_body_size: rules with fewer known bodies are not tried.
        threads: threads that work on queries; the result does not depend on it.

    Raises:
        ConfigError: a setting is out of range.
    """

    decay: float = pydantic.Field(default=0.1, ge=0)
    weight: float = pydantic.Field(default=0.5, ge=0, le=1)
    smoothing: float = pydantic.Field(default=0.0, ge=0)
    top_k: int = pydantic.Field(default=20, ge=0)
    min_confidence: float = pydantic.Field(default=0.01, ge=0, le=1)
    min_body_size: int = 2
    threads: int = pydantic.Field(default=1, ge=1)


class TemporalInference:
    """Forecasts with temporal rules as TLogic does.

    A rule gives an entity that its body reaches the score ``weight * confidence + (1 - weight) *
    exp(decay * (t - T))``, where t is the latest time at which such a body begins and T the time
    of the query. The scores of all rules are joined by noisy-or. Rules are tried from the most
    confident on, until the ``top_k`` best candidates can be told apart.

    Args:
        rules: temporal rules whose bodies are walks of up to three atoms; see
            :func:`~rulerag.mining.paths.code_rules` on what each predicts.
        facts: what is known, all over one vocabulary; of each query the facts before its time
            count.
        settings: how it scores; the defaults when None.
        changes: fields of :class:`TemporalInferenceSettings` by name.

    Raises:
        ConfigError: a setting is unknown or out of range.
        MiningError: the facts or a rule are static, or a body is no walk.

    References:
        Liu et al. 2022 (TLogic, arXiv:2112.08025), section 4.3, with its published settings.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        facts: Sequence[FactTable],
        settings: TemporalInferenceSettings | None = None,
        **changes: Any,
    ) -> None:
        self.settings = chosen = TemporalInferenceSettings.joined(settings, changes)
        kept = applied_rules(rules, chosen.min_confidence, chosen.min_body_size)
        self._index = build_temporal_index(known_facts(facts))
        relations = facts[0].relations
        self._coded, self.rules = code_rules(kept, relations, smoothing=chosen.smoothing)
        self._decay = chosen.decay / facts[0].calendar.step
        self._sizes = (len(facts[0].entities), 2 * len(relations))

    def candidates(
        self,
        subject: npt.NDArray[np.integer],
        relation: npt.NDArray[np.integer],
        time: npt.NDArray[np.integer],
    ) -> Candidates:
        """Score the answers of queries ``relation(subject, ?)`` at a time.

        Args:
            subject: array of shape (q,), the known entities.
            relation: array of shape (q,), directed relations: ``r`` asks for the object of r,
                ``r + R`` for its subject.
            time: array of shape (q,), timestamps.

        Raises:
            MiningError: an id is not the graph's.
        """
        from rulerag.mining.inference.kernels import apply_rules  # loads numba

        scoring = self._decay, self.settings.weight, self.settings.top_k, False
        apply = partial(apply_rules, self._index, self._coded, *scoring)
        return in_parts(apply, (subject, relation, time), self._sizes, self.settings.threads)


class StaticInferenceSettings(Settings):
    """How :class:`StaticInference` scores.

    Args:
        aggregate: ``max`` ranks candidates by their most confident rule, ties by the next one and
            so on (as AnyBURL does); ``noisy-or`` joins all rules.
        confidence: ``pca`` or ``standard``, which one scores.
        min_confidence: rules below it are not applied.
        threads: threads that work on queries; the result does not depend on it.

    Raises:
        ConfigError: a setting is out of range.
    """

    aggregate: Literal["max", "noisy-or"] = "max"
    confidence: Literal["pca", "standard"] = "pca"
    min_confidence: float = pydantic.Field(default=0.0, ge=0, le=1)
    threads: int = pydantic.Field(default=1, ge=1)


class StaticInference:
    """Completes a static graph with rules.

    Args:
        rules: static rules with one body atom, or with two that join the ends of the head; each
            predicts subjects and objects.
        facts: what is known, all over one vocabulary.
        changes: fields of :class:`StaticInferenceSettings` by name.

    Raises:
        ConfigError: a setting is unknown or out of range.
        MiningError: a rule is temporal, or its body has another form.
    """

    def __init__(self, rules: Iterable[Rule], facts: Sequence[FactTable], **changes: Any) -> None:
        self.settings = chosen = StaticInferenceSettings(**changes)
        self._index = index_at_time_zero(known_facts(facts))
        relations = facts[0].relations
        kept = applied_rules(rules, chosen.min_confidence)
        self._coded, self.rules = code_static_rules(kept, relations, confidence=chosen.confidence)
        self._sizes = (len(facts[0].entities), 2 * len(relations))

    def candidates(
        self, subject: npt.NDArray[np.integer], relation: npt.NDArray[np.integer]
    ) -> Candidates:
        """Score the answers of queries ``relation(subject, ?)``.

        Args:
            subject: array of shape (q,), the known entities.
            relation: array of shape (q,), directed relations: ``r`` asks for the object of r,
                ``r + R`` for its subject.

        Raises:
            MiningError: an id is not the graph's.
        """
        from rulerag.mining.inference.kernels import apply_rules  # loads numba

        best = self.settings.aggregate == "max"
        apply = partial(apply_rules, self._index, self._coded, 0.0, 1.0, 0, best)
        queries = subject, relation, np.ones_like(subject)
        return in_parts(apply, queries, self._sizes, self.settings.threads)
