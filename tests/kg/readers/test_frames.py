"""Graphs from data frames and networkx."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError, UnknownNameError
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


def test_what_is_no_frame_and_no_graph() -> None:
    with pytest.raises(DataFormatError, match=r"found list — .*from_facts"):
        KnowledgeGraph.from_frame([("a", "r", "b")])
    with pytest.raises(DataFormatError, match="expected a networkx graph, found list"):
        KnowledgeGraph.from_networkx([("a", "b")])


def _staff(kind: str) -> Any:
    graph = getattr(pytest.importorskip("networkx"), kind)()
    graph.add_node(1, name="Anna Meyer")
    graph.add_node(2, name="Acme")
    graph.add_edge(1, 2, type="works for", since="02.01.2023")
    graph.add_edge(2, 1, type="pays", since="03.01.2023", weight=3)
    return graph


@pytest.mark.parametrize("kind", ["DiGraph", "MultiDiGraph"])
def test_edges_are_facts_and_nodes_have_labels(kind: str) -> None:
    graph = KnowledgeGraph.from_networkx(_staff(kind))
    assert list(graph.train) == [Fact("1", "works for", "2", 0), Fact("2", "pays", "1", 1)]
    assert graph.entities.labels == ["Anna Meyer", "Acme"]
    assert graph.calendar.format(0) == "2023-01-02"
    assert graph.notes["other_columns"] == ["weight"]


def test_the_relation_is_named_or_the_key_of_an_edge() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiDiGraph([("a", "b", "knows", {}), ("a", "b", "likes", {})])
    assert [fact.relation for fact in KnowledgeGraph.from_networkx(graph).train] == [
        "knows",
        "likes",
    ]
    plain = networkx.DiGraph([("a", "b", {"how": "knows"})])
    with pytest.raises(DataFormatError, match=r"edges have how — name it"):
        KnowledgeGraph.from_networkx(plain)
    (fact,) = KnowledgeGraph.from_networkx(plain, relation="how").train
    assert fact == Fact("a", "knows", "b")
    with pytest.raises(UnknownNameError, match=r"'who'.*did you mean 'how'"):
        KnowledgeGraph.from_networkx(plain, relation="who")
    with pytest.raises(EmptyDataError):
        KnowledgeGraph.from_networkx(networkx.DiGraph([]), relation=None)
