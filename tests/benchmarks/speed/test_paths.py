"""Each hot path on a size that takes no time: both ways give the same, and the table goes on."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.speed import paths
from benchmarks.speed.__main__ import main
from benchmarks.speed.baselines import algorithm_1, count_amie_rules, count_temporal_rules
from benchmarks.speed.generation import requests, subsets
from benchmarks.speed.timing import HOT_PATHS, HotPath, Timing
from rulerag.errors import DataError
from rulerag.io import read_json, read_text
from rulerag.mining.amie import AmieMiner
from rulerag.mining.temporal import TLogicMiner
from rulerag.synthetic import World
from tests.fakes import brute_force, subset_of

SMALL: dict[str, Callable[[], Timing]] = {
    "lattice": lambda: paths.valid_rules("{0}", 8, lambda kept: 0 in kept),
    "search": lambda: paths.searched(300, 16, queries=40, depth=20),
    "encoding": lambda: next(paths.encoding(100, layers=1, width=32)),
    "rule-guided": lambda: paths.read("few", requests(6), sample=2, width=32, layers=1),
    "few-shot": lambda: paths.read(
        "few", requests(6), cases=requests(3), sample=2, width=32, layers=1
    ),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", SMALL)
def test_a_path_is_compared(name: str) -> None:
    one = SMALL[name]()
    assert one.count > 0 and one.ratio == one.baseline / one.seconds > 0


@pytest.mark.slow
def test_a_training_step_is_compared() -> None:
    (one,) = paths.training(1500, steps=2)
    assert one.ratio > 0


def test_groundings_are_those_of_the_plain_loop() -> None:
    graph = World.generate(800, kind="static", seed=1).graph
    bank = AmieMiner().mine(graph.train)
    asked = list({(fact.subject, fact.relation) for fact in graph.train})[:50]
    assert paths.grounded(graph, bank, asked).count == 50


def test_plain_counts_are_those_of_the_miners() -> None:
    static = World.generate(800, kind="static", seed=1).graph.train
    every = AmieMiner(skyline=False, min_head_size=20)
    assert count_amie_rules(static, min_head_size=20) == len(every.mine(static)) > 0
    dated = World.generate(800, seed=1).graph.train
    every_dated = TLogicMiner(min_confidence=0, min_support=1)
    assert count_temporal_rules(dated) == len(every_dated.mine(dated)) > 0


def test_the_transcription_is_the_algorithm() -> None:
    chance = random.Random(0)
    for _ in range(100):
        size = chance.randrange(6)
        truth = {subset_of(m): chance.random() < 0.8 for m in range(1 << size)}
        valid, _ = brute_force(size, lambda m, t=truth: t[subset_of(m)], "retention")
        assert algorithm_1(range(size), truth.__getitem__) == valid


def test_subsets_keep_the_order_of_the_documents() -> None:
    (request,) = requests(1)
    made = subsets(request, 3)
    assert len(made) == 8 and [d.id for d in made[5].documents] == ["d0-0", "d0-2"]


def test_results_that_differ_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = World.generate(300, kind="static", seed=1).graph
    monkeypatch.setattr(paths, "_graph", lambda _: graph)
    with pytest.raises(DataError, match="kinship: the two ways do not give the same"):
        paths.mined("kinship", AmieMiner(threads=1), lambda _: 1)


def test_the_table_keeps_what_was_measured_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (Timing("c", "queries", 4, seconds, 0.5) for seconds in (0.25, 0.1))
    for name, timing in (("encoding", one), ("mining", two)):
        monkeypatch.setitem(HOT_PATHS, name, HotPath("by hand", lambda t=timing: iter([t])))
        assert main([name, "--out", str(tmp_path)]) == 0
    rows = read_json(tmp_path / "ratios.json")
    assert list(rows) == ["mining", "encoding"] and rows["encoding"][0]["ratio"] == 2
    row = "| encoding | c | 4 queries | 250 | 500 | 2.00 | by hand |"
    assert row in read_text(tmp_path / "ratios.md")
    assert main(["lattces"]) == 2
    assert "did you mean 'lattice'" in capsys.readouterr().err
