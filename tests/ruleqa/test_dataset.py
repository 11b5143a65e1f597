"""The dataset folder: BEIR's shape, exact round trips, and what is said when it is damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rulerag.errors import (
    DataError,
    DataFormatError,
    EmptyDataError,
    FingerprintError,
    OutputError,
    UnknownNameError,
)
from rulerag.ruleqa import DatasetInfo
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query

INFO = DatasetInfo(
    name="ruleqa-toy",
    calendar={"unit": "hour", "origin": "2014-01-01", "step": 24},
    seed=4,
    settings={"per_bucket": 2},
)


def make_dataset(**changes: object) -> RuleQADataset:
    documents = [
        Document(
            "d1", "Time 2014-01-01 Abbé Consult Benin.", (Fact("Abbé", "Consult", "Benin", 0),)
        ),
        Document(
            "d2", "Time 2014-01-02 Benin Praise Chad.", (Fact("Benin", "Praise", "Chad", 24),)
        ),
        Document("d3", "Nothing is known.", (), "A title"),
    ]
    tests = [
        Query("t1", "Time 2014-01-09 what does Abbé Praise ?", "Abbé", "Praise", 192, ("Benin",)),
        Query("t2", "Time 2014-01-09 what does Chad Praise ?", "Chad", "Praise", 192, ("A", "B")),
        Query("t3", "what is it ?"),
    ]
    training = [Query("r1", "Time 2014-01-08 what does Benin Praise ?", "Benin", "Praise", 168)]
    rule = Rule(
        Atom("Praise", "?x", "?y"),
        (Atom("Consult", "?x", "?y"),),
        temporal=True,
        quality=RuleQuality(support=3, confidence=0.25),
    )
    parts: dict[str, object] = {
        "corpus": documents,
        "queries": {"test": tests, "f_r": training, "f_g": []},
        "qrels": {"test": {"t1": {"d1": 1}, "t2": {"d2": 1, "d1": 0}}, "f_r": {"r1": {"d2": 2}}},
        "rules": RuleBank([rule]),
        "query_sets": {"balanced": {"t1", "t3"}},
        "labels": {"entities": {"Abbé": "Abbé (person)"}, "relations": {"Praise": "Praise"}},
        "info": INFO,
    }
    return RuleQADataset(**{**parts, **changes})  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_dataset().save(tmp_path / "toy")
    return tmp_path / "toy"


def test_round_trip(folder: Path) -> None:
    saved, loaded = make_dataset(), RuleQADataset.load(folder)
    assert loaded.corpus == saved.corpus
    assert loaded.query_set("full") == saved.query_set("full")
    assert loaded.query_set("f_r") == saved.query_set("f_r")
    assert loaded.qrels() == saved.qrels() and loaded.qrels("f_r") == saved.qrels("f_r")
    assert loaded.qrels("f_g") == {}
    assert loaded.qrels_for(loaded.query_set("balanced")) == {"t1": {"d1": 1}}
    assert [r.to_json() for r in loaded.rules] == [r.to_json() for r in saved.rules]
    assert loaded.query_sets == saved.query_sets
    assert loaded.labels == saved.labels
    assert (loaded.calendar, loaded.settings) == (saved.calendar, saved.settings)
    assert (loaded.name, loaded.seed) == ("ruleqa-toy", 4)
    assert loaded.fingerprint == saved.fingerprint


def test_query_sets_keep_the_order_of_the_queries() -> None:
    dataset = make_dataset()
    assert [q.id for q in dataset.query_set("full")] == ["t1", "t2", "t3"]
    assert [q.id for q in dataset.query_set("test")] == ["t1", "t2", "t3"]
    assert [q.id for q in dataset.query_set("balanced")] == ["t1", "t3"]
    with pytest.raises(UnknownNameError, match="no query set 'balance' — did you mean 'balanced'"):
        dataset.query_set("balance")
    with pytest.raises(EmptyDataError, match="'f_g' of 'ruleqa-toy' holds no query"):
        dataset.query_set("f_g")


def test_the_manifest_says_what_is_there(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["counts"] == {
        "documents": 3,
        "rules": 1,
        "queries": {"test": 3, "f_r": 1, "f_g": 0},
        "query_sets": {"balanced": 2},
        "judgements": {"test": 3, "f_r": 1},
        "entities": 1,
        "relations": 1,
    }
    assert manifest["settings"] == {"per_bucket": 2} and manifest["seed"] == 4
    assert manifest["fingerprint"] == make_dataset().fingerprint
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert written == {*manifest["files"], "manifest.json"}
    assert manifest["files"]["corpus.jsonl"]["lines"] == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"info": replace(INFO, calendar={})},
        {"labels": {}},
        {"qrels": {}},
        {"rules": RuleBank()},
        {"query_sets": {"balanced": {"t1"}}},
        {"corpus": [*make_dataset().corpus, Document("d4", "One more.")]},
    ],
)
def test_every_part_of_the_content_changes_the_fingerprint(changes: dict[str, object]) -> None:
    assert make_dataset(**changes).fingerprint != make_dataset().fingerprint


@pytest.mark.parametrize(
    "name", ["corpus.jsonl", "queries.jsonl", "rules.jsonl", "labels.json", "qrels/test.tsv"]
)
def test_changed_content_is_refused_by_name(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    with pytest.raises(FingerprintError, match=rf"{name}: has the fingerprint .* verify=False"):
        RuleQADataset.load(folder)
    loaded = RuleQADataset.load(folder, verify=False)
    assert len(loaded.corpus) == 3
    assert loaded.fingerprint != make_dataset().fingerprint


def test_missing_parts_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder"):
        RuleQADataset.load(tmp_path / "nowhere")
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(FingerprintError, match=r"dev.tsv: .* the manifest says no such file"):
        RuleQADataset.load(folder)
    (folder / "qrels" / "dev.tsv").unlink()
    (folder / "rules.jsonl").unlink()
    with pytest.raises(DataError, match=r"rules.jsonl: the dataset lacks this file"):
        RuleQADataset.load(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(DataFormatError, match="no complete dataset folder"):
        RuleQADataset.load(folder)
    (folder / "manifest.json").write_text('{"files": {}, "format": 99}')
    with pytest.raises(DataFormatError, match="has format 99, and this version reads 1"):
        RuleQADataset.load(folder)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("corpus.jsonl", '{"_id": "d9"}', r"corpus.jsonl, line 4, key 'text': expected a text"),
        ("corpus.jsonl", "{", r"corpus.jsonl, line 4: not a JSON object"),
        ("queries.jsonl", '{"text": "x"}', r"queries.jsonl, line 5, key '_id'"),
        ("qrels/test.tsv", "t1\td1", r"test.tsv, line 5: expected query-id, corpus-id and a whole"),
        ("qrels/test.tsv", "t1\td9\t1", r"judgements of 'test': no document has the id 'd9'"),
        ("qrels/test.tsv", "t9\td1\t1", r"judgements of 'test': no query has the id 't9'"),
        ("corpus.jsonl", '{"_id": "d1", "text": "x"}', r"document id 'd1' occurs twice"),
    ],
)
def test_wrong_lines_are_named(folder: Path, name: str, line: str, message: str) -> None:
    with open(folder / name, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(DataFormatError, match=message):
        RuleQADataset.load(folder, verify=False)


def test_wrong_parts_are_refused_when_made() -> None:
    with pytest.raises(DataFormatError, match="query id 'a b' is empty or holds white space"):
        make_dataset(queries={"test": [Query("a b", "?")]}, qrels={}, query_sets={})
    with pytest.raises(DataFormatError, match="query set 'hard': no test query has the id 'r1'"):
        make_dataset(query_sets={"hard": ["r1"]})
    with pytest.raises(DataFormatError, match="query id 't1' occurs twice"):
        make_dataset(queries={"test": [Query("t1", "?")], "f_r": [Query("t1", "?")]})


def test_saving_again_replaces_what_stood_there(folder: Path) -> None:
    smaller = make_dataset(qrels={"test": {"t1": {"d1": 1}}}, info=DatasetInfo("smaller"))
    smaller.save(folder)
    loaded = RuleQADataset.load(folder)
    assert loaded.name == "smaller"
    assert loaded.qrels("f_r") == {}
    assert not list(folder.glob(".part-*"))


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    def stopped() -> Iterator[str]:
        yield "half"
        raise KeyboardInterrupt

    out, first = tmp_path / "toy", make_dataset(info=DatasetInfo("first"))
    for before in ([], [], [first]):
        for dataset in before:
            dataset.save(out)
        with pytest.raises(KeyboardInterrupt):
            make_dataset().save(out, beside={"README.md": stopped()})
        if before:
            assert RuleQADataset.load(out).name == "first"
        elif out.exists():
            assert list(out.iterdir()) == []
        else:
            out.mkdir()


def test_a_folder_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    (folder / "labels.json").unlink()
    (folder / "labels.json").mkdir()
    with pytest.raises(OutputError, match="cannot be written"):
        make_dataset().save(folder)
    assert not (folder / "manifest.json").exists(), "no whole dataset while files are moved"
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"toy: cannot be written \(.*\) — choose another folder"):
        make_dataset().save(tmp_path / "file" / "toy")


# --- what the queries ask for ------------------------------------------------------------------


def _asks(dataset: RuleQADataset) -> set[bool]:
    return {query.prediction for rows in dataset.queries.values() for query in rows}


@pytest.mark.parametrize("prediction", [False, True])
def test_a_folder_says_whether_its_queries_are_predictions(
    tmp_path: Path, prediction: bool
) -> None:
    made = make_dataset(prediction=prediction)
    assert _asks(made) == {prediction} == {made.prediction}
    made.save(tmp_path)
    loaded = RuleQADataset.load(tmp_path)
    assert _asks(loaded) == {prediction} == {loaded.prediction}
    assert loaded.query_set("full") == made.query_set("full")
    # It changes no file but the manifest, so that a benchmark keeps its fingerprint.
    assert made.fingerprint == make_dataset().fingerprint == loaded.fingerprint
    other = RuleQADataset.load(tmp_path, prediction=not prediction)
    assert _asks(other) == {not prediction}


def test_the_queries_themselves_say_it_where_nothing_else_does() -> None:
    rows = make_dataset().queries
    foretold = {name: [replace(q, prediction=True) for q in part] for name, part in rows.items()}
    assert make_dataset(queries=foretold).prediction
    assert (
        not make_dataset().prediction
        and not make_dataset(queries={"test": []}, qrels={}, query_sets={}).prediction
    )
    mixed = {**rows, "f_r": foretold["f_r"]}
    with pytest.raises(DataFormatError, match="some queries are predictions, and some are not — p"):
        make_dataset(queries=mixed)
    assert _asks(make_dataset(queries=mixed, prediction=True)) == {True}


@pytest.mark.parametrize("said", [None, "yes"])
def test_a_folder_that_does_not_say_it_is_refused(folder: Path, said: object) -> None:
    manifest = {**json.loads((folder / "manifest.json").read_text()), "prediction": said}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataFormatError, match="key 'prediction': expected true or false, found"):
        RuleQADataset.load(folder)
