"""The table of steps: what is measured on test questions, and that a finished row is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.models.steps import run_steps
from rulerag.generation.huggingface import NANO_LLAMA
from rulerag.io import read_json, read_jsonl, read_text
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.synthetic.world import World
from rulerag.text import exact_match

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def test_each_step_is_measured_on_the_same_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = RuleQASettings(num_queries=40, miner="tlogic", min_support=5, min_confidence=0.1)
    place, out = tmp_path / "world", tmp_path / "out"
    build("ruleqa-i", World.generate(2000, seed=3).graph, settings=settings).save(place)
    run_steps([str(NANO_LLAMA)], [place], out, sample=16, tuned=24)
    (file,) = out.glob("*.json")
    row, read = read_json(file), list(read_jsonl(file.with_suffix(".jsonl")))
    assert row["queries"] == len(read) == 16
    assert set(row["exact_match"]) == {"first", "symbolic", "installed", "tuned", "held"}
    for step, value in row["exact_match"].items():
        told = [exact_match(one[step], one["answers"]) for one in read]
        assert value == pytest.approx(sum(told) / 16, abs=1e-4)
    held_back = row["abstention"]
    assert 0 < held_back["answerable"] <= 1
    if held_back["threshold"] is None:
        assert held_back["answered"] == 1
        assert held_back["exact_match_of_answered"] == row["exact_match"]["held"]
    else:
        assert held_back["answered"] <= 1
    table = read_text(out / "steps.md")
    assert f"| {Path(NANO_LLAMA).name} | ruleqa-i | 16 |" in table
    before = file.stat().st_mtime_ns
    run_steps([str(NANO_LLAMA)], [place], out, sample=16, tuned=24)
    assert file.stat().st_mtime_ns == before
    assert capsys.readouterr().out.endswith(table)
