"""The demo on small worlds, held against what the worlds know of themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly.demo import check_mining, mine_world, run_demo, world_dataset
from rulerag.errors import ConfigError, OutputError
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.rules import RuleBank, readable
from rulerag.synthetic.world import World
from tests.outline import Outline

KINDS = ("temporal", "static")
FACTS, SEED = 1500, 1


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[str]]:
    """One run: its folder, what it returned, what it said."""
    folder, lines = tmp_path_factory.mktemp("demo") / "new" / "out", []
    summary = run_demo(folder, num_facts=FACTS, seed=SEED, say=lines.append)
    return folder, summary, lines


def world(kind: str) -> World:
    return World.generate(FACTS, kind=kind, seed=SEED, max_body_atoms=1)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_rules_are_found_at_their_confidence(
    kind: str, ran: tuple[Path, dict[str, Any], list[str]]
) -> None:
    mining = ran[1]["worlds"][kind]["mining"]
    assert mining["planted"] == len(world(kind).planted) >= 3
    assert (mining["precision"], mining["recall"]) == (1.0, 1.0)
    assert mining["max_error"] <= 0.03


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("num_facts", "seed"), [(2000, 0), (5000, 3)])
def test_so_they_are_in_other_worlds(kind: str, num_facts: int, seed: int) -> None:
    made = World.generate(num_facts, kind=kind, seed=seed, max_body_atoms=1)
    check = check_mining(made, *mine_world(made))
    assert (check.precision, check.recall) == (1.0, 1.0)
    assert check.max_error <= 0.03


def test_the_check_sees_what_is_missing_and_what_is_too_much() -> None:
    made = world("temporal")
    bank, _ = mine_world(made)
    first, *others = bank
    assert check_mining(made, RuleBank(others)).recall == pytest.approx(len(others) / len(bank))
    wrong = RuleBank([*bank, next(iter(mine_world(world("static"))[0]))])
    assert check_mining(made, wrong).precision == pytest.approx(len(bank) / len(wrong))
    assert check_mining(made, RuleBank()).precision == 0.0
    assert first.ranking_confidence > 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_every_explanation_rests_on_a_true_supporting_fact(
    kind: str, ran: tuple[Path, dict[str, Any], list[str]]
) -> None:
    """Worked out here anew from the world's own truth, not from the demo's counts."""
    folder, summary, _ = ran
    dataset = RuleQADataset.load(folder / kind / "dataset")
    document_of = {fact: document.id for document in dataset.corpus for fact in document.facts}
    truth = world(kind)
    supported = {}
    for query in dataset.query_set("full"):
        found = truth.find(query.subject, query.relation, query.timestamp)
        assert found is not None and found.fact.object in query.answers
        if found.supports:
            facts = [fact for support in found.supports for fact in support]
            supported[query.id] = {document_of[fact] for fact in facts}
    rows = (folder / kind / "explanations.jsonl").read_text().splitlines()
    explained = {row["query_id"]: row for row in map(json.loads, rows)}
    assert explained.keys() == supported.keys()
    for query_id, row in explained.items():
        names = [document["id"] for document in row["documents"]]
        sets = [one for claim in row["claims"] for one in claim["retention"]]
        minimal = {names[place] for one in sets for place in one["documents"]}
        assert minimal & supported[query_id]
    part = summary["worlds"][kind]
    assert part["true_support_in_minimal_retention_rule"] == len(supported)
    assert part["supported_queries"] == part["explained"] == len(supported)


@pytest.mark.parametrize("kind", KINDS)
def test_rules_help(kind: str, ran: tuple[Path, dict[str, Any], list[str]]) -> None:
    plain, guided, symbolic = ran[1]["worlds"][kind]["methods"]
    names = [result["method"] for result in (plain, guided, symbolic)]
    assert names == ["BM25", "BM25, rule-guided", "symbolic"]
    exact = [result["metrics"]["exact_match"] for result in (plain, guided, symbolic)]
    assert exact[0] < exact[1] and exact[0] < exact[2]
    assert exact[2] > 0.5


def test_metrics_are_written_as_returned(ran: tuple[Path, dict[str, Any], list[str]]) -> None:
    folder, summary, _ = ran
    written = json.loads((folder / "metrics.json").read_text())
    assert written == json.loads(json.dumps(summary))
    assert list(written) == ["benchmark", "num_facts", "seed", "seconds", "worlds"]
    assert (written["num_facts"], written["seed"]) == (FACTS, SEED)
    assert list(written["worlds"]) == list(KINDS)
    for part in written["worlds"].values():
        assert set(part) == {
            *("mining", "methods", "explained", "true_support_in_minimal_retention_rule"),
            *("supported_queries", "probes"),
        }
        for result in part["methods"]:
            keys = {"benchmark", "method", "retriever", "generator", "num_queries", "metrics"}
            assert keys | {"seconds", "seed", "config", "versions"} <= set(result)
            assert {"answer_recall@10", "exact_match", "token_f1"} <= set(result["metrics"])


def test_the_page_needs_nothing_else(ran: tuple[Path, dict[str, Any], list[str]]) -> None:
    page = (ran[0] / "report.html").read_text()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    words = Outline(page).text
    for kind in KINDS:
        for planted in world(kind).planted:
            body, head = planted.rule.body[0].relation, planted.rule.head.relation
            subject, other = (2, 1) if planted.rule.is_inverse else (1, 2)
            told = f"Entity {subject} {readable(body)} Entity {other} → Entity 1 {readable(head)}"
            assert told in words


def test_the_page_shows_wrong_answers_beside_right_ones(
    ran: tuple[Path, dict[str, Any], list[str]],
) -> None:
    page = (ran[0] / "report.html").read_text()
    head = Outline(page).text.partition("Answers, right beside wrong")[0]
    labels = ("asked", "answered", "why", "how sure", "cost")
    places = [head.index(f" {label} ") for label in labels]
    assert places == sorted(places)
    for kind in KINDS:
        for run in ran[1]["worlds"][kind]["methods"]:
            assert f"{100 * run['metrics']['exact_match']:.1f}" in page
    right, _, wrong = page.partition('id="answers"')[2].partition(">Wrong (")
    assert right.count('class="verdict right"') == 2 * len(KINDS)
    wrong = wrong.partition("What was measured")[0]
    assert wrong.count('class="verdict wrong"') == wrong.count("Accepted: ") == 2 * len(KINDS)
    assert len(page) < 2_000_000


def test_what_is_said_tells_the_result(ran: tuple[Path, dict[str, Any], list[str]]) -> None:
    said = "\n".join(ran[2])
    assert said.count("precision 1.00, recall 1.00") == 2
    for kind in KINDS:
        supported = ran[1]["worlds"][kind]["supported_queries"]
        assert f"minimal retention rule: {supported} of {supported}" in said
    assert str(ran[0] / "report.html") in said


def test_the_same_seed_gives_the_same_figures(
    ran: tuple[Path, dict[str, Any], list[str]], tmp_path: Path
) -> None:
    again = run_demo(tmp_path, num_facts=FACTS, seed=SEED)
    for kind in KINDS:
        first, second = (part["worlds"][kind]["methods"] for part in (ran[1], again))
        assert [r["metrics"] for r in first] == [r["metrics"] for r in second]
        explained = Path(kind) / "explanations.jsonl"
        rows = [json.loads(r) for r in (ran[0] / explained).read_text().splitlines()]
        others = [json.loads(r) for r in (tmp_path / explained).read_text().splitlines()]
        assert [{**r, "seconds": 0} for r in rows] == [{**r, "seconds": 0} for r in others]


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_becomes_a_dataset(kind: str) -> None:
    made = world(kind)
    dataset = world_dataset(made, made.rules)
    assert len(dataset.corpus) == len(made.graph.train)
    answers = sum(len(query.answers) for query in dataset.query_set("full"))
    assert answers == len(made.graph.test)
    supported = {query.id for query in dataset.query_set("supported")}
    assert supported == set(dataset.qrels("test"))
    assert bool(dataset.calendar) == (kind == "temporal")


def test_a_tiny_world_is_run_too(tmp_path: Path) -> None:
    """Too small to hold a rule with enough support: nothing is found, and nothing breaks."""
    summary = run_demo(tmp_path, num_facts=100)
    assert [part["mining"]["mined"] for part in summary["worlds"].values()] == [0, 0]
    assert (tmp_path / "report.html").exists()


def test_worlds_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="num_facts"):
        run_demo(tmp_path, num_facts=99)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        run_demo(tmp_path / "file" / "out", num_facts=500)
