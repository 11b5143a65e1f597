"""CPU seconds of two ways to one result, and the hot paths that are measured so, by name."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from threadpoolctl import threadpool_limits

from rulerag.errors import DataError

_A = TypeVar("_A")
_B = TypeVar("_B")


@dataclass(frozen=True)
class Timing:
    """CPU seconds of two ways to one result, on one thread.

    Args:
        case: what was done.
        unit: what is counted, in the plural.
        count: how many units.
        seconds: of the library, for a unit.
        baseline: of the other way, for a unit.
    """

    case: str
    unit: str
    count: int
    seconds: float
    baseline: float

    @property
    def ratio(self) -> float:
        """How many times faster the library is than the other way."""
        return self.baseline / self.seconds


Measure = Callable[[], Iterator[Timing]]


@dataclass(frozen=True)
class HotPath:
    """Something that takes most of the time of somebody's work.

    Args:
        against: the other way to the same result, in words.
        measure: yields the timings.
    """

    against: str
    measure: Measure


HOT_PATHS: dict[str, HotPath] = {}
"""By name, in the order of the table."""


def hot_path(name: str, against: str) -> Callable[[Measure], Measure]:
    """Enter a function among the hot paths.

    Args:
        name: of the path.
        against: the other way, in words.
    """

    def enter(measure: Measure) -> Measure:
        HOT_PATHS[name] = HotPath(against, measure)
        return measure

    return enter


def timed(
    ours: Callable[[], _A], baseline: Callable[[], _B], *, repeats: int = 3
) -> tuple[_A, _B, float, float]:
    """Do both in turns on one thread; their last results and their least CPU seconds.

    Other processes of a machine hardly change CPU seconds, and only ever add to them.
    """
    least = [float("inf"), float("inf")]
    results: list[object] = [None, None]
    with threadpool_limits(1):
        for _ in range(repeats):
            for place, work in enumerate((ours, baseline)):
                gc.collect()
                started = time.process_time()
                results[place] = work()
                least[place] = min(least[place], time.process_time() - started)
    return *results, *least  # type: ignore[return-value]


def check_equal(case: str, ours: object, baseline: object) -> None:
    """Refuse to compare the speed of two different results.

    Raises:
        DataError: they differ.
    """
    if ours != baseline:
        raise DataError(f"{case}: the two ways do not give the same")
