"""Exports of Neo4j in its import format."""

from __future__ import annotations

from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataFormatError, EmptyDataError
from rulerag.kg import KnowledgeGraph, Verbalizer

PEOPLE = "personId:ID(Person),name,age:int,:LABEL\n1,Anna Meyer,41,Person\n2,Ben,30,Person;Boss\n"
FIRMS = "id:ID(Firm),name,:LABEL\n1,Acme,Firm\n2,Ben,Firm\n3,Idle,Firm\n"
EDGES = """\
:START_ID(Person),:END_ID(Firm),:TYPE,since:date,role
1,1,WORKS_FOR,2023-01-02,chef
2,2,OWNS,2023-01-03,
"""


def _words(graph: KnowledgeGraph) -> list[str]:
    words = Verbalizer(graph)
    return [words.fact(fact) for fact in graph.train]


def test_nodes_and_relationships(tmp_path: Path) -> None:
    for name, text in (("people", PEOPLE), ("firms", FIRMS), ("edges", EDGES)):
        (tmp_path / f"{name}.csv").write_text(text)
    graph = KnowledgeGraph.load(tmp_path)
    assert _words(graph) == [
        "Time 2023-01-02 Anna Meyer works for Acme.",
        "Time 2023-01-03 Ben (Person Boss) owns Ben (Firm).",
    ]
    assert graph.entities.names == ["Person/1", "Firm/1", "Person/2", "Firm/2"]
    assert graph.notes["other_columns"] == ["role"]
    assert graph.notes["nodes_without_relationship"] == 1
    undated = KnowledgeGraph.load(tmp_path, columns="time=none")
    assert _words(undated)[0] == "Anna Meyer works for Acme."
    with pytest.raises(ConfigError, match=r"no property 'from'.*since, role"):
        KnowledgeGraph.load(tmp_path, columns="time=from")
    with pytest.raises(ConfigError, match="its own columns"):
        KnowledgeGraph.load(tmp_path, columns="subject=name")


def test_faults_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    with pytest.raises(EmptyDataError, match="holds no relationship"):
        KnowledgeGraph.load(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES.replace("2023-01-03", "soon"))
    with pytest.raises(DataFormatError, match=r"edges.csv, line 3, key 'since'.*found 'soon'"):
        KnowledgeGraph.load(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES + "1,2\n")
    with pytest.raises(DataFormatError, match=r"edges.csv, line 4: expected 5 columns, found 2"):
        KnowledgeGraph.load(tmp_path)


def test_what_lies_beside_the_splits_of_another_layout(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a\tr\tb\nb\tr\ta\n")
    (tmp_path / "ontology.owl").write_text("<rdf/>")
    (tmp_path / "table.csv").write_bytes(bytes(9))
    assert KnowledgeGraph.load(tmp_path, columns="hrt").notes["layout"] == "triples"
    for layout in ("rdf", "neo4j"):
        (tmp_path / "plain.csv").write_text("s,p,o\na,r,b\n")
        with pytest.raises(DataFormatError, match=f"does not have the layout '{layout}'"):
            KnowledgeGraph.load(tmp_path / "plain.csv", layout=layout)
