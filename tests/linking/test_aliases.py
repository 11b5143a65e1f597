"""What entities are called besides their labels: from a graph's file to a question and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulerag.kg import KnowledgeGraph
from rulerag.linking import QuestionLinker, link_mentions, spellings
from rulerag.ruleqa import RuleQADataset, build, update
from rulerag.types import Document

HEADER = """\
@prefix ex: <http://ex.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
"""


def turtle(first: int, last: int) -> str:
    lines = [HEADER]
    for number in range(first, last):
        lines.append(
            f'ex:p{number} rdfs:label "Person {number}" ; skos:altLabel "Nick{number}x" ;'
            f" ex:hiredBy ex:f{number % 3} ; ex:worksFor ex:f{number % 3} ."
        )
    lines += [f'ex:f{number} rdfs:label "Firm {number}" .' for number in range(3)]
    return "\n".join(lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("rdflib")
    (tmp_path / "staff.ttl").write_text(turtle(0, 40), encoding="utf-8")
    graph = KnowledgeGraph.load(tmp_path / "staff.ttl")
    build(None, graph).save(tmp_path / "dataset")
    return tmp_path / "dataset"


def test_a_question_names_an_entity_by_its_alias(folder: Path) -> None:
    dataset = RuleQADataset.load(folder)
    assert dataset.aliases["http://ex.org/p7"] == ["Nick7x"]
    (found,) = QuestionLinker(dataset).link(["Who does Nick7x work for?"])
    assert found.readings[0].query.subject == "http://ex.org/p7"
    texts = [Document("t", "On Monday Nick7x was late.")]
    names = spellings(["http://ex.org/p7"], dataset.labels["entities"], dataset.aliases)
    assert link_mentions(texts, names)[0].entities == ("http://ex.org/p7",)


def test_aliases_are_part_of_the_content_and_kept_by_an_update(folder: Path) -> None:
    before = RuleQADataset.load(folder)
    assert json.loads((folder / "labels.json").read_text())["aliases"] == before.aliases
    (folder.parent / "new.ttl").write_text(turtle(40, 42), encoding="utf-8")
    update(folder, KnowledgeGraph.load(folder.parent / "new.ttl"))
    after = RuleQADataset.load(folder)
    assert after.aliases == {
        **before.aliases,
        **{f"http://ex.org/p{n}": [f"Nick{n}x"] for n in (40, 41)},
    }
    assert after.fingerprint != before.fingerprint


def test_a_dataset_without_aliases_is_written_as_ever(folder: Path, tmp_path: Path) -> None:
    dataset = RuleQADataset.load(folder)
    dataset.aliases.clear()
    dataset.save(tmp_path / "plain")
    assert set(json.loads((tmp_path / "plain" / "labels.json").read_text())) == {
        "entities",
        "relations",
    }
