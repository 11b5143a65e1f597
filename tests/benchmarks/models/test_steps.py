"""The table of steps: what is measured on test questions, and that a finished row is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import rulerag
from benchmarks.models.steps import run_steps
from rulerag.generation.huggingface import NANO_LLAMA
from rulerag.io import read_json, read_jsonl, read_text
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.synthetic.world import World
from rulerag.text import exact_match
from tests.generation.huggingface.test_generator import write_adapter

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = RuleQASettings(num_queries=40, miner="tlogic", min_support=5, min_confidence=0.1)
    place = tmp_path_factory.mktemp("steps") / "world"
    build("ruleqa-i", World.generate(2000, seed=3).graph, settings=settings).save(place)
    return place


@pytest.fixture(scope="module")
def out(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("figures")
    run_steps([str(NANO_LLAMA)], [world], place, sample=16, tuned=24)
    return place


def test_each_step_is_measured_on_the_same_questions(
    world: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    run_steps([str(NANO_LLAMA)], [world], out, sample=16, tuned=24)
    assert file.stat().st_mtime_ns == before
    assert capsys.readouterr().out.endswith(table)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT on transformers 5.23
def test_an_adapter_that_is_named_later_adds_its_columns_alone(
    world: Path, out: Path, tmp_path: Path
) -> None:
    write_adapter(Path(rulerag.__file__).parent / "models" / "nano-llama", tmp_path)
    (file,) = out.glob("*.json")
    before = read_json(file)
    named = f"{NANO_LLAMA}:ruleqa-i={tmp_path}"
    run_steps([str(NANO_LLAMA)], [world], out, sample=16, tuned=24, adapters=[named])
    after = read_json(file)
    assert set(after["exact_match"]) - set(before["exact_match"]) == {"rgft", "rgft held"}
    assert after["exact_match"] | before["exact_match"] == after["exact_match"]
    for key in ("tuning", "prompts", "abstention", "queries"):
        assert after[key] == before[key]
    assert {"rgft", "held"} <= set(after["cpu_seconds_a_query"])
