"""Link prediction on graphs small enough to count by hand, by the library and its command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulerag.cli import main as rulerag
from rulerag.errors import ConfigError
from rulerag.evaluation.link_prediction import load_rules
from rulerag.kg import KnowledgeGraph
from rulerag.mining.temporal import TLogicMiner
from rulerag.types import Fact


def main(words: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        rulerag(["link-prediction", *words])
    return int(stop.value.code or 0)


def write_graph(folder: Path, splits: dict[str, list[tuple[str, ...]]]) -> Path:
    folder.mkdir()
    for name, rows in splits.items():
        (folder / f"{name}.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def static_folder(tmp_path: Path) -> Path:
    """Everybody lives where they were born; the test facts follow from the training facts."""
    train = [(f"p{i}", "born_in", f"t{i % 4}") for i in range(120)]
    train += [(f"p{i}", "lives_in", f"t{i % 4}") for i in range(110)]
    test = [(f"p{i}", "lives_in", f"t{i % 4}") for i in range(110, 120)]
    return write_graph(tmp_path / "graph", {"train": train, "valid": test[:2], "test": test[2:]})


@pytest.mark.parametrize("aggregate", ["max", "noisy-or"])
def test_the_command_on_a_static_graph(static_folder: Path, tmp_path: Path, aggregate: str) -> None:
    out = tmp_path / "out"
    command = [str(static_folder), "--miner", "amie", "--quiet", f"aggregate={aggregate}"]
    assert main([*command, "--out", str(out)]) == 0
    result = json.loads((out / "metrics.json").read_text())
    assert result["num_queries"] == 16
    # Objects are certain. A subject is one of the two or three of its town who live nowhere yet,
    # behind the thirty of whom the training facts know it: those are taken out.
    assert result["metrics"]["reached"] == 1.0
    assert result["metrics"]["hits@10"] == 1.0
    assert result["metrics"]["mrr"] > 0.7
    assert result["config"]["aggregate"] == aggregate
    assert main([*command, "--limit", "3", "--out", str(out)]) == 0
    assert json.loads((out / "metrics.json").read_text())["num_queries"] == 6


def test_ids_of_another_order_are_refused(tmp_path: Path) -> None:
    facts = [Fact("a", "b often", "c", t) for t in range(9)] + [Fact("a", "a rarely", "c", 0)]
    graph = KnowledgeGraph.from_facts(facts)
    rule = {"head_rel": 1, "body_rels": [1], "var_constraints": []}
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"1": [rule | {"conf": 0.5, "rule_supp": 4, "body_supp": 8}]}))
    with pytest.raises(ConfigError, match="relation_ids=sorted"):
        load_rules(path, graph)
    (found,) = load_rules(path, graph, "sorted")
    assert found.head.relation == "b often"


@pytest.mark.slow
def test_tlogic_rules_on_icews14_as_published(graph_folder, reference_folder, tmp_path) -> None:
    folder = graph_folder("icews14_forecasting")
    rules = reference_folder("tlogic") / "icews14_r123_n200_exp_s12_rules.json"
    command = [str(folder), "--rules", str(rules), "relation_ids=sorted"]
    assert main([*command, "--quiet", "--limit", "500", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "metrics.json").read_text())["metrics"]
    assert found["mrr_worst"] <= found["mrr"] <= found["mrr_rounded_down"] <= found["mrr_best"]
    assert 0.3 < found["mrr"] < 0.6


def test_mined_temporal_rules_forecast(tmp_path: Path) -> None:
    facts = [(f"p{i}", "asks", f"q{i}", str(t)) for i in range(20) for t in range(0, 20, 2)]
    facts += [(f"q{i}", "answers", f"p{i}", str(t)) for i in range(20) for t in range(1, 20, 2)]
    facts.sort(key=lambda row: int(row[3]))
    splits = {"train": facts[:300], "valid": facts[300:320], "test": facts[320:]}
    folder = write_graph(tmp_path / "graph", splits)
    assert len(TLogicMiner().mine(KnowledgeGraph.load(folder).train))
    command = [str(folder), "--miner", "tlogic", "--quiet", "--out", str(tmp_path)]
    assert main(command) == 0
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert found["metrics"]["hits@1"] == 1.0
    assert found["method"] == "tlogic-noisy-or"


@pytest.mark.parametrize(
    ("graph", "words", "message"),
    [
        ("graph", ["--miner", "tlogic"], "AmieMiner"),
        ("graph", [], "--rules FILE"),
        ("nowhere", ["--miner", "amie"], "nowhere"),
        ("graph", ["--miner", "amie", "aggregate=mean"], "aggregate"),
        ("dated", ["--miner", "tlogic", "aggregate=max"], "use noisy-or"),
        ("dated", ["--miner", "tlogic", "num_walkz=5"], "did you mean 'num_walks'"),
    ],
)
def test_what_does_not_fit_is_refused(
    graph: str,
    words: list[str],
    message: str,
    static_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = static_folder.parent
    rows = [(f"a{i % 4}", "r", f"b{i % 3}", str(i)) for i in range(9)]
    write_graph(home / "dated", {"train": rows[:6], "valid": rows[6:7], "test": rows[7:]})
    assert main([str(home / graph), "--quiet", *words]) == 2
    assert message in capsys.readouterr().err
