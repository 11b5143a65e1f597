"""RDF: labels and aliases, what is left out, and files that are broken."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rulerag.errors import DataFormatError, EmptyDataError
from rulerag.kg import KnowledgeGraph

pytest.importorskip("rdflib")

TURTLE = """\
@prefix ex: <http://ex.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
ex:q1 ex:worksFor ex:q2 ; rdfs:label "Anna Maier"@de, "Anna Meyer"@en ; ex:age 41 ;
    skos:altLabel "A. Meyer", "Anna" ; ex:lives [ ex:city ex:q3 ] .
ex:q2 rdfs:label "Acme" .
"""
TRIPLES = "<http://ex.org/q1> <http://ex.org/worksFor> <http://ex.org/q2> .\n"


def test_turtle_with_labels_aliases_and_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "staff.ttl"
    path.write_text(TURTLE)
    graph = KnowledgeGraph.load(path)
    assert [tuple(fact)[:3] for fact in graph.train] == [
        ("http://ex.org/q1", "http://ex.org/worksFor", "http://ex.org/q2")
    ]
    assert graph.entities.labels == ["Anna Meyer", "Acme"]
    assert graph.relations.labels == ["works for"]
    assert graph.entities.aliases == {"http://ex.org/q1": ("A. Meyer", "Anna")}
    left = graph.notes["left_out"]
    assert isinstance(left, dict)
    assert [entry["rows"] for why, entry in sorted(left.items())] == [2, 1]  # blank, then literal


def test_several_files_and_splits(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = TRIPLES.replace("q1", name)
        (tmp_path / f"{name}.nt.gz").write_bytes(gzip.compress(text.encode()))
    assert len(KnowledgeGraph.load(tmp_path).train) == 2
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.nt").write_text(TRIPLES.replace("q1", split))
    graph = KnowledgeGraph.load(tmp_path)
    assert {name: len(facts) for name, facts in graph.splits.items()} == {
        "train": 1,
        "valid": 1,
        "test": 1,
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.ttl",
            TURTLE.replace(" ;", " ,,", 1).encode(),
            r"a.ttl, line 4: cannot be read as turt",
        ),
        ("a.nt", b"Anna worksFor Acme .\n", r"cannot be read as nt"),
        ("a.nt", b"<a\xff\xfe\x00", r"line 1: not UTF-8 text"),
    ],
)
def test_broken_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFormatError, match=message):
        KnowledgeGraph.load(tmp_path / name)


def test_literals_alone_make_no_graph(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text('<http://ex.org/a> <http://ex.org/age> "4" .\n')
    with pytest.raises(EmptyDataError, match=r"a literal .* \(1 times\).*two IRIs"):
        KnowledgeGraph.load(tmp_path / "a.nt")
