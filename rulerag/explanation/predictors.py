"""What explanations predict for any subset of the sources, as data that can be kept and read again.

A mask names a subset: bit i is set when source i is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulerag.explanation.lattice import indices_of, mask_of
from rulerag.explanation.trace import expect

__all__ = ["LinearSurrogate", "SplitSurrogate"]


@dataclass(frozen=True, slots=True)
class LinearSurrogate:
    """A linear function of the kept sources.

    Args:
        weights: of the sources, in order.
        bias: the number without any source.
    """

    weights: tuple[float, ...]
    bias: float

    def __call__(self, mask: int) -> float:
        """The predicted score of a subset."""
        return self.bias + sum(w for i, w in enumerate(self.weights) if mask >> i & 1)

    def to_json(self) -> dict[str, Any]:
        """The function as a JSON object."""
        return {"weights": list(self.weights), "bias": self.bias}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> LinearSurrogate:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        weights = tuple(float(weight) for weight in expect(row, "weights", list))
        return cls(weights, float(expect(row, "bias", int | float)))


@dataclass(frozen=True, slots=True)
class SplitSurrogate:
    """One linear function for the subsets with a whole rule, another for those without.

    Args:
        rules: the minimal sets of source indices that keep the score, as masks, ascending.
        above: predicts subsets with a whole rule.
        below: predicts the others.
        complete: whether the search for rules ended, so that under the assumption that more
            sources keep the score too there are no others.
    """

    rules: tuple[int, ...]
    above: LinearSurrogate
    below: LinearSurrogate
    complete: bool

    def holds(self, mask: int) -> bool:
        """Whether a subset has a whole rule."""
        return any(rule & ~mask == 0 for rule in self.rules)

    def __call__(self, mask: int) -> float:
        """The predicted score of a subset."""
        return self.above(mask) if self.holds(mask) else self.below(mask)

    def to_json(self) -> dict[str, Any]:
        """Rules as lists of source indices, and both functions, as a JSON object."""
        return {
            "rules": [list(indices_of(rule)) for rule in self.rules],
            "above": self.above.to_json(),
            "below": self.below.to_json(),
            "complete": self.complete,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> SplitSurrogate:
        """Read the object that ``to_json`` makes.

        Raises:
            DataFormatError: a key is missing or has the wrong type.
        """
        return cls(
            tuple(mask_of(rule) for rule in expect(row, "rules", list)),
            LinearSurrogate.from_json(expect(row, "above", dict)),
            LinearSurrogate.from_json(expect(row, "below", dict)),
            expect(row, "complete", bool),
        )
