"""A predicate over the outputs of an engine: each distinct output is judged once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rulerag.errors import GenerationError, PredicateError
from rulerag.explanation.wording import shortened

__all__ = ["Judge", "Predicate"]

Predicate = Callable[[str], bool]
"""A question with the answer yes or no about one output."""


class Judge:
    """A predicate over output codes.

    Args:
        predicate: what is asked of an output; one with a method ``many`` (outputs to verdicts)
            gets all the new outputs of a batch at once.
        outputs: the distinct outputs of an engine, a list that grows; a code is a place in it.

    Raises:
        PredicateError: when called, if the predicate raised or did not return a Boolean.
        GenerationError: when called, if a judging model failed; never a verdict.
    """

    def __init__(self, predicate: Predicate, outputs: Sequence[str]) -> None:
        self._predicate = predicate
        self._outputs = outputs
        self._verdicts = np.zeros(0, dtype=np.int8)  # -1 not judged, 0 fails, 1 holds

    def __call__(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Whether the predicate holds, for each code."""
        fresh = len(self._outputs) - self._verdicts.size
        if fresh:
            self._verdicts = np.append(self._verdicts, np.full(fresh, -1, dtype=np.int8))
        verdicts = self._verdicts[codes]
        waiting = codes[verdicts < 0]
        if waiting.size:
            fresh_codes = np.unique(waiting)
            self._verdicts[fresh_codes] = self._ask([self._outputs[c] for c in fresh_codes])
            verdicts = self._verdicts[codes]
        holds: npt.NDArray[np.bool_] = verdicts == 1
        return holds

    def _ask(self, outputs: list[str]) -> list[bool]:
        many = getattr(self._predicate, "many", None)
        if many is None:
            return [self._checked(self._one(output), output) for output in outputs]
        try:
            verdicts = list(many(outputs))
        except (PredicateError, GenerationError):
            raise
        except Exception as error:
            raise PredicateError(
                f"the predicate raised {type(error).__name__}: {error}, on {len(outputs)} outputs, "
                f"the first {shortened(repr(outputs[0]), 200)}"
            ) from error
        if len(verdicts) != len(outputs):
            raise PredicateError(
                f"the predicate gave {len(verdicts)} verdicts on {len(outputs)} outputs"
            )
        return [self._checked(v, output) for v, output in zip(verdicts, outputs, strict=True)]

    def _one(self, output: str) -> object:
        try:
            return self._predicate(output)
        except (PredicateError, GenerationError):
            raise
        except Exception as error:
            raise PredicateError(
                f"the predicate raised {type(error).__name__}: {error}, "
                f"on the output {shortened(repr(output), 200)}"
            ) from error

    @staticmethod
    def _checked(verdict: object, output: str) -> bool:
        if not isinstance(verdict, bool | np.bool_ | int):
            raise PredicateError(
                f"the predicate returned {verdict!r} on the output {shortened(repr(output), 200)}",
                hint="return True or False",
            )
        return bool(verdict)
