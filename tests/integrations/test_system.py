"""Retrievers and pipelines asked in plain words: what is opened, found and answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rulerag
from rulerag import BM25Retriever, Document, Query, RuleQADataset, RuleRAGPipeline
from rulerag.assembly import make_pipeline, open_dataset, preset
from rulerag.errors import ConfigError, DataFormatError, UnknownNameError
from rulerag.integrations import System, open_system
from rulerag.integrations.system import metadata_of, question_in, scored_documents


def test_a_folder_answers_as_the_command_line_does(
    folder: Path, system: System, query: Query
) -> None:
    config = preset(folder, top_k=4)
    (wanted,) = make_pipeline(config, open_dataset(config)).answer([query])
    found = system.search(query.text)
    assert [document for document, _ in found] == [one.document for one in wanted.documents]
    read = scored_documents([(document.text, metadata) for document, metadata in found])
    assert tuple(read) == wanted.documents, "nothing is lost in the metadata"
    answer = system.answer(query.text, read)
    assert wanted.text and answer.text == wanted.text and answer.rules == wanted.rules


def test_metadata_say_score_rank_rules_and_facts(system: System, query: Query) -> None:
    texts = {rule.text for rule in system.pipeline.selector.select([query])[0]}
    found = [metadata for _, metadata in system.search(query.text)]
    assert [one["rank"] for one in found] == [1, 2, 3, 4]
    assert [one["score"] for one in found] == sorted((m["score"] for m in found), reverse=True)
    assert all(one["rules"] and set(one["rules"]) <= texts for one in found)
    assert all(len(fact) == 4 for one in found for fact in one["facts"]) and found[0]["facts"]
    titled = rulerag.ScoredDocument(Document("a", "Text.", title="T"), 1, 1)
    assert metadata_of(titled, {})["title"] == "T"


def test_a_question_that_names_nothing_is_an_error_by_name(system: System) -> None:
    with pytest.raises(UnknownNameError, match="no known name"):
        system.search("Who is it?")


def test_a_question_in_other_words_finds_what_the_datasets_own_form_finds(
    system: System, query: Query
) -> None:
    meant = system.query(query.text)
    asked = f"Please tell me: {query.subject_words}, what do they {query.relation_words}?"
    linked = system.query(asked)
    assert (linked.subject, linked.relation) == (meant.subject, meant.relation)
    assert [document.id for document, _ in system.search(asked)]
    assert linked.relations and not meant.relations


def test_plain_text_needs_no_dataset() -> None:
    retriever = BM25Retriever([Document("a", "Paris is the capital."), Document("b", "Lyon.")])
    found = open_system(retriever, top_k=1).search("the capital ?")
    assert [(document.id, metadata["rules"]) for document, metadata in found] == [("a", [])]
    with pytest.raises(ConfigError, match="BM25Retriever finds documents and does not answer"):
        open_system(retriever).answer("the capital ?", [])


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


def test_what_cannot_be_asked(folder: Path, system: System, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="int is nothing that can be asked"):
        open_system(3)
    with pytest.raises(ConfigError, match="is not here"):
        open_system(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"key 'retriever'.*settings of its own"):
        open_system(system.pipeline, retriever="bm25")
    with pytest.raises(ConfigError, match=r"key 'top_k'.*settings of its own"):
        open_system(system, top_k=3)
    with pytest.raises(ConfigError, match="decides this itself"):
        open_system(tmp_path / "a.yaml", rules="none")
    with pytest.raises(ConfigError, match="key 'top_k'"):
        open_system(folder, top_k=0)
    with pytest.raises(ConfigError, match="no question in a dict"):
        question_in({"text": 3})


def test_an_experiment_file(folder: Path, query: Query, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(
        f"dataset: {{path: {folder}}}\n"
        "retriever: {type: bm25}\ngenerator: {type: symbolic}\ntop_k: 2\n"
    )
    system = open_system(file)
    assert isinstance(system.pipeline, RuleRAGPipeline)
    assert [one["rules"] for _, one in system.search(query.text)] == [[], []]


@pytest.mark.parametrize(
    ("module", "name", "command"),
    [
        ("langchain", "RuleRAGRetriever", "pip install 'rulerag[langchain]'"),
        ("llama_index", "RuleRAGQueryEngine", "pip install 'rulerag[llama-index]'"),
        ("haystack", "RuleRAGReader", "pip install haystack-ai"),
        ("ragas", "RuleFaithfulness", "pip install ragas"),
        ("deepeval", "RuleFaithfulness", "pip install deepeval"),
    ],
)
def test_a_framework_that_is_missing_is_named(
    module: str, name: str, command: str, lean_environment: dict[str, str]
) -> None:
    code = f"import rulerag.integrations.{module} as one; one.{name}"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=lean_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "MissingDependencyError" in run.stderr and command in run.stderr
