"""Graphs from data frames."""

from __future__ import annotations

import datetime as dt

import pytest

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.kg import KnowledgeGraph
from rulerag.types import Fact

ROWS = {
    "Person": ["Anna", "Ben", "Carla"],
    "predicate": ["works for", "works for", None],
    "target": ["Acme", "Acme", "Ben"],
    "date": [dt.date(2023, 1, 2), dt.date(2023, 1, 9), dt.date(2023, 1, 9)],
    "note": [1.5, None, None],
}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_is_read_as_a_table_is(library: str) -> None:
    frame = pytest.importorskip(library).DataFrame(ROWS)
    graph = KnowledgeGraph.from_frame(frame, columns={"subject": "Person"}, name="staff")
    assert list(graph.train) == [
        Fact("Anna", "works for", "Acme", 0),
        Fact("Ben", "works for", "Acme", 7),
    ]
    assert (graph.name, graph.calendar.format(7)) == ("staff", "2023-01-09")
    assert graph.notes["left_out"] == {
        "the column 'predicate' is empty": {"rows": 1, "first_line": 3}
    }
    assert graph.notes["other_columns"] == ["note"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_moments_years_and_missing_values(library: str) -> None:
    module = pytest.importorskip(library)
    facts = {"s": ["a", "b"], "p": ["r", "r"], "o": [1, 2]}
    hours = module.DataFrame(
        {**facts, "time": [dt.datetime(2023, 1, 2, 13), dt.datetime(2023, 1, 3)]}
    )
    graph = KnowledgeGraph.from_frame(hours)
    assert [graph.calendar.format(f.timestamp or 0) for f in graph.train] == [
        "2023-01-02 13:00",
        "2023-01-03",
    ]
    # A whole number beside a missing one is a float in pandas.
    years = module.DataFrame({**facts, "s": ["a", None], "year": [2014, None]})
    (fact,) = KnowledgeGraph.from_frame(years, columns={"time": "none"}).train
    assert fact == Fact("a", "r", "1")
    with pytest.raises(DataFormatError, match="no column is called as a subject"):
        KnowledgeGraph.from_frame(module.DataFrame({"x": ["a"], "y": ["b"]}))
    with pytest.raises(EmptyDataError, match="no row"):
        KnowledgeGraph.from_frame(module.DataFrame({"s": [], "p": [], "o": []}))
    with pytest.raises(ConfigError, match="no column 'Persn'"):
        KnowledgeGraph.from_frame(years, columns="subject=Persn")


def test_what_is_no_frame() -> None:
    with pytest.raises(DataFormatError, match=r"found list — .*from_facts"):
        KnowledgeGraph.from_frame([("a", "r", "b")])
