"""A number for every subset of the sources: what attribution explains."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from rulerag.errors import ConfigError, GenerationError, PredicateError
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probe import ProbeEngine
from rulerag.explanation.wording import shortened

__all__ = ["Floats", "Score", "SetValue", "valued"]

Floats = npt.NDArray[np.float64]
Score = Callable[[str], float]
"""A number for an output; a predicate counts as 1.0 and 0.0."""

SetFunction = Callable[[list[int]], Sequence[float]]


class SetValue:
    """A function from subsets of the sources to numbers; each subset is asked once.

    Threads may share it: one of them asks at a time.

    Args:
        function: the numbers for some subsets, given as masks, in order; a log-probability of the
            explained answer, for example.
        num_sources: how many sources there are.
        names: what explanations call them; ``source 0``, ``source 1`` … by default.
    """

    def __init__(
        self, function: SetFunction, num_sources: int, names: Sequence[str] | None = None
    ) -> None:
        self._function = function
        self._known: dict[int, float] = {}
        self._asking = threading.RLock()
        self.num_sources = num_sources
        self.names = tuple(names or (f"source {index}" for index in range(num_sources)))
        if len(self.names) != num_sources:
            raise ConfigError(f"{len(self.names)} names for {num_sources} sources", key="names")

    @property
    def full(self) -> int:
        """The mask of all sources."""
        return full_mask(self.num_sources)

    @property
    def num_probes(self) -> int:
        """How many distinct subsets were asked."""
        return len(self._known)

    def __call__(self, masks: Iterable[int]) -> Floats:
        """The numbers of some subsets, of shape (len(masks),).

        Raises:
            PredicateError: a number is not finite.
            ProbeBudgetError: a probe budget ran out.
        """
        asked = [int(mask) for mask in masks]
        with self._asking:
            self._learn(asked)
        return np.array([self._known[mask] for mask in asked], dtype=np.float64)

    def _learn(self, asked: Sequence[int]) -> None:
        new = [mask for mask in dict.fromkeys(asked) if mask not in self._known]
        if new:
            values = self._function(new)
            for mask, value in zip(new, values, strict=True):
                if not math.isfinite(value):
                    raise PredicateError(f"the score of the subset {mask:#b} is {value!r}")
                self._known[mask] = float(value)


def valued(engine: ProbeEngine | SetValue, score: Score | None) -> SetValue:
    """The subsets of an engine with numbers.

    Args:
        engine: an engine, or numbers already.
        score: a number for an output; None for the generator's own score.
    """
    if isinstance(engine, SetValue):
        if score is not None:
            raise ConfigError("this function gives numbers already", key="score")
        # Each explainer counts what it asks; what another asked before costs nothing all the same.
        return SetValue(lambda masks: engine(masks).tolist(), engine.num_sources, engine.names)
    if score is None:
        return SetValue(engine.scores, engine.num_sources, engine.names)
    judged: dict[str, float] = {}

    def function(masks: list[int]) -> list[float]:
        outputs = engine.probe(masks)
        for output in outputs:
            if output not in judged:
                judged[output] = _ask(score, output)
        return [judged[output] for output in outputs]

    return SetValue(function, engine.num_sources, engine.names)


def _ask(score: Score, output: str) -> float:
    shown = shortened(repr(output), 200)
    try:
        return float(score(output))
    except (PredicateError, GenerationError):
        raise
    except Exception as error:
        raise PredicateError(
            f"the score raised {type(error).__name__}: {error}, on the output {shown}"
        ) from error
