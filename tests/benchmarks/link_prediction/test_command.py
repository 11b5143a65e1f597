"""The command of the checkout is that of the library, with settings as options too."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.link_prediction.__main__ import main
from rulerag import AmieMiner, KnowledgeGraph


def test_options_are_settings(tmp_path: Path) -> None:
    train = [(f"p{i}", r, f"t{i % 4}") for i in range(40) for r in ("born_in", "lives_in")]
    parts = {"train": train[:70], "valid": train[70:72], "test": train[72:]}
    for name, rows in parts.items():
        (tmp_path / f"{name}.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    rules = tmp_path / "rules.jsonl"
    AmieMiner(min_head_size=1).mine(KnowledgeGraph.load(tmp_path).train).save(rules)
    command = [str(tmp_path), "--miner", "rules", "--rules", str(rules), "--quiet"]
    more = ["--limit", "3", "--out", str(tmp_path / "out"), "--aggregate=noisy-or"]
    assert main([*command, *more, "--min-body-size", "5"]) == 0
    found = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert found["num_queries"] == 6 and found["method"] == "rules-noisy-or"
    assert found["config"]["min_body_size"] == 5
