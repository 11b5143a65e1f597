"""The benchmark of rule scores on a small graph: rows, resumption, table."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.mining import rule_pruning
from rulerag.io import read_json, write_json


def test_rows_stand_in_a_file_and_are_not_made_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng, folder = random.Random(1), tmp_path / "data" / "world"
    folder.mkdir(parents=True)
    # Neighbours on a ring, by four relations that often go together: many rules of each head.
    facts = [
        (f"e{n}", f"r{r}", f"e{(n + step) % 120}")
        for n in range(120)
        for step in (1, 2)
        for r in range(4)
        if rng.random() < 0.7
    ]
    rng.shuffle(facts)
    for name, part in (("train", facts[:560]), ("valid", facts[560:600]), ("test", facts[600:])):
        (folder / f"{name}.txt").write_text("".join("\t".join(fact) + "\n" for fact in part))
    monkeypatch.setenv("RULERAG_DATA", str(tmp_path / "data"))
    command = ["world", "--out", str(tmp_path), "--limit", "40", "--budgets", "1", "100000"]
    assert rule_pruning.main(command) == 0
    found = read_json(tmp_path / "world.json")
    rows = found["rows"]
    assert found["num_queries"] == 80 and found["split"] == "valid"
    assert len(rows) == len(rule_pruning.SCORES) * 2 + 8
    # A budget that keeps everything makes all scores one; fewer rules reach fewer answers.
    assert len({rows[f"{s}/100000"]["mrr"] for s in rule_pruning.SCORES}) == 1
    assert rows["product/1"]["rules"] < rows["product/100000"]["rules"] == found["num_rules"]
    assert rows["product/1"]["reached"] <= rows["product/100000"]["reached"]
    assert rows["prune/subsumed, skyline off/max"]["mrr"] == rows["prune/nothing/max"]["mrr"]
    table = (tmp_path / "table.md").read_text()
    assert "| product |" in table and table in capsys.readouterr().out
    rows["product/1"]["mrr"] = 0.5
    del rows["confidence/1"]
    write_json(tmp_path / "world.json", found)
    assert rule_pruning.main(command) == 0
    again = read_json(tmp_path / "world.json")["rows"]
    assert again["product/1"]["mrr"] == 0.5 and "confidence/1" in again
