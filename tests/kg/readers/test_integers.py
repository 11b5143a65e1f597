"""Columns read from text files, and the file and line that every complaint names."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rulerag.errors import (
    DataError,
    DataFormatError,
    EmptyDataError,
    RuleRAGError,
    UnknownNameError,
)
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.readers.integers import read_integers

Writer = Callable[..., Path]

WRONG_QUADRUPLES: list[tuple[dict[str, str | bytes], type[RuleRAGError], str]] = [
    ({"train": "0|0|1|0\n0|x|2|5\n"}, DataFormatError, r"line 2: expected 4 whole.*'0\\tx"),
    ({"train": "0|0|1|0|0\n0|x|2|5|0\n"}, DataFormatError, "line 2: expected 5 whole"),
    ({"train": "0|0|1\n0|0|2|5\n0|0|1|5\n"}, DataFormatError, "line 1: expected 4 or 5 whole"),
    ({"train": "0|0|1|0\n0|0|1\n"}, DataFormatError, r"train\.txt, line 2: expected 4 whole"),
    ({"train": "0|0|1|0\n\n0|0|1|5 \n"}, DataFormatError, r"train\.txt, line 3.*'0\\t0\\t1\\t5 '"),
    ({"train": "0|0|1|0\n0|0|1|99999999999\n"}, DataFormatError, "line 2"),
    ({"train": "0|0|1|0\n0|0|1|4-4\n"}, DataFormatError, "line 2"),
    ({"train": "0|0|1|0\n0|0|1|-\n"}, DataFormatError, "line 2"),
    ({"train": "0|0|1|0\n\n0|0|3|5\n"}, UnknownNameError, r"train\.txt, line 3: the object '3'"),
    ({"test": "0|0|1|0\n0|2|1|5\n"}, UnknownNameError, r"test\.txt, line 2: the relation '2'"),
    ({"valid": "-1|0|1|0\n"}, UnknownNameError, r"valid\.txt, line 1: the subject '-1'"),
    ({"train": ""}, EmptyDataError, r"train\.txt: holds no fact"),
    ({"train": "\r\n\r\n"}, EmptyDataError, "holds no fact"),
    ({"test": "ann|knows|bob\n"}, DataFormatError, r"mixed.*train\.txt.*ids, test\.txt.*names"),
    ({"entity2id": "ann|0\nbob|x\n"}, DataFormatError, r"entity2id\.txt, line 2: expected 'name"),
    ({"entity2id": "ann|0\nbob\n"}, DataFormatError, r"entity2id\.txt, line 2"),
    ({"entity2id": "ann|0\nbob|1\nbob|2\n"}, DataFormatError, r"line 3: the name 'bob' stands"),
    ({"entity2id": "ann|0\nbob|1\ncid|1\n"}, DataFormatError, "line 3: the id 1 stands"),
    ({"entity2id": "ann|0\nbob|1\ncid|3\n"}, DataFormatError, "no name has the id 2"),
    ({"entity2id": b"ann\t0\nb\xf6b\t1\n"}, DataFormatError, r"line 2: not UTF-8"),
    ({"train": b"0\t0\t1\t0\n0\xff\t0\t1\t0\n"}, DataFormatError, r"train\.txt, line 2: not UTF-8"),
    ({"stat": "4|2|0"}, DataFormatError, r"stat\.txt: says 4 entities.*hold 3 and 2.*remove"),
    ({"stat": "many"}, DataFormatError, r"stat\.txt, line 1"),
]


@pytest.mark.parametrize(
    "train",
    [
        b"0\t0\t1\t0\t-1\r\n0\t1\t2\t5\t-1\r\n",  # CRLF and a fifth column
        b"0\t0\t1\t0\n0\t1\t2\t5",  # no final newline
        b"\xef\xbb\xbf0\t0\t1\t0\n\n0\t1\t2\t5\n\n",  # byte order mark, empty lines
        b"0\t0\t1\t0\n0\t1\t2\t5\n0\t0\t1\t0\n",  # a fact twice
    ],
)
def test_forms_of_the_same_quadruples(train: bytes, tmp_path: Path, quadruples: Writer) -> None:
    plain = KnowledgeGraph.load(quadruples(tmp_path / "plain"))
    graph = KnowledgeGraph.load(quadruples(tmp_path / "other", train=train))
    assert graph.fingerprint == plain.fingerprint


@pytest.mark.parametrize("stat", ["3|2|0", "3|2|4\n", "3|2"])
def test_a_stat_file_that_agrees(stat: str, tmp_path: Path, quadruples: Writer) -> None:
    assert len(KnowledgeGraph.load(quadruples(tmp_path, stat=stat)).train) == 2


def test_ids_need_not_be_in_line_order(tmp_path: Path, quadruples: Writer) -> None:
    files = {"entity2id": "bath|2|1066-##-##|####-##-##\nann|0|x|y\nbob|1|x|y"}
    graph = KnowledgeGraph.load(quadruples(tmp_path, **files))
    assert graph.entities.names == ["ann", "bob", "bath"]


@pytest.mark.parametrize(("files", "error", "message"), WRONG_QUADRUPLES)
def test_wrong_quadruples(
    files: dict[str, str | bytes],
    error: type[RuleRAGError],
    message: str,
    tmp_path: Path,
    quadruples: Writer,
) -> None:
    folder = quadruples(tmp_path, **files)
    with pytest.raises(error, match=message) as caught:
        KnowledgeGraph.load(folder)
    assert caught.value.path is not None


def test_a_wrong_line_beyond_the_first_block(tmp_path: Path, quadruples: Writer) -> None:
    lines = ["0\t0\t1\t5"] * 400_000
    lines[300_000] = "0\t0\t7\t5"
    folder = quadruples(tmp_path, train="\n".join(lines))
    with pytest.raises(UnknownNameError, match="line 300001: the object '7'"):
        KnowledgeGraph.load(folder)
    lines[300_000] = "0\t0\t5"
    quadruples(tmp_path, train="\n".join(lines))
    with pytest.raises(DataFormatError, match="line 300001: expected 4 whole numbers"):
        KnowledgeGraph.load(folder)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train2id": "3\n0 1 0\n0 2 1\n"}, r"train2id\.txt, line 1: .*counts 3 rows, but 2"),
        ({"train2id": "0 1 0\n0 2 1\n"}, r"train2id\.txt, line 1: expected the number of rows"),
        ({"train2id": "2\n0 1 0\n0  2 1\n"}, r"train2id\.txt, line 3: expected 3 whole numbers"),
        ({"entity2id": "4\nann|0\nbob|1\nbath|2\n"}, r"entity2id\.txt, line 1: .*counts 4 names"),
        ({"train2id": "2\n0 1 0\n0 1 2\n"}, r"line 3: the relation '2' is not in relation2id"),
        ({"train2id": "0\n"}, r"train2id\.txt: holds no fact"),
        ({"train2id": ""}, r"train2id\.txt: holds no fact"),
    ],
)
def test_wrong_openke_files(
    files: dict[str, str], message: str, tmp_path: Path, openke: Writer
) -> None:
    with pytest.raises(DataError, match=message):
        KnowledgeGraph.load(openke(tmp_path, **files))


def test_a_broken_archive(tmp_path: Path) -> None:
    data = gzip.compress(b"ann\tknows\tbob\n" * 1000)
    (tmp_path / "train.txt.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"train\.txt\.gz: cannot be read"):
        KnowledgeGraph.load(tmp_path)


@given(
    rows=st.lists(st.tuples(*[st.integers(-(2**31) + 1, 2**31 - 1)] * 4), max_size=60),
    newline=st.sampled_from(["\n", "\r\n"]),
    final=st.booleans(),
    gaps=st.sets(st.integers(0, 60)),
)
def test_integers_against_plain_python(
    rows: list[tuple[int, ...]],
    newline: str,
    final: bool,
    gaps: set[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines = []
    for i, row in enumerate(rows):
        lines += [""] * (i in gaps)
        lines.append("\t".join(map(str, row)))
    path = tmp_path_factory.getbasetemp() / "integers.txt"
    path.write_bytes((newline.join(lines) + newline * final).encode())
    assert read_integers(path, columns=(4,)).tolist() == [list(row) for row in rows]


@given(text=st.text("0123456789-\t\n ", max_size=24))
def test_integers_accept_and_refuse_what_plain_python_does(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    number = re.compile(r"-?\d+")
    lines = [line.split("\t") for line in text.split("\n") if line]
    right = all(
        len(row) == 2 and all(number.fullmatch(x) and abs(int(x)) < 2**31 for x in row)
        for row in lines
    )
    path = tmp_path_factory.getbasetemp() / "some.txt"
    path.write_text(text)
    try:
        table = read_integers(path, columns=(2,)).tolist()
    except DataFormatError:
        assert not right
    else:
        assert right
        assert table == [[int(x) for x in row] for row in lines]
