"""Attribution by the names of registered explainers, all of them over one engine.

An explainer is a function ``(engine, score, *, samples, seed) -> Attribution`` under
``@register("explainer", NAME)``. It asks the engine that the miners asked, so that a subset which
these knew is free.
"""

from __future__ import annotations

from collections.abc import Sequence

from rulerag.composition import find
from rulerag.errors import ProbeBudgetError
from rulerag.explanation.attribution.values import Attribution
from rulerag.explanation.probing import Predicate, ProbeEngine, SetValue


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
        score: whether an output meets the condition, counted as 1 and 0; None where outputs
            are numbers, taken as log-probabilities.
        methods: names of registered explainers.
        samples: random orders (Shapley) or random subsets (the others) to ask; by default what
            each explainer says.
        seed: of the random choices.

    Returns:
        What the methods found, in order, and whether the probe budget sufficed for all of them.

    Raises:
        ConfigError: no explainer has such a name, or it refuses the sample size.
        PredicateError: the score raised.
    """
    check_methods(methods)
    found, complete = [], True
    for method in methods:
        explain = find("explainer", method).component
        try:
            found.append(explain(engine, score, samples=samples, seed=seed))
        except ProbeBudgetError:
            complete = False
    return tuple(found), complete


def check_methods(methods: Sequence[str]) -> None:
    """Refuse names that :func:`attributions` would refuse, before any work is done.

    Raises:
        ConfigError: no explainer has such a name.
    """
    for method in methods:
        find("explainer", method, key="attribution")
