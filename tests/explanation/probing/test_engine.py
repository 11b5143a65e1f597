"""Subsets of sources asked once, in batches, within a budget, from one thread or many."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from rulerag.errors import (
    ConfigError,
    ExplanationError,
    GenerationError,
    ProbeBudgetError,
    RuleRAGError,
)
from rulerag.explanation.probing import ProbeEngine, SetValue
from tests.fakes import PlantedFunction


def numbered(num_sources: int, kind: type[PlantedFunction] = PlantedFunction) -> PlantedFunction:
    return kind([f"output {mask}" for mask in range(1 << num_sources)])


def test_outputs_come_in_order_and_each_subset_is_asked_once() -> None:
    function = numbered(4)
    engine = ProbeEngine.from_function(function, num_sources=4)
    assert engine.probe([5, 0, 5, [1, 0], (), {2, 0}, np.int64(9)]) == [
        f"output {m}" for m in (5, 0, 5, 3, 0, 5, 9)
    ]
    assert function.asked == [5, 0, 3, 9] and engine.num_probes == 4
    assert engine.probe([9, 15]) == ["output 9", "output 15"]
    assert function.asked == [5, 0, 3, 9, 15] and engine.num_probes == 5
    assert function.batches[0] == [(0, 2), (), (0, 1), (0, 3)]
    assert engine.answered() == {mask: f"output {mask}" for mask in (0, 3, 5, 9, 15)}
    assert (engine.output(15), engine.output(14)) == ("output 15", None)


def test_more_sources_than_fit_a_machine_word() -> None:
    asked: list[tuple[int, ...]] = []

    def answer(batch: list[tuple[int, ...]]) -> list[str]:
        asked.extend(batch)
        return [",".join(map(str, kept)) for kept in batch]

    engine = ProbeEngine.from_function(answer, num_sources=80)
    far = 1 << 79 | 1
    assert engine.probe([far, [3], far, 0]) == ["0,79", "3", "0,79", ""]
    assert engine.num_probes == len(asked) == 3 and set(engine.answered()) == {far, 8, 0}


def test_batches_are_bounded_and_seen_as_they_are_answered() -> None:
    seen: list[int] = []
    function = numbered(5)
    engine = ProbeEngine.from_function(
        function, num_sources=5, batch_size=10, on_batch=lambda: seen.append(engine.num_probes)
    )
    engine.probe(range(32))
    assert [len(batch) for batch in function.batches] == [10, 10, 10, 2]
    assert seen == [10, 20, 30, 32]


def test_the_budget_counts_distinct_subsets_and_keeps_what_was_asked() -> None:
    function = numbered(4)
    engine = ProbeEngine.from_function(function, num_sources=4, max_probes=3, batch_size=2)
    assert engine.probe([1, 1, 2]) == ["output 1", "output 1", "output 2"]
    with pytest.raises(ProbeBudgetError, match=r"budget of 3 probes is used up, 2 more"):
        engine.probe([2, 3, 4, 5])
    assert function.asked == [1, 2, 3] and engine.num_probes == 3 and engine.left == 0
    assert engine.probe([3, 1]) == ["output 3", "output 1"]
    assert engine.known_codes([3, 4]).tolist() == [2, -1]
    engine.allow(1)
    assert engine.probe([4]) == ["output 4"] and engine.left == 0
    engine.allow(None)
    assert engine.left is None and len(engine.probe(range(16))) == 16


def test_what_is_wanted_later_fills_places_that_take_no_time_of_their_own() -> None:
    function = numbered(4)
    engine = ProbeEngine.from_function(function, num_sources=4, together=3, max_probes=7)
    engine.probe([7], besides=[1, 7, 2, 4])
    engine.probe([7], besides=[4])  # nothing is asked, so nothing is free
    engine.probe([3, 5, 6, 8], besides=[4])
    assert function.asked == [7, 1, 2, 3, 5, 6, 8] and engine.left == 0


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (["a"], "1 outputs for 2 subsets"),
        (["a", "b", "c"], "3 outputs for 2 subsets"),
        ("ab", "returned str, expected a list of 2 texts"),
        (None, "returned NoneType"),
        (["a", None], "NoneType instead of a text for the subset that keeps the sources 0, 1"),
        ([True, "b"], "bool instead of a text for the subset that keeps the sources none"),
    ],
)
def test_wrong_outputs_are_named(returned: Any, message: str) -> None:
    engine = ProbeEngine.from_function(lambda kept: returned, num_sources=2)
    with pytest.raises(ExplanationError, match=message):
        engine.probe([0, 3])
    assert engine.num_probes == 0 and engine.answered() == {}
    good = ProbeEngine.from_function(lambda kept: map(str, kept), num_sources=2)  # type: ignore
    assert good.probe([3]) == ["(0, 1)"], "an iterator will do"


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (
            ValueError("no more tokens"),
            ExplanationError,
            "ValueError: no more tokens.*first keeps sources 1",
        ),
        (GenerationError("overloaded"), GenerationError, "overloaded"),
    ],
)
def test_a_failing_function_is_named_and_the_rest_is_kept(
    error: Exception, expected: type[Exception], message: str
) -> None:
    function = numbered(3)

    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        if len(function.batches) == 1:
            function.batches.append(kept)
            raise error
        return function(kept)

    engine = ProbeEngine.from_function(answer, num_sources=3, batch_size=2)
    with pytest.raises(expected, match=message):
        engine.probe([0, 1, 2, 3])
    assert engine.num_probes == 2
    assert engine.probe([0, 1, 2, 3])[3] == "output 3" and function.asked == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("subset", "message"),
    [
        *((one, "does not fit 4 sources") for one in (16, -1, [4], [-1], [10**12])),
        *((one, "is not a subset") for one in ("01", 1.5, None, [0.5])),
    ],
)
def test_what_is_no_subset_is_refused(subset: Any, message: str) -> None:
    with pytest.raises(ExplanationError, match=message):
        ProbeEngine.from_function(numbered(4), num_sources=4).probe([subset])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_sources", -1),
        ("num_sources", 2.0),
        ("num_sources", True),
        ("batch_size", 0),
        ("max_probes", -1),
        ("together", 0),
        ("names", ["one"]),
        ("texts", ["one", "two", "three"]),
    ],
)
def test_bad_arguments_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"key '{key}'"):
        ProbeEngine.from_function(numbered(2), **{"num_sources": 2, key: value})


# --- threads -------------------------------------------------------------------------------------


class Slow(PlantedFunction):
    """Answers after a while, so that threads meet."""

    def __call__(self, kept: list[tuple[int, ...]]) -> list[str]:
        time.sleep(0.02)
        return super().__call__(kept)


def in_threads(work: Callable[[int], object], count: int = 4) -> list[object]:
    """Run the same work in threads that begin together; results or errors, in order."""
    gate = threading.Barrier(count)

    def one(number: int) -> object:
        gate.wait(10)
        try:
            return work(number)
        except RuleRAGError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return [future.result(60) for future in [pool.submit(one, n) for n in range(count)]]


def test_four_threads_ask_each_subset_once() -> None:
    function = numbered(6, Slow)
    engine = ProbeEngine.from_function(function, num_sources=6, batch_size=8)
    found = in_threads(lambda number: engine.probe(range(64)))
    assert found == [[f"output {mask}" for mask in range(64)]] * 4
    assert sorted(function.asked) == list(range(64)) and engine.num_probes == 64


def test_the_budget_holds_whichever_thread_asks() -> None:
    function = numbered(8, Slow)
    engine = ProbeEngine.from_function(function, num_sources=8, batch_size=4, max_probes=50)
    found = in_threads(lambda n: engine.probe(range(64 * n, 64 * n + 64)))
    assert all(isinstance(one, ProbeBudgetError) for one in found)
    assert len(function.asked) == len(set(function.asked)) == engine.num_probes == 50


def test_a_failure_in_one_thread_stops_no_other() -> None:
    calls = []

    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        calls.append(kept)
        if len(calls) == 1:
            raise ValueError("once")
        return ["ok"] * len(kept)

    engine = ProbeEngine.from_function(answer, num_sources=6)
    found = in_threads(lambda number: engine.probe(range(64)))
    assert sum(isinstance(one, ExplanationError) for one in found) == 1
    assert found.count(["ok"] * 64) == 3 and len(calls) == 2 and engine.num_probes == 64


def test_an_engine_over_an_engine_may_ask_it_while_asked() -> None:
    inner = ProbeEngine.from_function(numbered(2), num_sources=2)
    outer = ProbeEngine.from_function(
        lambda kept: inner.probe([[index for index in one if index < 2] for one in kept]),
        num_sources=4,
    )
    found = in_threads(lambda n: (outer.probe(range(16)), inner.probe(range(4)))[0][15])
    assert found == ["output 3"] * 4 and inner.num_probes == 4


def test_numbers_of_subsets_are_asked_for_once_too() -> None:
    asked: list[int] = []

    def function(masks: list[int]) -> list[float]:
        time.sleep(0.02)
        asked.extend(masks)
        return [float(mask) for mask in masks]

    value = SetValue(function, 5)
    found = in_threads(lambda number: value(range(32)).tolist())
    assert found == [[float(mask) for mask in range(32)]] * 4 and sorted(asked) == list(range(32))
