"""Files of labels: their forms, their places, and what is said about wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulerag.errors import DataError, DataFormatError
from rulerag.kg.labels.files import find_labels, read_labels


def test_tables_with_and_without_an_id_column(tmp_path: Path) -> None:
    file = tmp_path / "some.tsv"
    file.write_text("Q1\tKiss\nP27\tcountry_of_citizenship\nQ2\t77\tDie Ärzte\treep\nQ3\t1984\n")
    assert read_labels(file).candidates == {
        "Q1": ("Kiss", "Kiss (Q1)"),
        "P27": ("country of citizenship", "country of citizenship (P27)"),
        "Q2": ("Die Ärzte", "Die Ärzte (Q2)"),
        "Q3": ("1984", "1984 (Q3)"),
    }


def test_json_with_texts_or_objects(tmp_path: Path) -> None:
    file = tmp_path / "labels.json"
    rows = {
        "/m/1": {"label": "Kiss", "description": "rock band", "wikidata_id": "Q1"},
        "/m/2": {"label": "Kiss", "description": "x" * 61, "wikidata_id": "Q2"},
        "/m/3": {"label": None, "description": "unknown"},
        "/m/4": "Paul Stanley",
    }
    file.write_text(json.dumps(rows))
    assert read_labels(file).candidates == {
        "/m/1": ("Kiss", "Kiss (rock band)", "Kiss (Q1)", "Kiss (/m/1)"),
        "/m/2": ("Kiss", "Kiss (Q2)", "Kiss (/m/2)"),
        "/m/4": ("Paul Stanley", "Paul Stanley (/m/4)"),
    }


def test_labels_are_found_in_the_folder_then_beside_it(tmp_path: Path) -> None:
    graph = tmp_path / "mine"
    graph.mkdir()
    assert find_labels(graph).paths == ()
    for folder, label in (("public_labels", "public"), ("mine_labels", "beside"), ("mine", "here")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "labels.tsv").write_text(f"Q1\t{label}\n")
        assert find_labels(graph, "public_labels").candidates["Q1"][0] == label


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "Q1\tKiss\nQ2\n", "line 2: expected 'name TAB label'"),
        ("a.tsv", "\tKiss\n", "line 1"),
        ("a.json", "[1]", "expected one object"),
        ("a.json", '{"Q1": {"label": 3}}', "key 'Q1': expected a text as label, found 3"),
        ("a.json", "{", "not JSON"),
    ],
)
def test_wrong_label_files(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataFormatError, match=message):
        read_labels(tmp_path / name)


def test_missing_label_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder of labels"):
        read_labels(tmp_path / "none")
    with pytest.raises(DataError, match=r"looked for entity2wikidata\.json"):
        read_labels(tmp_path)
