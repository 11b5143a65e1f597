"""More about one answer, on the engine that mined its rules: values of sources, counterfactuals.

Everything here asks the engine that the miners asked, so that a subset which they knew is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rulerag.errors import ConfigError, ProbeBudgetError, did_you_mean
from rulerag.explanation.attribution import (
    Attribution,
    banzhaf_values,
    leave_one_out,
    shapley_values,
)
from rulerag.explanation.counterfactual import Counterfactuals, smallest_removals, smallest_subsets
from rulerag.explanation.guided_surrogate import LOG_MARGIN, guided_surrogate
from rulerag.explanation.judging import Predicate
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.surrogate import linear_surrogate
from rulerag.explanation.values import SetValue

__all__ = ["ATTRIBUTIONS", "attributions", "check_methods", "counterfactual_sets"]

EXACT_SOURCES = 10
"""Up to so many sources Shapley and Banzhaf values are exact when no sample size is given."""

Method = Callable[[SetValue | ProbeEngine, Predicate | None, int | None, int], Attribution]


def _leave_one_out(
    engine: SetValue | ProbeEngine, score: Predicate | None, samples: int | None, seed: int
) -> Attribution:
    return leave_one_out(engine, score)


def _shapley(
    engine: SetValue | ProbeEngine, score: Predicate | None, samples: int | None, seed: int
) -> Attribution:
    return shapley_values(engine, score, permutations=_sampled(engine, samples, 200), seed=seed)


def _banzhaf(
    engine: SetValue | ProbeEngine, score: Predicate | None, samples: int | None, seed: int
) -> Attribution:
    return banzhaf_values(engine, score, samples=_sampled(engine, samples, 400), seed=seed)


def _linear(
    engine: SetValue | ProbeEngine, score: Predicate | None, samples: int | None, seed: int
) -> Attribution:
    return linear_surrogate(engine, score, ablations=samples or 64, seed=seed)


def _guided(
    engine: SetValue | ProbeEngine, score: Predicate | None, samples: int | None, seed: int
) -> Attribution:
    margin = LOG_MARGIN if score is None else None
    return guided_surrogate(engine, score, probes=max(8, samples or 64), margin=margin, seed=seed)


ATTRIBUTIONS: dict[str, Method] = {
    "leave-one-out": _leave_one_out,
    "shapley": _shapley,
    "banzhaf": _banzhaf,
    "linear": _linear,
    "guided": _guided,
}
"""By name, how sources get their values."""


def attributions(
    engine: SetValue | ProbeEngine,
    score: Predicate | None,
    methods: Sequence[str],
    *,
    samples: int | None = None,
    seed: int = 0,
) -> tuple[tuple[Attribution, ...], bool]:
    """Values of the sources by several methods.

    Args:
        engine: answers, or numbers, for subsets of the sources.
        score: whether an output meets the condition, counted as 1 and 0; None for the generator's
            own score, taken as a log-probability.
        methods: names of ``ATTRIBUTIONS``.
        samples: random orders (Shapley) or random subsets (the others) to ask. By default Shapley
            and Banzhaf values of up to 10 sources are exact; beyond, 200 orders and 400 subsets;
            64 subsets for the linear and the guided surrogate.
        seed: of the random choices.

    Returns:
        What the methods found, in order, and whether the probe budget sufficed for all of them.

    Raises:
        ConfigError: a method has no such name, or the sample size is below 4.
        PredicateError: the score raised.
    """
    check_methods(methods, samples)
    found, complete = [], True
    for method in methods:
        try:
            found.append(ATTRIBUTIONS[method](engine, score, samples, seed))
        except ProbeBudgetError:
            complete = False
    return tuple(found), complete


def check_methods(methods: Sequence[str], samples: int | None) -> None:
    """Refuse names and sizes that :func:`attributions` would refuse, before any work is done.

    Raises:
        ConfigError: a method has no such name, or the sample size is below 4.
    """
    for method in methods:
        if method not in ATTRIBUTIONS:
            raise ConfigError(
                f"no attribution method is called {method!r}",
                key="attribution",
                hint=did_you_mean(method, list(ATTRIBUTIONS)),
            )
    if samples is not None and samples < 4:
        raise ConfigError(f"expected 4 or more, found {samples}", key="samples")


def counterfactual_sets(
    engine: ProbeEngine, predicate: Predicate
) -> tuple[tuple[Counterfactuals, ...], bool]:
    """The smallest removals that make a predicate fail and the smallest subsets that keep it.

    Returns:
        Both, or the second alone where the predicate fails with every source kept; and whether
        the probe budget sufficed.

    Raises:
        PredicateError: the predicate raised or did not return a Boolean.
    """
    found: list[Counterfactuals] = []
    complete = True
    stands = predicate(engine.probe([(1 << engine.num_sources) - 1])[0])
    searches = [smallest_removals, smallest_subsets] if stands else [smallest_subsets]
    for search in searches:
        try:
            found.append(search(engine, predicate))
        except ProbeBudgetError as error:
            complete = False
            if isinstance(error.partial, Counterfactuals):
                found.append(error.partial)
    return tuple(found), complete


def _sampled(engine: SetValue | ProbeEngine, samples: int | None, default: int) -> int | None:
    """The sample size; None for exact values."""
    if samples is not None:
        return samples
    return None if engine.num_sources <= EXACT_SOURCES else default
