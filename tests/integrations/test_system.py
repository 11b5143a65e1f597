"""Retrievers and pipelines asked in plain words: what is opened, found and answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rulerag import BM25Retriever, Document, Query, RuleQADataset, RuleRAGPipeline, ScoredDocument
from rulerag.assembly import make_pipeline, open_dataset, preset
from rulerag.errors import ConfigError, DataFormatError
from rulerag.integrations import System, open_system
from rulerag.integrations.system import metadata_of, scored_documents


def test_a_folder_answers_as_the_command_line_does(
    folder: Path, system: System, query: Query
) -> None:
    config = preset(folder, top_k=4)
    (wanted,) = make_pipeline(config, open_dataset(config)).answer([query])
    found = [(document.text, metadata) for document, metadata in system.search(query.text)]
    assert tuple(scored_documents(found)) == wanted.documents, "nothing is lost in the metadata"
    answer = system.answer(query.text, found)
    assert wanted.text and answer.text == wanted.text and answer.rules == wanted.rules


def test_metadata_say_score_rank_rules_and_facts(system: System, query: Query) -> None:
    texts = {rule.text for rule in system.pipeline.selector.select([query])[0]}
    found = [metadata for _, metadata in system.search(query.text)]
    assert [one["rank"] for one in found] == [1, 2, 3, 4]
    assert [one["score"] for one in found] == sorted((m["score"] for m in found), reverse=True)
    assert all(one["rules"] and set(one["rules"]) <= texts for one in found)
    assert all(len(fact) == 4 for one in found for fact in one["facts"]) and found[0]["facts"]
    titled = ScoredDocument(Document("a", "Text.", title="T"), 1, 1)
    assert metadata_of(titled, {})["title"] == "T"


def test_questions_in_other_words_and_about_nobody(system: System, query: Query) -> None:
    meant = system.query(query.text)
    asked = f"Please tell me: {query.subject_words}, what do they {query.relation_words}?"
    linked = system.query(asked)
    assert (linked.subject, linked.relation) == (meant.subject, meant.relation)
    assert linked.meaning is not None and meant.meaning is None and system.search(asked)
    assert system.search("Who is it?") == []
    assert system.query("Who is it?").refusal.startswith("nobody known is mentioned")


def test_plain_text_needs_no_dataset() -> None:
    retriever = BM25Retriever([Document("a", "Paris is the capital."), Document("b", "Lyon.")])
    found = open_system(retriever, top_k=1).search("the capital ?")
    assert [(document.id, metadata["rules"]) for document, metadata in found] == [("a", [])]


def test_questions_of_ones_own(folder: Path, system: System, query: Query) -> None:
    by_dataset = open_system(system.pipeline, question=RuleQADataset.load(folder))
    assert by_dataset.top_k == system.pipeline.top_k == 4
    assert by_dataset.search(query.text) == system.search(query.text)
    by_function = open_system(system.retriever, question=lambda _: query)
    assert by_function.search("whatever", 4) == system.search(query.text)


def test_documents_of_other_retrievers_have_a_text_alone() -> None:
    (first, second) = scored_documents([("One.", {}), ("Two.", {"id": 7, "page": 3})])
    assert (first.document.id, first.rank) == ("document-1", 1)
    assert (second.document.id, second.document.facts, second.found_by) == ("7", (), ())
    with pytest.raises(DataFormatError, match="facts"):
        scored_documents([("One.", {"facts": "many"})])


@pytest.mark.parametrize(
    ("of", "settings", "message"),
    [
        (3, {}, "int is nothing that can be asked"),
        ("nowhere", {}, "is not here"),
        ("a.yaml", {"rules": "none"}, r"key 'rules'.*a.yaml has settings of its own"),
        ("folder", {"top_k": 0}, "key 'top_k'"),
        ("pipeline", {"retriever": "bm25"}, r"key 'retriever'.*settings of its own"),
        ("system", {"top_k": 3}, r"key 'top_k'.*settings of its own"),
    ],
)
def test_what_cannot_be_asked(
    of: Any, settings: dict[str, Any], message: str, folder: Path, system: System
) -> None:
    known = {"folder": folder, "pipeline": system.pipeline, "system": system}
    with pytest.raises(ConfigError, match=message):
        open_system(known.get(of, of), **settings)


def test_an_experiment_file(folder: Path, query: Query, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(
        f"dataset: {{path: {folder}}}\n"
        "retriever: {type: bm25}\ngenerator: {type: symbolic}\ntop_k: 2\n"
    )
    system = open_system(file)
    assert isinstance(system.pipeline, RuleRAGPipeline)
    assert [one["rules"] for _, one in system.search(query.text)] == [[], []]


def test_a_framework_that_is_missing_is_named(lean_environment: dict[str, str]) -> None:
    hints = {
        "langchain": "pip install 'rulerag[langchain]'",
        "llama_index": "pip install 'rulerag[llama-index]'",
        "haystack": "pip install haystack-ai",
        "ragas": "pip install ragas",
        "deepeval": "pip install deepeval",
    }
    code = """
import importlib, sys
from rulerag.errors import MissingDependencyError
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"rulerag.integrations.{name}")
    except MissingDependencyError as error:
        print(error.hint)
"""
    command = [sys.executable, "-c", code, *hints]
    printed = subprocess.check_output(command, env=lean_environment, text=True)
    assert printed.splitlines() == [*hints.values()]
