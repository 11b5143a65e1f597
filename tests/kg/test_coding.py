"""Large files of names by compiled code: the graph and the complaints of line by line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rulerag import KnowledgeGraph
from rulerag.errors import DataFormatError
from rulerag.kg.coding import code_lines
from rulerag.kg.readers import named


def _lines(number: int, *, dated: bool) -> list[str]:
    draw = random.Random(0)
    names = [f"é{n}" if n % 7 else f"entity with a long name {n}" for n in range(number)]
    rows = []
    for _ in range(number):
        cells = [draw.choice(names), f"r{draw.randrange(9)}", draw.choice(names)]
        rows.append("\t".join([*cells, f"2021-01-{draw.randrange(1, 29):02}"] if dated else cells))
    return rows


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("head", ["", "\ufeff", "subject\trelation\tobject"])
def test_the_same_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dated: bool, end: str, head: str
) -> None:
    first = [head + "\ttime" * dated] if head.startswith("subject") else []
    # More distinct names than the first table of the compiled code holds.
    text = end.join([*first, *_lines(60_000, dated=dated)])
    file = tmp_path / "facts.tsv"
    file.write_bytes(("\ufeff" * (head == "\ufeff") + text).encode())
    slow = KnowledgeGraph.load(file, layout="quadruples" if dated else "triples")
    monkeypatch.setattr(named, "_LARGE", 0)
    fast = KnowledgeGraph.load(file, layout="quadruples" if dated else "triples")
    assert fast.fingerprint == slow.fingerprint and fast.notes == slow.notes
    assert fast.entities.names == slow.entities.names


@pytest.mark.parametrize(
    "data", [b"a\tb\n", b"a\tb\tc\n\na\tb\tc\n", b"a\t\tc\n", b"a\tb\tc\td\n", b"a\tb\t\xff\n", b""]
)
def test_what_is_odd_is_left_to_the_reader_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    assert code_lines(data, 3) is None
    monkeypatch.setattr(named, "_LARGE", 0)
    file = tmp_path / "facts.tsv"
    file.write_bytes(b"x\ty\tz\nx\ty\n" + data)
    with pytest.raises(DataFormatError, match=r"line 2|UTF-8"):
        KnowledgeGraph.load(file, layout="triples")
