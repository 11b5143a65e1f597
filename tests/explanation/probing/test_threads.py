"""Engines and values that several threads share: nothing is asked twice, and budgets hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rulerag.errors import ExplanationError, ProbeBudgetError, RuleRAGError
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.values import SetValue
from tests.fakes import PlantedFunction


class Slow(PlantedFunction):
    """Answers after a while, so that threads meet; asks in any number of threads are recorded."""

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
    function = Slow([f"output {mask}" for mask in range(64)])
    engine = ProbeEngine.from_function(function, num_sources=6, batch_size=8)
    found = in_threads(lambda number: engine.probe(range(64)))
    assert found == [[f"output {mask}" for mask in range(64)]] * 4
    assert sorted(function.asked) == list(range(64)) and engine.num_probes == 64


def test_the_budget_holds_whichever_thread_asks() -> None:
    function = Slow([f"output {mask}" for mask in range(1 << 8)])
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
    inner = ProbeEngine.from_function(
        PlantedFunction([f"output {mask}" for mask in range(4)]), num_sources=2
    )
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
