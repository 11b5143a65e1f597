"""Each command on a world of a thousand facts: its figures, its table, and that it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.candidates.__main__ import main
from benchmarks.candidates.links import _examples, _parts, known_facts
from rulerag.io import read_json, read_text, write_json
from rulerag.ruleqa.builder import RuleQASettings, build
from rulerag.synthetic.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static graph, and a dataset of it beside."""
    place = tmp_path_factory.mktemp("world")
    made = World.generate(1200, kind="static", seed=3)
    made.save(place / "graph")
    settings = RuleQASettings(num_queries=30, miner="amie", min_support=2)
    build("ruleqa-f", made.graph, settings=settings).save(place / "dataset")
    return place


def run(*arguments: object) -> int:
    return main([str(one) for one in arguments])


def test_questions_and_what_each_scorer_adds(world: Path, tmp_path: Path) -> None:
    command = ("study", world / "dataset", "--out", tmp_path)
    assert run(*command) == 0
    (file,) = tmp_path.glob("*-balanced.json")
    found = read_json(file)
    kinds = {row["kind"] for row in found["without"]}
    assert {"trees", "analogy", "names", "walks", "rules", "relation-prior"} == kinds
    # No scorer has more answers first than the oracle over all of them, nor has what joins them
    # an answer that is no candidate.
    assert max(row["first"] for row in found["scorers"]) <= found["oracle"]["first"]
    assert found["learned"]["top10"] <= found["oracle"]["any"] <= 1
    assert found["learned"]["first"] > min(row["first"] for row in found["scorers"])
    for row in found["without"]:
        assert row["first_added"] == pytest.approx(found["learned"]["first"] - row["first"])
    table = read_text(tmp_path / "table.md")
    assert "| oracle over the scorers |" in table and "| relation-prior |" in table
    # What is there already is not measured again; another configuration is.
    write_json(file, {**found, "loss": -1.0})
    assert run(*command) == 0 and read_json(file)["loss"] == -1.0
    assert run(*command, "--no-ablation", "--set", "retriever.scorer.depth=5") == 0
    again = read_json(file)
    assert again["loss"] > 0 and [row["kind"] for row in again["without"]] == ["trees"]


def test_links_of_a_graph_with_vectors(world: Path, tmp_path: Path) -> None:
    vectors = ("--vectors", tmp_path / "vectors", "--rank", 4, "--epochs", 2)
    command = ("links", world / "graph", "--limit", 20, *vectors, "--out", tmp_path / "out")
    assert run(*command) == 0
    file = tmp_path / "out" / "graph-test.json"
    found = read_json(file)
    titles = [row["scorer"] for row in found["scorers"]]
    assert titles[-2:] == ["embeddings", "learned"] and found["queries"] == 40
    scores = {row["scorer"]: row["metrics"]["mrr"] for row in found["scorers"]}
    assert 0 < scores["relation-prior"] < scores["learned"] <= 1
    assert "| learned |" in read_text(tmp_path / "out" / "table.md")
    # A run that was killed goes on: what it has is kept, the rest comes out as before.
    rows = [{**row, "cpu_seconds": -1.0} for row in found["scorers"][:3]]
    write_json(file, {**found, "scorers": rows})
    assert run(*command) == 0
    again = read_json(file)["scorers"]
    assert [row["cpu_seconds"] < 0 for row in again] == [True] * 3 + [False] * (len(again) - 3)
    assert {row["scorer"]: row["metrics"]["mrr"] for row in again} == scores
    # Figures of other queries are not taken over.
    assert run(*command[:2], "--limit", 10, *command[4:]) == 0
    assert all(row["cpu_seconds"] >= 0 for row in read_json(file)["scorers"])


def test_links_of_a_dated_graph_have_no_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    World.generate(1200, seed=3).save(tmp_path / "dated")
    command = ("links", tmp_path / "dated", "--limit", 10, "--out", tmp_path / "out")
    assert run(*command) == 0
    titles = [row["scorer"] for row in read_json(tmp_path / "out/dated-test.json")["scorers"]]
    assert {"most-recent", "rules-noisy-or", "learned"} <= set(titles)
    assert run(*command, "--vectors", tmp_path / "vectors") == 2
    assert "vectors know all facts of dated" in capsys.readouterr().err
    assert run(*command[:2], tmp_path, *command[2:], "--vectors", tmp_path / "vectors") == 2


def test_validation_links_are_learned_from_one_half_and_asked_of_the_other(tmp_path: Path) -> None:
    graph = World.generate(1200, seed=3).graph
    earlier, later = _parts(graph, "valid", None)
    assert len(earlier) + len(later) == len(graph.valid)
    assert earlier.timestamp is not None and later.timestamp is not None
    assert earlier.timestamp.max() < later.timestamp.min()
    taught, asked = _parts(graph, "test", None)
    assert taught is graph.valid and asked is graph.test
    # Every answer that the facts taught have for a question is one of it.
    for query in _examples(earlier, known_facts(graph), False):
        key = query.subject, query.relation, query.timestamp
        same = {o for s, r, o, t in earlier if (s, r, t) == key}
        assert len(set(query.answers)) == len(same)
