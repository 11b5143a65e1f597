"""Which files make a graph, and what is said when they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import (
    ConfigError,
    DataError,
    DataFormatError,
    EmptyDataError,
)
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.types import Fact

Writer = Callable[..., Path]


def test_quadruples(tmp_path: Path, quadruples: Writer) -> None:
    graph = KnowledgeGraph.load(quadruples(tmp_path / "tiny"))
    assert graph.name == "tiny"
    assert graph.notes["layout"] == "quadruples"
    assert list(graph.train) == [
        Fact("ann", "knows", "bob", 0),
        Fact("ann", "lives_in", "bath", 5),
    ]
    assert list(graph.test) == [Fact("bob", "knows", "ann", 15)]
    assert graph.relations.label("lives_in") == "lives in"


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_openke(newline: bytes, tmp_path: Path, openke: Writer) -> None:
    folder = openke(tmp_path)
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", newline))
    graph = KnowledgeGraph.load(folder)
    assert graph.notes["layout"] == "openke"
    assert list(graph.train) == [Fact("ann", "knows", "bob"), Fact("ann", "lives_in", "bath")]
    assert not graph.is_temporal
    with pytest.raises(EmptyDataError, match="train, valid"):
        _ = graph.test


def test_a_single_id_file_finds_its_names_beside_it(
    tmp_path: Path, quadruples: Writer, openke: Writer
) -> None:
    folder = quadruples(tmp_path)
    graph = KnowledgeGraph.load(folder / "test.txt")
    assert list(graph.train) == [Fact("bob", "knows", "ann", 15)]
    train = KnowledgeGraph.load(openke(tmp_path / "o") / "train2id.txt").train
    assert train.fact(0) == Fact("ann", "knows", "bob")


def test_a_given_calendar_wins(tmp_path: Path, quadruples: Writer) -> None:
    calendar = Calendar("year", "1990")
    graph = KnowledgeGraph.load(quadruples(tmp_path), calendar=calendar)
    assert graph.calendar is graph.train.calendar
    assert graph.calendar == calendar


def test_a_folder_that_does_not_exist(tmp_path: Path, quadruples: Writer) -> None:
    quadruples(tmp_path / "icews14")
    with pytest.raises(DataError, match=r"no such file or folder.*did you mean 'icews14'"):
        KnowledgeGraph.load(tmp_path / "icews41")
    with pytest.raises(DataError, match="parent folder"):
        KnowledgeGraph.load(tmp_path / "a" / "b")


def test_a_folder_of_something_else(tmp_path: Path, write: Writer) -> None:
    write(tmp_path, readme="hello", notes="there")
    with pytest.raises(DataError, match=r"looked for train\.txt.*found notes\.txt, readme\.txt"):
        KnowledgeGraph.load(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="found no file"):
        KnowledgeGraph.load(tmp_path / "empty")


def test_missing_files_are_named(tmp_path: Path, quadruples: Writer) -> None:
    folder = quadruples(tmp_path)
    (folder / "relation2id.txt").unlink()
    with pytest.raises(DataError, match=r"holds ids, but there is no relation2id\.txt"):
        KnowledgeGraph.load(folder)
    (folder / "train.txt").unlink()
    with pytest.raises(DataError, match="valid and test are here, train is missing"):
        KnowledgeGraph.load(folder)


def test_mixed_layouts(tmp_path: Path, quadruples: Writer, openke: Writer) -> None:
    folder = openke(quadruples(tmp_path))
    with pytest.raises(DataFormatError, match=r"mixed here: train\.txt and train2id\.txt.*openke"):
        KnowledgeGraph.load(folder)
    assert KnowledgeGraph.load(folder, layout="openke").notes["layout"] == "openke"
    assert KnowledgeGraph.load(folder, layout="quadruples").is_temporal
    (tmp_path / "train.tsv").write_text("a\tb\tc\n")
    with pytest.raises(DataFormatError, match=r"two files for the split train"):
        KnowledgeGraph.load(folder)


def test_layouts_that_do_not_fit(tmp_path: Path, write: Writer, quadruples: Writer) -> None:
    folder = quadruples(tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'quadruples'"):
        KnowledgeGraph.load(folder, layout="quadruple")
    with pytest.raises(DataFormatError, match="does not have the layout 'triples'"):
        KnowledgeGraph.load(folder, layout="triples")
    with pytest.raises(DataError, match=r"looked for train2id\.txt"):
        KnowledgeGraph.load(folder, layout="openke")
    with pytest.raises(ConfigError, match="own column order"):
        KnowledgeGraph.load(folder, columns="hrt")
    spaces = write(tmp_path / "spaces", train="ann knows bob\n")
    with pytest.raises(DataFormatError, match=r"1 TAB-separated column.*TAB, not by spaces"):
        KnowledgeGraph.load(spaces)
    (tmp_path / "bars.txt").write_text("a|r|b\nc|r|d\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"tr '\|' '\\t' < bars\.txt > graph\.tsv"):
        KnowledgeGraph.load(tmp_path / "bars.txt")
