"""New facts in a dataset: the same files as a build from all facts, or none of them changed."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rulerag.errors import DataError, DataFormatError, FingerprintError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.kg.grounding.statements import Statements
from rulerag.ruleqa.builder import build
from rulerag.ruleqa.check import check_leakage
from rulerag.ruleqa.dataset import RuleQADataset
from rulerag.ruleqa.updates import DatasetUpdate, update
from rulerag.synthetic.world import World
from rulerag.types import Document, Fact

CONTENT = ("corpus.jsonl", "rules.jsonl")


def cut(graph: KnowledgeGraph, rows: Sequence[int] | slice) -> KnowledgeGraph:
    """The graph with some of its training facts."""
    numbers = np.arange(len(graph.train))[rows]
    splits = {**graph.splits, "train": graph.train.select(numbers)}
    return KnowledgeGraph(
        graph.entities, graph.relations, splits, calendar=graph.calendar, name=graph.name
    )


def facts_of(graph: KnowledgeGraph, rows: slice) -> KnowledgeGraph:
    """Some of the training facts, and nothing else."""
    alone = cut(graph, rows)
    alone.splits = {"train": alone.train}
    return alone


@pytest.fixture(scope="module", params=["temporal", "static"])
def world(request: pytest.FixtureRequest) -> KnowledgeGraph:
    return World.generate(3000, kind=request.param).graph


@pytest.fixture(scope="module")
def before(world: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset without the last hundred training facts."""
    folder = tmp_path_factory.mktemp("before") / "dataset"
    build(None, cut(world, slice(0, -100))).save(folder)
    return folder


@pytest.fixture
def folder(before: Path, tmp_path: Path) -> Path:
    shutil.copytree(before, tmp_path / "dataset")
    return tmp_path / "dataset"


def test_in_one_go_or_in_three_it_is_what_a_build_gives(
    world: KnowledgeGraph, folder: Path, tmp_path: Path
) -> None:
    made = build(None, world)
    made.save(tmp_path / "built")
    shutil.copytree(folder, tmp_path / "other")
    done = update(folder, facts_of(world, slice(-100, None)))
    assert (done.added, done.known) == (100, 0)
    for part in (slice(-100, -60), slice(-60, -59), slice(-59, None)):
        update(tmp_path / "other", facts_of(world, part))
    for name in CONTENT:
        wanted = (tmp_path / "built" / name).read_bytes()
        assert (folder / name).read_bytes() == wanted
        assert (tmp_path / "other" / name).read_bytes() == wanted
    opened = RuleQADataset.load(folder)
    assert opened.labels["entities"].items() <= made.labels["entities"].items()
    assert check_leakage(opened)
    query = next(q for q in opened.queries["test"])
    stated = [Statements(one.corpus).of(query) for one in (opened, made)]
    assert stated[0] == stated[1]


def test_other_thresholds_and_chains_follow_too(tmp_path: Path) -> None:
    graph = World.generate(1500).graph
    changes = {"max_atoms": 3, "min_support": 1}
    build(None, cut(graph, slice(0, -30)), changes=changes).save(tmp_path / "dataset")
    build(None, graph, changes=changes).save(tmp_path / "built")
    update(tmp_path / "dataset", facts_of(graph, slice(-30, None)))
    short = [
        {rule: rule.quality for rule in RuleQADataset.load(place).rules if len(rule.body) == 1}
        for place in (tmp_path / "dataset", tmp_path / "built")
    ]
    # Chains are sampled, and samples depend on the order of names.
    assert all(short[1].get(rule, quality) == quality for rule, quality in short[0].items())
    assert any(len(rule.body) == 2 for rule in RuleQADataset.load(tmp_path / "dataset").rules)


