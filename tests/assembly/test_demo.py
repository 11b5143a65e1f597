"""The demo on small worlds, held against what the worlds know of themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rulerag.assembly.demo import check_mining, mine_world, run_demo
from rulerag.errors import ConfigError, OutputError
from rulerag.ruleqa import RuleQADataset
from rulerag.rules import RuleBank, readable
from rulerag.synthetic import World
from tests.outline import Outline

KINDS = ("temporal", "static")
FACTS, SEED = 1500, 1
Ran = tuple[Path, dict[str, Any], list[str]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run: its folder, what it returned, what it said."""
    folder, lines = tmp_path_factory.mktemp("demo") / "new" / "out", []
    summary = run_demo(folder, num_facts=FACTS, seed=SEED, say=lines.append)
    return folder, summary, lines


def world(kind: str, num_facts: int = FACTS, seed: int = SEED) -> World:
    return World.generate(num_facts, kind=kind, seed=seed, max_body_atoms=1)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_rules_are_found_at_their_confidence(kind: str) -> None:
    for made in (world(kind), world(kind, 5000, 3)):
        check = check_mining(made, *mine_world(made))
        assert check.planted == len(made.planted) >= 3
        assert (check.precision, check.recall) == (1.0, 1.0) and check.max_error <= 0.03


def test_the_check_sees_what_is_missing_and_what_is_too_much() -> None:
    made = world("temporal")
    bank, _ = mine_world(made)
    others = list(bank)[1:]
    assert check_mining(made, RuleBank(others)).recall == pytest.approx(len(others) / len(bank))
    wrong = RuleBank([*bank, next(iter(mine_world(world("static"))[0]))])
    assert check_mining(made, wrong).precision == pytest.approx(len(bank) / len(wrong))
    assert check_mining(made, RuleBank()).precision == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_every_explanation_rests_on_a_true_supporting_fact(kind: str, ran: Ran) -> None:
    """Worked out here anew from the world's own truth, not from the demo's counts."""
    folder, summary, _ = ran
    dataset = RuleQADataset.load(folder / kind / "dataset")
    document_of = {fact: document.id for document in dataset.corpus for fact in document.facts}
    truth = world(kind)
    assert len(dataset.corpus) == len(truth.graph.train)
    assert bool(dataset.calendar) == (kind == "temporal")
    supported = {}
    for query in dataset.query_set("full"):
        known = truth.find(query.subject, query.relation, query.timestamp)
        assert known is not None and known.fact.object in query.answers
        if known.supports:
            facts = [fact for support in known.supports for fact in support]
            supported[query.id] = {document_of[fact] for fact in facts}
    assert {query.id for query in dataset.query_set("supported")} == set(supported)
    rows = (folder / kind / "explanations.jsonl").read_text().splitlines()
    explained = {row["query_id"]: row for row in map(json.loads, rows)}
    assert explained.keys() == supported.keys()
    for query_id, row in explained.items():
        names = [document["id"] for document in row["documents"]]
        sets = [one for claim in row["claims"] for one in claim["retention"]]
        assert {names[place] for one in sets for place in one["documents"]} & supported[query_id]
    part = summary["worlds"][kind]
    assert part["true_support_in_minimal_retention_rule"] == len(supported)
    assert part["supported_queries"] == part["explained"] == len(supported)


def test_metrics_are_written_as_returned_and_rules_help(ran: Ran) -> None:
    folder, summary, lines = ran
    written = json.loads((folder / "metrics.json").read_text())
    assert written == json.loads(json.dumps(summary))
    assert list(written) == ["benchmark", "num_facts", "seed", "seconds", "worlds"]
    assert list(written["worlds"]) == [*KINDS]
    shown = "\n".join(lines)
    assert shown.count("precision 1.00, recall 1.00") == 2
    for part in written["worlds"].values():
        supported = part["supported_queries"]
        assert f"minimal retention rule: {supported} of {supported}" in shown
        names = [one["method"] for one in part["methods"]]
        assert names == ["BM25", "BM25, rule-guided", "symbolic"]
        plain, guided, symbolic = (one["metrics"]["exact_match"] for one in part["methods"])
        assert plain < guided and plain < symbolic and symbolic > 0.5


def test_the_page_shows_rules_figures_and_wrong_answers_beside_right_ones(ran: Ran) -> None:
    page = (ran[0] / "report.html").read_text()
    assert page.rstrip().endswith("</html>") and len(page) < 2_000_000
    words = Outline(page).text
    head = words.partition("Answers, right beside wrong")[0]
    assert all(f" {label} " in head for label in ("asked", "answered", "why", "how sure", "cost"))
    for kind in KINDS:
        for run in ran[1]["worlds"][kind]["methods"]:
            assert f"{100 * run['metrics']['exact_match']:.1f}" in page
        assert all(
            f" → Entity 1 {readable(one.rule.head.relation)}" in words
            for one in world(kind).planted
        )
    right, _, wrong = page.partition('id="answers"')[2].partition(">Wrong (")
    assert right.count('class="verdict right"') == 2 * len(KINDS)
    wrong = wrong.partition("What was measured")[0]
    assert wrong.count('class="verdict wrong"') == wrong.count("Accepted: ") == 2 * len(KINDS)


def test_the_same_seed_gives_the_same_figures(tmp_path: Path) -> None:
    """On worlds too small for a rule with enough support, too: nothing breaks."""
    runs = [run_demo(tmp_path / name, num_facts=300) for name in ("one", "two")]
    for kind in KINDS:
        first, second = (run["worlds"][kind] for run in runs)
        assert [r["metrics"] for r in first["methods"]] == [r["metrics"] for r in second["methods"]]
        rows = [
            [json.loads(row) for row in file.read_text().splitlines()]
            for file in sorted(tmp_path.glob(f"*/{kind}/explanations.jsonl"))
        ]
        one, two = ([{**row, "seconds": 0} for row in part] for part in rows)
        assert one == two
    assert (tmp_path / "one" / "report.html").exists()


def test_worlds_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="num_facts"):
        run_demo(tmp_path, num_facts=99)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        run_demo(tmp_path / "file" / "out", num_facts=500)
