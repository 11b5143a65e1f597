"""A number for every subset of the sources: what attribution explains."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from rulerag.arrays import Doubles
from rulerag.errors import ConfigError, PredicateError
from rulerag.explanation.lattice import full_mask
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.predicates import evaluated

Score = Callable[[str], float]
"""A number for an output; a predicate counts as 1.0 and 0.0."""


class SetValue:
    """A function from subsets of the sources to numbers; each subset is asked once.

    Threads may share it: one of them asks at a time.

    Args:
        function: the numbers for some subsets, given as masks, in order; a log-probability of the
            explained answer, for example.
        num_sources: how many sources there are.
        names: what explanations call them; ``source 0``, ``source 1`` … by default.

    Attributes:
        known: the numbers of the subsets asked so far.
    """

    def __init__(
        self,
        function: Callable[[list[int]], Sequence[float]],
        num_sources: int,
        names: Sequence[str] | None = None,
    ) -> None:
        self._function = function
        self.known: dict[int, float] = {}
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
        return len(self.known)

    def __call__(self, masks: Iterable[int]) -> Doubles:
        """The numbers of some subsets, of shape (len(masks),).

        Raises:
            PredicateError: a number is not finite.
            ProbeBudgetError: a probe budget ran out.
        """
        asked = [int(mask) for mask in masks]
        with self._asking:
            new = [mask for mask in dict.fromkeys(asked) if mask not in self.known]
            for mask, value in zip(new, self._function(new) if new else (), strict=True):
                if not math.isfinite(value):
                    raise PredicateError(f"the score of the subset {mask:#b} is {value!r}")
                self.known[mask] = float(value)
        return np.array([self.known[mask] for mask in asked], dtype=np.float64)


Probed = ProbeEngine | SetValue
"""What explainers ask: outputs or numbers for subsets of the sources."""


def valued(engine: Probed, score: Score | None) -> SetValue:
    """The subsets of an engine with numbers.

    Args:
        engine: an engine, or numbers already.
        score: a number for an output; None where outputs are numbers.
    """
    if isinstance(engine, SetValue):
        if score is not None:
            raise ConfigError("this function gives numbers already", key="score")
        # Each explainer counts what it asks; what another asked before costs nothing all the same.
        return SetValue(lambda masks: engine(masks).tolist(), engine.num_sources, engine.names)
    known: dict[str, float] = {}

    def number(output: str) -> float:
        return float(output if score is None else score(output))

    def function(masks: list[int]) -> list[float]:
        outputs = engine.probe(masks)
        for output in dict.fromkeys(outputs):
            if output not in known:
                known[output] = evaluated("score", number, output)
        return [known[output] for output in outputs]

    return SetValue(function, engine.num_sources, engine.names)