def test_known_facts_are_left_out(world: KnowledgeGraph, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = update(folder, facts_of(world, slice(0, 50)))
    assert (done.added, done.known, done.rules[0]) == (0, 50, done.rules[1])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    done = update(folder, facts_of(world, slice(-110, -90)))
    assert (done.added, done.known) == (10, 10)


def test_new_names_join_and_known_ones_go_by_name_or_label(tmp_path: Path) -> None:
    chance = random.Random(0)
    rows = [(f"p_{n}", "works_in", f"town_{chance.randrange(5)}") for n in range(60)]
    rows += [(s, "lives_in", o) for s, _, o in rows[:50]]
    build(None, KnowledgeGraph.from_facts(rows)).save(tmp_path / "dataset")
    corpus = RuleQADataset.load(tmp_path / "dataset").corpus
    known = corpus[0].facts[0]
    new = [
        (known.subject.replace("_", " "), known.relation.replace("_", " "), known.object),
        ("p 1", "visits", "New_Place"),
        ("P_1", "visits", "New_Place"),
    ]
    done = update(tmp_path / "dataset", KnowledgeGraph.from_facts(new))
    assert (done.added, done.known, done.entities, done.relations) == (2, 1, 2, 1)
    opened = RuleQADataset.load(tmp_path / "dataset")
    assert [one.text for one in opened.corpus[-2:]] == [
        "p 1 visits New Place.",
        "P 1 (2) visits New Place.",  # answers could not tell it from "p 1"
    ]
    assert opened.corpus[-2].facts == (Fact("p_1", "visits", "New_Place"),)
    assert opened.corpus[-1].id == f"d{len(opened.corpus):06d}"


def test_questions_that_are_told_now_go(world: KnowledgeGraph, folder: Path) -> None:
    asked = RuleQADataset.load(folder)
    query = asked.queries["test"][0]
    name = world.entities.name_of_label(query.answers[0])
    fact = Fact(query.subject, query.relation, name, query.timestamp)
    told = KnowledgeGraph.from_facts([fact], calendar=world.calendar)
    done = update(folder, told)
    left = RuleQADataset.load(folder)
    gone = {
        one.id
        for rows in asked.queries.values()
        for one in rows
        if one.id == query.id
        or (query.timestamp is not None and (one.timestamp or 0) <= query.timestamp)
    }
    assert done.questions[0] - done.questions[1] == len(gone) > 0
    kept = {one.id for rows in left.queries.values() for one in rows}
    assert not gone & kept
    assert not gone & {name for split in asked.queries for name in left.qrels(split)}
    assert check_leakage(left)


def test_a_source_stands_for_its_fact(world: KnowledgeGraph, folder: Path) -> None:
    new = facts_of(world, slice(-2, None))
    fact = new.train.fact(0)
    update(folder, new, sources=[Document("news#1@0-9", "It was said.", (fact,), "news")])
    assert RuleQADataset.load(folder).corpus[-2].text == "It was said."


def test_dates_are_read_by_the_calendar_of_the_dataset(tmp_path: Path) -> None:
    graph = World.generate(1500).graph
    build(None, cut(graph, slice(0, -30))).save(tmp_path / "dataset")
    lines = [
        f"{fact.subject};{fact.relation};{fact.object};"
        f"{'.'.join(reversed(graph.calendar.format(fact.timestamp or 0).split('-')))}\n"
        for fact in facts_of(graph, slice(-30, None)).train
    ]
    table = tmp_path / "new.csv"
    table.write_text("subject;relation;object;date\n" + "".join(lines), encoding="utf-8")
    update(tmp_path / "dataset", KnowledgeGraph.load(table))
    build(None, graph).save(tmp_path / "built")
    for name in CONTENT:
        assert (tmp_path / "dataset" / name).read_bytes() == (
            tmp_path / "built" / name
        ).read_bytes()


# --- what is refused, and what a kill leaves ------------------------------------------------------


def test_dated_and_undated_facts_do_not_mix(world: KnowledgeGraph, folder: Path) -> None:
    time = () if world.is_temporal else (3,)
    with pytest.raises(DataFormatError, match="dated"):
        update(folder, KnowledgeGraph.from_facts([("a", "b", "c", *time)]))


def test_a_changed_corpus_is_refused(world: KnowledgeGraph, folder: Path) -> None:
    with open(folder / "corpus.jsonl", "a", encoding="utf-8") as file:
        file.write('{"_id": "mine", "text": "mine"}\n')
    with pytest.raises(FingerprintError, match=r"corpus\.jsonl"):
        update(folder, facts_of(world, slice(-9, None)))


def test_only_a_built_dataset_of_its_training_facts_grows(tmp_path: Path) -> None:
    graph = World.generate(1500).graph
    new = facts_of(graph, slice(0, 5))
    build(None, graph, changes={"corpus": "train+valid"}).save(tmp_path / "wide")
    with pytest.raises(DataError, match=r"corpus=train\+valid"):
        update(tmp_path / "wide", new)
    RuleQADataset(corpus=[Document("a", "b")], queries={}).save(tmp_path / "texts")
    with pytest.raises(DataError, match="not built from a graph"):
        update(tmp_path / "texts", new)
    with pytest.raises(DataError, match="no such folder"):
        update(tmp_path / "none", new)
    assert not (tmp_path / "none").exists()


_KILLED = """
import os, sys
from pathlib import Path
from rulerag.kg import KnowledgeGraph
from rulerag.ruleqa import update

work, at = getattr(Path, sys.argv[3]), int(sys.argv[4])
calls = []
def killed(self, target):
    calls.append(target)
    if len(calls) == at:
        os._exit(9)
    return work(self, target)
setattr(Path, sys.argv[3], killed)
update(sys.argv[1], KnowledgeGraph.load(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("step", "at", "finished"), [("rename", 1, False), ("replace", 1, True), ("replace", 3, True)]
)
def test_a_killed_update_leaves_the_old_files_or_all_new_ones(
    tmp_path: Path, step: str, at: int, *, finished: bool
) -> None:
    graph = World.generate(1000).graph
    place = tmp_path / "dataset"
    build(None, cut(graph, slice(0, -30))).save(place)
    old = (place / "corpus.jsonl").read_bytes()
    new = tmp_path / "new.tsv"
    new.write_text(
        "".join(
            "\t".join([*fact[:3], graph.calendar.format(fact.timestamp or 0)]) + "\n"
            for fact in facts_of(graph, slice(-30, None)).train
        )
    )
    command = [sys.executable, "-c", _KILLED, str(place), str(new), step, str(at)]
    assert subprocess.run(command, check=False).returncode == 9
    opened = RuleQADataset.load(place)  # verified
    whole = build(None, graph)
    assert len(opened.corpus) == len(whole.corpus) - (0 if finished else 30)
    assert ((place / "corpus.jsonl").read_bytes() == old) is not finished
    done = update(place, KnowledgeGraph.load(new))
    assert done == DatasetUpdate(
        added=0 if finished else 30,
        known=30 if finished else 0,
        entities=done.entities,
        relations=done.relations,
        documents=(len(opened.corpus), len(whole.corpus)),
        rules=done.rules,
        questions=done.questions,
    )
    assert RuleQADataset.load(place).corpus[-1] == whole.corpus[-1]
