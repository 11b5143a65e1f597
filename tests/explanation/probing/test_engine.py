from __future__ import annotations

import numpy as np
import pytest

from rulerag.errors import ConfigError, ExplanationError, GenerationError, ProbeBudgetError
from rulerag.explanation.probing.engine import ProbeEngine
from rulerag.explanation.probing.sources import partition
from rulerag.protocols import Generator
from rulerag.types import Document, GenerationRequest, Query
from tests.fakes import PlantedFunction, PlantedGenerator, planted_rule

DOCUMENTS = tuple(Document(f"d{i}", f"Text {i}.") for i in range(1, 5))
REQUEST = GenerationRequest(Query("q", "where ?"), DOCUMENTS, (planted_rule("a"),))


def numbered(num_sources: int) -> PlantedFunction:
    return PlantedFunction([f"output {mask}" for mask in range(1 << num_sources)])


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
    assert engine.seconds > 0


def test_more_sources_than_fit_a_machine_word() -> None:
    engine = ProbeEngine.from_function(
        lambda kept: [",".join(map(str, subset)) for subset in kept], num_sources=80
    )
    assert engine.probe([1 << 79 | 1, [3], 1 << 79 | 1, 0]) == ["0,79", "3", "0,79", ""]
    assert engine.num_probes == 3


def test_no_source_at_all() -> None:
    engine = ProbeEngine.from_function(lambda kept: ["alone"] * len(kept), num_sources=0)
    assert engine.probe([0, []]) == ["alone", "alone"] and engine.num_probes == 1


def test_batches_are_bounded() -> None:
    function = numbered(5)
    engine = ProbeEngine.from_function(function, num_sources=5, batch_size=10)
    engine.probe(range(32))
    assert [len(batch) for batch in function.batches] == [10, 10, 10, 2]
    assert function.asked == list(range(32))


def test_the_budget_counts_distinct_subsets_and_keeps_what_was_asked() -> None:
    function = numbered(4)
    engine = ProbeEngine.from_function(function, num_sources=4, max_probes=3, batch_size=2)
    assert engine.probe([1, 1, 2]) == ["output 1", "output 1", "output 2"]
    with pytest.raises(ProbeBudgetError, match=r"budget of 3 probes is used up, 2 more"):
        engine.probe([2, 3, 4, 5])
    assert function.asked == [1, 2, 3] and engine.num_probes == 3
    assert engine.probe([3, 1]) == ["output 3", "output 1"]
    assert engine.known_codes([3, 4]).tolist() == [2, -1]
    engine.max_probes = 4
    assert engine.probe([4]) == ["output 4"]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (["a"], "1 outputs for 2 subsets"),
        (["a", "b", "c"], "3 outputs for 2 subsets"),
        ("ab", "returned str, expected a list of 2 texts"),
        (None, "returned NoneType"),
        (["a", None], "NoneType instead of a text for the subset that keeps the sources 0, 1"),
        (["a", ["b"]], "list instead of a text"),
        ([True, "b"], "bool instead of a text for the subset that keeps the sources none"),
    ],
)
def test_wrong_outputs_are_named(returned: object, message: str) -> None:
    engine = ProbeEngine.from_function(lambda kept: returned, num_sources=2)  # type: ignore
    with pytest.raises(ExplanationError, match=message):
        engine.probe([0, 3])
    assert engine.num_probes == 0


def test_an_iterator_of_outputs_will_do() -> None:
    engine = ProbeEngine.from_function(lambda kept: map(str, kept), num_sources=2)  # type: ignore
    assert engine.probe([3]) == ["(0, 1)"]


def test_a_failing_function_is_named_and_the_rest_is_kept() -> None:
    calls = []

    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        calls.append(kept)
        if len(calls) == 2:
            raise ValueError("no more tokens")
        return ["ok"] * len(kept)

    engine = ProbeEngine.from_function(answer, num_sources=3, batch_size=2)
    with pytest.raises(
        ExplanationError, match=r"ValueError: no more tokens.*first keeps sources 1"
    ):
        engine.probe([0, 1, 2, 3])
    assert engine.num_probes == 2
    assert engine.probe([0, 1, 2, 3]) == ["ok"] * 4
    assert calls == [[(), (0,)], [(1,), (0, 1)], [(1,), (0, 1)]]


def test_a_named_error_of_the_generator_passes_through() -> None:
    def answer(kept: list[tuple[int, ...]]) -> list[str]:
        raise GenerationError("overloaded", provider="endpoint", retryable=True)

    with pytest.raises(GenerationError, match="overloaded"):
        ProbeEngine.from_function(answer, num_sources=1).probe([0])


@pytest.mark.parametrize("subset", [16, -1, [4], [-1], [10**12]])
def test_subsets_out_of_range_are_refused(subset: object) -> None:
    with pytest.raises(ExplanationError, match="does not fit 4 sources"):
        ProbeEngine.from_function(numbered(4), num_sources=4).probe([subset])  # type: ignore


@pytest.mark.parametrize("subset", ["01", 1.5, None, [0.5]])
def test_what_is_no_subset_is_refused(subset: object) -> None:
    with pytest.raises(ExplanationError, match="is not a subset"):
        ProbeEngine.from_function(numbered(4), num_sources=4).probe([subset])  # type: ignore


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_sources": -1},
        {"num_sources": 2.0},
        {"num_sources": 2, "batch_size": 0},
        {"num_sources": 2, "max_probes": -1},
        {"num_sources": 2, "names": ["one"]},
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="key '"):
        ProbeEngine.from_function(numbered(2), **arguments)  # type: ignore


def test_a_generator_is_asked_with_documents_removed_and_the_rest_fixed() -> None:
    generator = PlantedGenerator(lambda ids: "+".join(sorted(ids)))
    assert isinstance(generator, Generator)
    engine = ProbeEngine.from_generator(generator, REQUEST)
    assert engine.names == ("D1", "D2", "D3", "D4")
    assert engine.probe([0b1010, 0b1111, 0]) == ["d2+d4", "d1+d2+d3+d4", ""]
    assert generator.batches == [3]
    for request in generator.requests:
        assert request.query == REQUEST.query and request.rules == REQUEST.rules
    assert [d.id for d in generator.requests[0].documents] == ["d2", "d4"]


def test_documents_without_a_source_stay_in_every_probe() -> None:
    generator = PlantedGenerator(lambda ids: "+".join(sorted(ids)))
    engine = ProbeEngine.from_generator(generator, REQUEST, partition(DOCUMENTS)[1:3])
    assert engine.probe([0, 1]) == ["d1+d4", "d1+d2+d4"]


def test_a_generator_without_sources_is_refused() -> None:
    with pytest.raises(ExplanationError, match="no source to keep or remove"):
        ProbeEngine.from_generator(PlantedGenerator.dnf([[]]), GenerationRequest(Query("q", "?")))


def test_batches_are_told_as_they_are_answered() -> None:
    engine = ProbeEngine.from_function(numbered(2), num_sources=2)
    batches: list[tuple[int, float]] = []
    engine.on_batch = lambda probes, seconds: batches.append((probes, seconds))
    engine.probe([0])
    engine.probe([0, 1, 2])
    assert [probes for probes, _ in batches] == [1, 2]
    assert sum(seconds for _, seconds in batches) == pytest.approx(engine.seconds)
