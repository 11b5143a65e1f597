"""The growth benchmark on tiny worlds: counted joins, resumption, reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mining import scale as scale_mining
from rulerag.io import read_json
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.mining.temporal.miner import TLogicMiner
from rulerag.types import Fact


def test_joins_by_hand() -> None:
    facts = [Fact("a", "r", "b", 1), Fact("a", "s", "b", 2), Fact("b", "s", "c", 3)]
    train = KnowledgeGraph.from_facts(facts).train
    # Forward: r and s of (a, b) meet two heads each, s of (b, c) one; nothing leads back.
    miner = TLogicMiner()
    assert scale_mining.joins("tlogic-1", train, 0, miner) == 2 * 3 + 5
    static = KnowledgeGraph.from_facts([(f.subject, f.relation, f.object) for f in facts]).train
    # Neighbours: a and c have one, b has two; the shorter list of each of the three facts.
    amie = AmieMiner(min_head_size=1)
    assert scale_mining.joins("amie", static, 0, amie) == 2 * 3 + 3
    assert scale_mining.joins("amie", static, 0, AmieMiner(min_head_size=2)) == 2 * 3 + 2


def test_exponents_compare_time_with_joins() -> None:
    rows = [
        {"miner": "amie", "size": size, "cpu": size**2.0, "joins": size**2} for size in (10, 100)
    ]
    rows.append({"miner": "amie", "size": 1000, "refused": "too large"})
    found = scale_mining.exponents(rows)
    assert found == {"amie": [1.0], "tlogic-1": [], "tlogic-123": []}


def test_rows_and_reports_of_a_small_world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    command = ["--out", str(tmp_path), "--sizes", "1000", "--miners", "tlogic-1"]
    assert scale_mining.main(command) == 0
    (row,) = read_json(tmp_path / "scale.json")["rows"]
    assert row["miner"] == "tlogic-1" and row["planted_found"] > 0
    assert row["memory_mb"] > 10 and row["joins"] > 2 * row["facts"]
    stamp = (tmp_path / "scale.json").stat().st_mtime_ns
    assert scale_mining.main(command) == 0  # nothing is missing
    assert (tmp_path / "scale.json").stat().st_mtime_ns == stamp
    assert "| TLogic, length 1 | 1,000 |" in capsys.readouterr().out
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
    assert "<table>" in (tmp_path / "scale.html").read_text()
