"""A dataset from any graph: splits where there are none, thresholds that leave some rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from benchmarks.ruleqa.__main__ import main
from rulerag.assembly.build import make_pipeline
from rulerag.assembly.presets import preset
from rulerag.errors import EmptyDataError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.ruleqa import RuleQASettings
from rulerag.ruleqa.builder import build
from rulerag.ruleqa.check import check_leakage
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.validation_split import with_splits
from rulerag.synthetic.world import World

Row = tuple[str, ...]


def town(people: int, *, dated: bool = False) -> list[Row]:
    """People who live and often work in a town, and know each other."""
    chance = random.Random(1)
    rows: list[Row] = []
    for number in range(people):
        time = (str(2000 + number // 2),) if dated else ()
        name, place = f"p{number % 30 if dated else number}", f"c{chance.randrange(8)}"
        rows.append((name, "lives_in", place, *time))
        if chance.random() < 0.8:
            rows.append((name, "works_in", place, *time))
        rows.append((name, "knows", f"p{chance.randrange(people)}", *time))
    return rows


def friends() -> list[Row]:
    """One relation that mostly holds both ways."""
    chance = random.Random(1)
    pairs = {(a, b) for a in range(30) for b in range(a) if chance.random() < 0.2}
    rows = [(f"p{a}", "knows", f"p{b}") for a, b in sorted(pairs)]
    return rows + [(o, r, s) for s, r, o in rows if chance.random() < 0.7]


def written(folder: Path, rows: Iterable[Row]) -> Path:
    file = folder / "mine.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    return file


def made(kg: Path, out: Path) -> RuleQADataset:
    """What the command builds from a graph, shown to be answerable."""
    assert main(["build", "--kg", str(kg), "--out", str(out), "--quiet"]) == 0
    dataset = RuleQADataset.load(out)
    assert check_leakage(dataset) == dataset.statistics["leakage"]
    queries = dataset.query_set("balanced")
    assert queries and all(dataset.rules.for_head(query.relation) for query in queries)
    pipeline = make_pipeline(preset(out, retriever="bm25", rules="guided"), dataset)
    answers = pipeline.answer(queries[:20])
    assert any(answer.text for answer in answers)
    return dataset


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(town(60), id="triples"),
        pytest.param(town(60)[:50], id="50 facts"),
        pytest.param(friends(), id="one relation"),
    ],
)
def test_a_static_graph_without_splits(rows: list[Row], tmp_path: Path) -> None:
    dataset = made(written(tmp_path, rows), tmp_path / "out")
    assert dataset.name == "mine"
    assert abs(len(dataset.corpus) - 0.8 * len(set(rows))) < 1
    assert dataset.settings["splits"] == (
        "80, 10 and 10 % of all facts, drawn by seed 0 (the graph has train)"
    )
    card = (tmp_path / "out" / "README.md").read_text()
    assert "- **Splits**: 80, 10 and 10 %" in card and "| documents \\|D\\| | " in card
    assert "paper |" not in card


@pytest.mark.parametrize("rows", [town(100, dated=True), town(100, dated=True)[::3]])
def test_a_temporal_graph_is_cut_by_time(rows: list[Row], tmp_path: Path) -> None:
    dataset = made(written(tmp_path, rows), tmp_path / "out")
    assert dataset.settings["miner"] == "tlogic"
    assert "by time" in dataset.settings["splits"]
    assert any("before every query" in line for line in dataset.statistics["leakage"])


@pytest.mark.parametrize(
    "name",
    [
        "countries_s1",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("nations", "kinship", "umls")),
    ],
)
def test_public_graphs(name: str, tmp_path: Path, graph_folder: Callable[[str], Path]) -> None:
    dataset = made(graph_folder(name), tmp_path / "out")
    assert dataset.settings["splits"] == "as the graph has them"
    assert len(dataset.rules) <= 5000
    guided = sum(bool(dataset.rules.for_head(q.relation)) for q in dataset.query_set("full"))
    assert guided > len(dataset.query_set("full")) / 2


def test_variants_and_settings_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kg = written(tmp_path, town(60))
    for variant in ("validation", "degenerate"):
        command = ["build", "--kg", str(kg), "--out", str(tmp_path / variant), "--quiet"]
        assert main([*command, "--variant", variant, "num_queries=3", "min_support=3"]) == 0
        dataset = RuleQADataset.load(tmp_path / variant)
        assert dataset.name == f"mine-{variant}"
        assert (dataset.settings["num_queries"], dataset.settings["min_support"]) == (3, 3)
    told = capsys.readouterr().out
    assert "splits: 80, 10 and 10 %" in told and "settings: miner=amie max_atoms=3 min_sup" in told
    folders = [str(tmp_path / variant) for variant in ("validation", "degenerate")]
    assert main(["table", *folders]) == 0
    shown = capsys.readouterr().out
    assert "| mine-validation | " in shown and "Where the sizes differ" not in shown


def test_splits_that_cannot_be_used_are_made_anew() -> None:
    facts = [(f"a{n}", "r", f"b{n}") for n in range(90)]
    with_test = KnowledgeGraph.from_facts(facts[:81], test=facts[81:])
    graph, words = with_splits(with_test)
    assert list(graph.test) == list(with_test.test)
    assert (len(graph.train), len(graph.valid)) == (72, 9)
    assert words.startswith("8 to 1 of the training facts, drawn by seed 0")
    leaking = KnowledgeGraph.from_facts(facts, valid=facts[:5], test=facts[5:9])
    graph, words = with_splits(leaking)
    assert [len(table) for table in graph.splits.values()] == [72, 9, 9]
    assert words.endswith("(the graph's own overlap)")
    assert len({fact for table in graph.splits.values() for fact in table}) == 90
    assert list(with_splits(leaking, seed=1)[0].test) != list(graph.test)
    dated = [(f"a{n}", "r", f"b{n}", n // 3) for n in range(90)]
    mixed = KnowledgeGraph.from_facts(dated[::2], valid=dated[1::4], test=dated[3::4])
    graph, words = with_splits(mixed)
    times = [table.timestamp for table in graph.splits.values()]
    assert times[0].max() < times[1].min() <= times[1].max() < times[2].min()  # type: ignore[union-attr]
    assert words == "80, 10 and 10 % of all facts, by time (the graph's own overlap)"
    whole = KnowledgeGraph.from_facts(dated[:60], valid=dated[60:75], test=dated[75:])
    assert with_splits(whole) == (whole, "as the graph has them")


def test_a_graph_without_rules_can_still_be_asked() -> None:
    star = KnowledgeGraph.from_facts([(f"a{n}", f"r{n % 3}", f"b{n}") for n in range(30)])
    dataset = build(None, star)
    assert not any(dataset.rules.for_head(query.relation) for query in dataset.query_set("full"))
    assert len(dataset.query_set("balanced")) == len(dataset.query_set("full")) == 3


def test_what_no_dataset_can_be_made_of() -> None:
    with pytest.raises(EmptyDataError, match=r"has 2 facts: too little to cut .* — give the spl"):
        build(None, KnowledgeGraph.from_facts([("a", "r", "b"), ("b", "r", "c")]))
    two_times = [("a", "r", f"b{n}", n % 2) for n in range(50)]
    with pytest.raises(EmptyDataError, match="facts at fewer than three times"):
        build(None, KnowledgeGraph.from_facts(two_times))


def test_every_option_reaches_the_builder(tmp_path: Path) -> None:
    World.generate(800, max_body_atoms=1).save(tmp_path / "kg")
    chosen = {
        "num_queries": 5,
        "max_atoms": 3,
        "min_support": 3,
        "min_confidence": 0.05,
        "min_head_coverage": 0.2,
        "num_rules": 7,
        "oracle_rules": 4,
        "corpus": "train+valid",
        "hold_out": 9,
        "pairs_per_query": 2,
        "balance_from": "supported",
        "degenerate_time": "keep",
    }
    given = [w for key, v in chosen.items() for w in (f"--{key.replace('_', '-')}", str(v))]
    command = ["build", "--name", "ruleqa-i", "--kg", str(tmp_path / "kg"), "--quiet", *given]
    assert main([*command, "--out", str(tmp_path / "out"), "--seed", "3"]) == 0
    loaded = RuleQADataset.load(tmp_path / "out")
    assert {key: loaded.settings[key] for key in chosen} == chosen
    assert loaded.seed == 3 and loaded.settings["variant"] == "test" and loaded.prediction
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert " ".join(f"{key}={value}" for key, value in chosen.items()) in card
    static = {"min_head_size", "min_standard_confidence"}
    assert {*chosen, "miner", *static} == set(RuleQASettings.model_fields)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["num_query=3"], "key 'num_query': unknown key — did you mean 'num_queries'"),
        (["num_queries"], "'num_queries' is not key=value"),
        (["num_queries=some"], "key 'num_queries': expected a whole number, found 'some'"),
        (["seed=1"], "key 'seed': unknown key"),
        (["num_queries=3", "num_queries=4"], "key 'num_queries': is given twice"),
        (["num_queries=0"], "key 'num_queries': 0 is out of range"),
        (["miner=tlogic"], "made of dated facts, and those of 'mine' are static"),
        (["--name", "mine"], "no benchmark is called 'mine'"),
        (["--name", "ruleqa-i"], "dated facts"),
        (["--variant", "valid"], "did you mean 'validation'"),
        (["--max-atoms", "1"], "max_atoms"),
        (["--kg", "nowhere"], "nowhere: no such file"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kg, out = written(tmp_path, town(20)), tmp_path / "out"
    named = [] if "--kg" in words else ["--kg", str(kg)]
    assert main(["build", *named, "--out", str(out), "--quiet", *words]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and message in told and told.count("\n") == 1, told
    assert not out.exists()
