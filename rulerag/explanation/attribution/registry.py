"""The methods that give each source a number, by name.

They ask the engine that the miners asked, so that a subset which these knew is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rulerag.errors import ConfigError, ProbeBudgetError, did_you_mean
from rulerag.explanation.attribution.guided import LOG_MARGIN, guided_surrogate
from rulerag.explanation.attribution.surrogate import linear_surrogate
from rulerag.explanation.attribution.values import (
    Attribution,
    banzhaf_values,
    leave_one_out,
    shapley_values,
)
from rulerag.explanation.probing import Predicate, ProbeEngine, SetValue

__all__ = ["ATTRIBUTIONS", "attributions", "check_methods"]

_EXACT_SOURCES = 10
"""Up to so many sources Shapley and Banzhaf values are exact when no sample size is given."""

Engine = SetValue | ProbeEngine


def _sampled(engine: Engine, samples: int | None, default: int) -> int | None:
    """The sample size; None for exact values."""
    if samples is None and engine.num_sources > _EXACT_SOURCES:
        return default
    return samples


ATTRIBUTIONS: dict[str, Callable[[Engine, Predicate | None, int | None, int], Attribution]] = {
    "leave-one-out": lambda engine, score, samples, seed: leave_one_out(engine, score),
    "shapley": lambda engine, score, samples, seed: shapley_values(
        engine, score, permutations=_sampled(engine, samples, 200), seed=seed
    ),
    "banzhaf": lambda engine, score, samples, seed: banzhaf_values(
        engine, score, samples=_sampled(engine, samples, 400), seed=seed
    ),
    "linear": lambda engine, score, samples, seed: linear_surrogate(
        engine, score, ablations=samples or 64, seed=seed
    ),
    "guided": lambda engine, score, samples, seed: guided_surrogate(
        engine,
        score,
        probes=max(8, samples or 64),
        margin=LOG_MARGIN if score is None else None,
        seed=seed,
    ),
}
"""By name, how sources get their values: from an engine, a score, a sample size and a seed."""


def attributions(
    engine: Engine,
    score: Predicate | None,
    methods: Sequence[str],
    *,
    samples: int | None = None,
    seed: int = 0,
) -> tuple[tuple[Attribution, ...], bool]:
    """Values of the sources by several methods.

    Args:
        engine: answers, or numbers, for subsets of the sources.
        score: whether an output meets the condition, counted as 1 and 0; None where outputs
            are numbers, taken as log-probabilities.
        methods: names of ``ATTRIBUTIONS``.
        samples: random orders (Shapley) or random subsets (the others) to ask. By default Shapley
            and Banzhaf values of up to 10 sources are exact; beyond, 200 orders and 400 subsets;
            64 subsets for the linear and the guided surrogate.
        seed: of the random choices.

    Returns:
        What the methods found, in order, and whether the probe budget sufficed for all of them.

    Raises:
        ConfigError: a method has no such name, or refuses the sample size.
        PredicateError: the score raised.
    """
    check_methods(methods)
    found, complete = [], True
    for method in methods:
        try:
            found.append(ATTRIBUTIONS[method](engine, score, samples, seed))
        except ProbeBudgetError:
            complete = False
    return tuple(found), complete


def check_methods(methods: Sequence[str]) -> None:
    """Refuse names that :func:`attributions` would refuse, before any work is done.

    Raises:
        ConfigError: a method has no such name.
    """
    for method in methods:
        if method not in ATTRIBUTIONS:
            hint = did_you_mean(method, ATTRIBUTIONS)
            raise ConfigError(f"unknown attribution {method!r}", key="attribution", hint=hint)
