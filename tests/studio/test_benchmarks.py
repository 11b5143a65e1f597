"""The rule bench: a world that knows its own truth, one rule off; and runs by failure class."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rulerag.assembly.demo import mine_world, world_dataset
from rulerag.errors import ConfigError, DataError
from rulerag.io import write_jsonl
from rulerag.studio.benchmarks import compared, read_run
from rulerag.studio.service import Configure, Studio
from rulerag.synthetic import World
from tests.studio.conftest import explained


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("world") / "world"
    world = World.generate(1500, kind="static", max_body_atoms=1)
    world_dataset(world, mine_world(world)[0]).save(made)
    return made


@pytest.fixture
def bench(tmp_path: Path, folder: Path) -> Studio:
    return Studio(tmp_path / "data", benchmarks=[folder])


def test_a_rule_that_is_off_changes_retrieval_answer_and_explanation(bench: Studio) -> None:
    dataset = bench.system("world").benchmark.dataset
    for query in dataset.query_set("full"):
        session = bench.retrieve(bench.new_session("world", question=query.text).id)
        said = bench.answer(session.id)["text"]
        found = {by.rule for source in session.state.sources for by in source.found_by}
        if said in query.answers and len(found) >= 1:
            break
    view = explained(bench, session.id)
    assert view.claims[0].enough
    assert ">rules<" in bench.picture(view.id, "flow").svg
    rules = bench.rules_for("world", query.text)
    every = tuple(row["id"] for row in rules)
    off = bench.change(session.id, Configure(rules_off=every))
    assert bench.answer(session.id)["text"] != said
    off = bench.retrieve(session.id)
    assert not [by for source in off.state.sources for by in source.found_by]
    assert off.state.sources != session.state.sources
    plain = bench.retrieve(session.id, retriever="plain")
    assert not [by for source in plain.state.sources for by in source.found_by]
    bench.close()


def test_the_bank_is_searched_and_a_rule_has_examples(bench: Studio) -> None:
    rows = bench.search_rules("world")
    bank = {one.id: one for one in bench.system("world").benchmark.dataset.rules}
    order = [bank[row["id"]].ranking_confidence for row in rows]
    assert order == sorted(order, reverse=True)
    word = rows[0]["head"]["relation"]
    assert all(word in row["text"] for row in bench.search_rules("world", word))
    assert bench.search_rules("world", "no such words") == []
    found = [bench.rule_examples("world", row["id"]) for row in rows[:5]]
    assert any(one["holds"] or one["fails"] for one in found)
    with pytest.raises(ConfigError, match="no rule"):
        bench.rule_examples("world", "nothing")
    with pytest.raises(ConfigError, match="no mined rules"):
        bench.search_rules("finance")
    bench.close()


def test_rules_are_shown_by_the_templates_of_the_folder(tmp_path: Path, folder: Path) -> None:
    own = tmp_path / "world"
    shutil.copytree(folder, own)
    (own / "phrases.yaml").write_text("has_lived_in: '{x} knows every street of {y}'\n")
    opened = Studio(tmp_path / "data", benchmarks=[own]).system("world").benchmark
    rules = opened.search("knows every street")
    assert rules and all(rule.text.endswith("then X knows every street of Y") for rule in rules)
    asked = next(q for q in opened.dataset.query_set("full") if q.relation == "has_lived_in")
    assert {rule.text for rule in opened.rules(asked)} <= {rule.text for rule in rules}


def test_a_run_is_read_by_failure_class(tmp_path: Path) -> None:
    def row(number: int, answer: str, *texts: str) -> dict[str, object]:
        documents = [{"text": text, "found_by": [{"rule": f"r{number}"}]} for text in texts]
        asked = {"query_id": str(number), "query": f"question {number}", "answers": ["Rome"]}
        return {**asked, "answer": answer, "documents": documents}

    for name, first in (("one", "Rome"), ("two", "Bern")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(json.dumps({"metrics": {}}))
        rows = [
            row(1, first, "It is Rome."),
            row(2, "Bern", "It is Oslo."),
            row(3, "", "It is Rome."),
            row(4, "Bern", "It is Rome.", "It is Bern."),
        ]
        write_jsonl(tmp_path / name / "predictions.jsonl", rows)
    run, other = read_run(tmp_path / "one"), read_run(tmp_path / "two")
    assert [one.outcome for one in run.rows] == ["right", "not retrieved", "ignored", "misled"]
    assert run.outcomes == dict.fromkeys(run.outcomes, 1)
    assert [one.query_id for one in run.filtered(outcome="misled")] == ["4"]
    assert [one.query_id for one in run.filtered(rule="r2")] == ["2"]
    ((one, two),) = compared(run, other)
    assert (one.outcome, two.outcome) == ("right", "ignored")
    with pytest.raises(DataError):
        read_run(tmp_path)
