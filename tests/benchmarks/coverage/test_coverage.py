"""Coverage by tokens: the rows of a small benchmark, and what the trivial one may look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.coverage.__main__ import frequent, main
from rulerag.io import read_json
from rulerag.ruleqa import RuleQADataset, build
from rulerag.synthetic import World
from rulerag.types import Document, Fact, Query


def test_the_trivial_row_knows_the_relation_alone() -> None:
    facts = [("a", "in", "x"), ("b", "in", "y"), ("c", "in", "y"), ("a", "by", "z")]
    corpus = [Document(f"d{n}", " ".join(one), (Fact(*one),)) for n, one in enumerate(facts)]
    dataset = RuleQADataset(corpus=corpus, queries={})
    found = frequent(dataset, [Query("1", "?", "a", "in"), Query("2", "?", "b", "unknown")])
    assert [[document.id for document in one] for one in found] == [["d2", "d0"], []]


def test_rows_with_and_without_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World.generate(1000, max_body_atoms=1, seed=0)
    build(None, world.graph, changes={"num_queries": 40}).save(tmp_path / "data")
    command = [str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    (file,) = (tmp_path / "out").glob("*.json")
    rows = read_json(file)["rows"]
    assert list(rows) == ["frequent", "bm25", "bm25-pooled", "bm25-guided"]
    for row in rows.values():
        values = list(row["coverage"].values())
        assert values == sorted(values) and 0 <= values[0] <= values[-1] <= 1
    assert "p" in rows["bm25-guided"]
    assert rows["bm25-guided"]["coverage"]["100"] > rows["frequent"]["coverage"]["100"]
    shown = capsys.readouterr().out
    assert main(command) == 0 and capsys.readouterr().out == shown  # nothing is made again
