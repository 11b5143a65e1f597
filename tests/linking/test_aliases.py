"""What entities are called besides their labels: from a graph's file to a question and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulerag.kg import KnowledgeGraph
from rulerag.linking import QuestionLinker, link_mentions, spellings
from rulerag.ruleqa import RuleQADataset, build
from rulerag.types import Document

HEADER = """\
@prefix ex: <http://ex.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
"""


def turtle(file: Path, first: int, last: int) -> Path:
    lines = [HEADER]
    for number in range(first, last):
        lines.append(
            f'ex:p{number} rdfs:label "Person {number}" ; skos:altLabel "Nick{number}x" ;'
            f" ex:hiredBy ex:f{number % 3} ; ex:worksFor ex:f{number % 3} ."
        )
    lines += [f'ex:f{number} rdfs:label "Firm {number}" .' for number in range(3)]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_an_alias_is_read_asked_by_and_written(tmp_path: Path) -> None:
    pytest.importorskip("rdflib")
    folder = tmp_path / "dataset"
    build(None, KnowledgeGraph.load(turtle(tmp_path / "staff.ttl", 0, 20))).save(folder)
    dataset = RuleQADataset.load(folder)
    assert dataset.aliases["http://ex.org/p7"] == ["Nick7x"]
    (found,) = QuestionLinker(dataset).link(["Who does Nick7x work for?"])
    assert found.readings[0].query.subject == "http://ex.org/p7"
    names = spellings(["http://ex.org/p7"], dataset.labels["entities"], dataset.aliases)
    texts = [Document("t", "On Monday Nick7x was late.")]
    assert link_mentions(texts, names)[0].entities == ("http://ex.org/p7",)
    assert json.loads((folder / "labels.json").read_text())["aliases"] == dataset.aliases
    dataset.aliases.clear()
    dataset.save(tmp_path / "plain")
    assert json.loads((tmp_path / "plain" / "labels.json").read_text()).keys() == {
        "entities",
        "relations",
    }
