"""Facts by name: column orders, headers, dates, JSON lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import (
    ConfigError,
    DataFormatError,
    EmptyDataError,
    UnknownNameError,
)
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.types import Fact

Writer = Callable[..., Path]


def test_triples_in_both_column_orders(tmp_path: Path, write: Writer) -> None:
    facts = [("ann", "knows", "bob"), ("bob", "knows", "cid"), ("cid", "likes", "ann")]
    hrt = write(tmp_path / "hrt", train="\n".join("|".join(f) for f in facts))
    rht = write(tmp_path / "rht", train="\n".join(f"{r}|{h}|{t}" for h, r, t in facts))
    for folder, order in ((hrt, "hrt"), (rht, "rht")):
        graph = KnowledgeGraph.load(folder)
        assert graph.notes["columns"] == order
        assert list(graph.train) == [Fact(*fact) for fact in facts]
    htr = write(tmp_path / "htr", train="\n".join(f"{h}|{t}|{r}" for h, r, t in facts))
    assert list(KnowledgeGraph.load(htr, columns="htr").train) == [Fact(*fact) for fact in facts]


def test_an_ambiguous_column_order_names_the_option(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path, train="ann|likes|tea\nbob|hates|milk\n")
    with pytest.raises(DataFormatError, match=r"train\.txt.*columns.*columns='hrt'"):
        KnowledgeGraph.load(folder)
    assert KnowledgeGraph.load(folder, columns="hrt").relations.names == ["likes", "hates"]
    with pytest.raises(ConfigError, match="rht"):
        KnowledgeGraph.load(folder, columns="srt")


@pytest.mark.parametrize("header", ["predicate\tsubject\tobject", "p\ts\to"])
def test_a_header_gives_the_column_order(header: str, tmp_path: Path) -> None:
    file = tmp_path / "facts.tsv"
    file.write_text(f"{header}\nlikes\tann\ttea\nhates\tbob\tmilk\n")
    graph = KnowledgeGraph.load(file)
    assert graph.name == "facts"
    assert list(graph.train) == [Fact("ann", "likes", "tea"), Fact("bob", "hates", "milk")]


def test_a_single_file_is_the_training_split(tmp_path: Path) -> None:
    file = tmp_path / "facts.tsv.gz"
    text = "New York\tin\tUSA\t1990\nXinjiang\xa0Uyghur\tin\tChina\t1994\nUSA\tnear\tNew York\t2000"
    file.write_bytes(gzip.compress(text.encode()))
    graph = KnowledgeGraph.load(file)
    assert graph.entities.names == ["New York", "USA", "Xinjiang\xa0Uyghur", "China"]
    assert [fact.timestamp for fact in graph.train] == [1990, 1994, 2000]
    assert graph.calendar == Calendar("step", step=2)
    assert graph.calendar.format(1994) == "1994"
    with pytest.raises(EmptyDataError, match="valid"):
        _ = graph.valid


def test_iso_dates(tmp_path: Path, write: Writer) -> None:
    rows = "ann|met|bob|2014-03-04\nbob|met|cid|2014-03-01\ncid|met|ann|2014-03-10\n"
    graph = KnowledgeGraph.load(write(tmp_path / "a", train=rows))
    assert graph.calendar == Calendar("day", "2014-03-01", 3)
    times = [fact.timestamp for fact in graph.train]
    assert times == [3, 0, 9]
    assert [graph.calendar.format(t or 0) for t in times] == [
        "2014-03-04",
        "2014-03-01",
        "2014-03-10",
    ]
    hours = Calendar("hour", "2014-01-01", 24)
    given = KnowledgeGraph.load(tmp_path / "a", calendar=hours)
    assert given.calendar == hours
    assert given.calendar.format(given.train.fact(0).timestamp or 0) == "2014-03-04"


def test_json_lines(tmp_path: Path) -> None:
    rows = [
        {"subject": "ann", "relation": "met", "object": "bob", "timestamp": 4},
        {"subject": "bob", "relation": "met", "object": "ann", "timestamp": 6},
    ]
    file = tmp_path / "facts.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    assert list(KnowledgeGraph.load(file).train) == [
        Fact("ann", "met", "bob", 4),
        Fact("bob", "met", "ann", 6),
    ]
    file.write_text('{"subject": "ann", "object": "bob"}')
    with pytest.raises(DataFormatError, match="line 1: expected a JSON object with subject, rel"):
        KnowledgeGraph.load(file)


def test_names_with_vocabulary_files_take_their_ids(tmp_path: Path, write: Writer) -> None:
    vocabulary = {"entity2id": "bob|0\nann|1\n", "relation2id": "met|0\n"}
    folder = write(tmp_path, train="ann|met|bob\nbob|met|ann\n", **vocabulary)
    assert KnowledgeGraph.load(folder).entities.names == ["bob", "ann"]
    write(tmp_path, test="ann|met|bob\nann|met|boc\n")
    with pytest.raises(UnknownNameError, match=r"test\.txt, line 2: the object 'boc'.*'bob'"):
        KnowledgeGraph.load(folder)


def test_triples_of_numbers_without_vocabulary_are_names(tmp_path: Path, write: Writer) -> None:
    folder = write(tmp_path, train="10|1|20\n20|1|30\n30|2|10\n")
    assert KnowledgeGraph.load(folder).train.fact(0) == Fact("10", "1", "20")


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("a|r|b\na|r\nc|r|a\n", r"line 2: expected 3 TAB-separated names, found 'a\\tr'"),
        ("a|r|b\na||b\n", "line 2"),
        ("a|r|b|1\nb|r|a|x\n", "line 2: expected a whole number as the time, found 'x'"),
        ("a|r|b|1\nb|r|a|2014-01-01\n", "line 2: expected a whole number"),
        ("a|r|b|2014-01-01\nb|r|a|2014-13-01\n", "line 2: '2014-13-01' is no date"),
        (
            "subject|relation|object|age\na|r|b|5\nb|r|c|6\nc|r|a|7\n",
            "line 1: expected a whole .* found 'age'",
        ),
        ("a|r|b|1|c|d\n", "found 6 TAB-separated columns"),
    ],
)
def test_wrong_named_facts(train: str, message: str, tmp_path: Path, write: Writer) -> None:
    with pytest.raises(DataFormatError, match=message):
        KnowledgeGraph.load(write(tmp_path, train=train))
