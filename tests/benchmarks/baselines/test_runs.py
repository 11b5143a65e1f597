"""Baselines that need no system: counted by hand, beside other rows, on the public graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.baselines.counts import BASELINES, CountedFacts
from benchmarks.baselines.runs import RECALL, TIES, baselines_of, main, run_baselines
from benchmarks.common.bench import Bench
from benchmarks.stages.answers import EM
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.types import Document, Fact, Query

RECENT, FREQUENT, PRIOR = BASELINES


def documents(*facts: tuple[str, str, str, int | None]) -> list[Document]:
    return [
        Document(f"d{n}", f"{s} {r} {o} {t}", (Fact(s, r, o, t),))
        for n, (s, r, o, t) in enumerate(facts)
    ]


CORPUS = documents(
    ("ann", "visits", "z_oslo", 1),
    ("ann", "visits", "z_oslo", 2),
    ("ann", "visits", "rome", 5),
    ("ann", "visits", "zug", 5),
    ("ann", "visits", "zug", 4),
    ("ann", "leaves", "paris", 6),
    ("bob", "visits", "rome", 3),
    ("bob", "visits", "rome", 4),
    ("cyd", "visits", "rome", 7),
)


def asked(subject: str, relation: str, time: int | None, *answers: str) -> Query:
    return Query(f"{subject}-{relation}-{time}", "?", subject, relation, time, answers)


def names(baseline: Any, query: Query) -> list[str]:
    return [one.name for one in baseline.candidates(CountedFacts(CORPUS), query)]


def test_candidates_by_hand() -> None:
    late = asked("ann", "visits", 9)
    # rome and zug are equally recent, zug was stated more often
    assert names(RECENT, late) == ["zug", "rome", "z_oslo"]
    # z_oslo and zug twice each, zug the more recent; then any object of ann; then of visits
    assert names(FREQUENT, late) == ["zug", "z_oslo", "rome", "paris"]
    assert names(FREQUENT, asked("bob", "leaves", 9)) == ["rome", "paris"]
    assert names(FREQUENT, asked("eve", "visits", 9))[0] == "rome"
    assert names(RECENT, asked("eve", "visits", 9)) == names(PRIOR, asked("eve", "buys", 9)) == []
    assert names(PRIOR, late) == [], "every object is known for ann"
    assert names(PRIOR, asked("cyd", "visits", 9)) == ["zug", "z_oslo"]


def test_what_is_later_than_the_question_is_not_seen() -> None:
    assert names(RECENT, asked("ann", "visits", 4)) == ["zug", "z_oslo"]
    assert names(FREQUENT, asked("ann", "visits", 1)) == ["z_oslo"]
    assert names(PRIOR, asked("cyd", "visits", 3))[0] == "z_oslo"
    assert names(RECENT, asked("ann", "visits", None)) == ["zug", "rome", "z_oslo"]


@pytest.fixture
def dataset() -> RuleQADataset:
    queries = [
        asked("ann", "visits", 9, "Roma"),
        asked("ann", "visits", 8, "zug"),
        asked("eve", "visits", 9, "nobody", "Roma"),
        asked("eve", "buys", 9, "Roma"),
    ]
    return RuleQADataset(
        corpus=CORPUS,
        queries={"test": queries},
        query_sets={"balanced": {queries[0].id, queries[2].id}},
        labels={"entities": {"rome": "Roma"}},
    )


@pytest.fixture
def bench(dataset: RuleQADataset, tmp_path: Path) -> Bench:
    dataset.save(tmp_path / "datasets" / "ruleqa-i")
    return Bench("ruleqa-i", tmp_path / "datasets" / "ruleqa-i", tmp_path / "out")


def test_records_hold_one_value_a_query_and_stand(bench: Bench) -> None:
    run_baselines(bench, "full")
    folder = bench.out / "reading" / "ruleqa-i" / "full"
    found = baselines_of(folder)
    assert list(found) == [one.name for one in BASELINES]
    recent = found["most-recent"]
    assert recent.records[0]["answers"] == ["zug", "zug", "", ""]
    assert recent.values[0][EM].tolist() == [0, 1, 0, 0]
    assert recent.values[0][RECALL].tolist() == [1, 1, 0, 0], "Roma is second"
    assert recent.values[0][TIES["random"]].tolist() == [0.5, 0.5, 0, 0]
    assert recent.values[0][TIES["best"]].tolist() == [1, 1, 0, 0]
    assert recent.values[0][TIES["worst"]].tolist() == [0, 0, 0, 0]
    assert found["most-frequent"].values[0][EM].tolist() == [0, 1, 1, 0]
    assert recent.values[0]["places"].tolist() == [0, 1, 2, 3]
    before = {file.name: file.stat().st_mtime_ns for file in folder.glob("*.json")}
    (folder / "relation-prior-0.json").unlink()  # killed in the middle
    again = run_baselines(bench, "full")
    assert [record["row"] for record in again] == list(found)
    after = {file.name: file.stat().st_mtime_ns for file in folder.glob("*.json")}
    assert before.keys() == after.keys()
    assert before["most-recent-0.json"] == after["most-recent-0.json"]


def test_undated_facts_have_no_most_recent(tmp_path: Path) -> None:
    corpus = documents(("ann", "likes", "tea", None), ("bob", "likes", "tea", None))
    query = asked("cyd", "likes", None, "tea")
    RuleQADataset(corpus=corpus, queries={"test": [query]}).save(tmp_path / "data")
    made = run_baselines(Bench("ruleqa-f", tmp_path / "data", tmp_path / "out"), "full")
    assert [record["row"] for record in made] == ["most-frequent", "relation-prior"]
    assert [record["metrics"][EM] for record in made] == [1, 1]


def test_the_command(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--datasets", str(tmp_path / "datasets"), "--out", str(tmp_path / "runs")]
    chosen = [*common, "--benchmarks", "ruleqa-i", "--save", str(tmp_path / "save")]
    assert main(chosen) == 0
    text = capsys.readouterr().out
    assert (tmp_path / "save" / "table.md").read_text() == text
    assert "| ruleqa-i | most-recent | 25.0 [" in text and "Ties: of equally recent" in text
    assert (tmp_path / "save" / "results.json").exists()
    for more, said in (([], "ruleqa-y: is no built"), (["--benchmarks", "ruleqa-z"], "ruleqa-y")):
        assert main([*common, *more]) == 2
        assert said in capsys.readouterr().err
