"""AmieMiner against AMIE's own output and counts by hand; settings, bad input, long runs."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rulerag.errors import ConfigError, MiningError, OutputError
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.mining.formats.files import load_amie
from rulerag.parallel import ProcessBackend
from rulerag.protocols import RuleMiner
from rulerag.rules import Atom, Rule, RuleBank, rule_text
from rulerag.types import Fact

Folder = Callable[[str], Path]
EVERYTHING = {"min_head_size": 1, "min_head_coverage": 0.0, "min_pca_confidence": 0.0}


def counts(rule: Rule) -> tuple[object, ...]:
    q = rule.quality
    return (
        q.support,
        q.head_coverage,
        q.standard_confidence,
        q.pca_confidence,
        q.body_size,
        q.pca_body_size,
    )


def table(*facts: tuple[str, str, str]) -> FactTable:
    return KnowledgeGraph.from_facts([Fact(*fact) for fact in facts]).train


# --- AMIE's own output ---------------------------------------------------------------------------


@pytest.mark.parametrize("skyline", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "nations",
        pytest.param("umls", marks=pytest.mark.slow),
        pytest.param("kinship", marks=pytest.mark.slow),
        pytest.param("nell995", marks=pytest.mark.slow),
    ],
)
def test_the_same_rules_with_the_same_counts_as_amie(
    name: str, skyline: bool, graph_folder: Folder, reference_folder: Folder
) -> None:
    train = KnowledgeGraph.load(graph_folder(name)).train
    theirs = load_amie(reference_folder("amie") / f"{name}{'' if skyline else '.all'}.tsv")
    ours = AmieMiner(skyline=skyline).mine(train)
    assert {r.id: r.head for r in ours} == {r.id: r.head for r in theirs}
    for rule in theirs:
        found = ours.get(rule.id)
        # AMIE writes head coverage with six decimals; everything else follows from whole numbers.
        ours_rounded = (*counts(found)[:1], round(counts(found)[1], 6), *counts(found)[2:])
        assert ours_rounded == (*counts(rule)[:1], round(counts(rule)[1], 6), *counts(rule)[2:])


# --- by hand -------------------------------------------------------------------------------------


def test_ten_facts_by_hand(toy_graph: KnowledgeGraph) -> None:
    bank = AmieMiner(**EVERYTHING).mine(toy_graph.train)

    def found(head: str, body: Atom) -> tuple[object, ...]:
        return counts(bank.get(Rule(Atom(head, "?x", "?y"), (body,)).id))

    assert found("lives_in", Atom("born_in", "?x", "?y")) == (2, 1 / 2, 2 / 3, 2 / 3, 3, 3)
    assert found("born_in", Atom("lives_in", "?x", "?y")) == (2, 2 / 3, 1 / 2, 2 / 3, 4, 3)
    assert found("married_to", Atom("married_to", "?y", "?x")) == (2, 2 / 3, 2 / 3, 1.0, 3, 2)
    path = (Atom("married_to", "?x", "?z"), Atom("lives_in", "?z", "?y"))
    rule = bank.get(Rule(Atom("lives_in", "?x", "?y"), path).id)
    # ann and bob live where the other lives, cid where dee lives; everyone of them lives somewhere.
    assert counts(rule) == (3, 3 / 4, 1.0, 1.0, 3, 3)
    assert rule.miner == "amie"


@pytest.mark.slow
def test_text_speaks_with_labels(graph_folder: Folder) -> None:
    bank = AmieMiner().mine(KnowledgeGraph.load(graph_folder("nell995")).train)
    head = Atom("concept:persongraduatedschool", "?x", "?y")
    rule = bank.get(Rule(head, (Atom("concept:persongraduatedfromuniversity", "?x", "?y"),)).id)
    assert rule.text == (
        "[Entity 1, person graduated from university, Entity 2] leads to "
        "[Entity 1, person graduated school, Entity 2]"
    )


def test_texts_are_those_of_every_rule(graph_folder: Folder) -> None:
    relations = KnowledgeGraph.load(graph_folder("umls")).relations
    for rule in AmieMiner().mine(KnowledgeGraph.load(graph_folder("umls")).train):
        assert rule.text == rule_text(rule, relations.label)


def test_the_functional_end_is_the_object_when_there_are_more_objects() -> None:
    # "owns" has two subjects and three objects, so a pair counts against a rule when its object is
    # owned by anyone: (v, t4) is not, whereas by subjects both pairs of "holds" would count.
    facts = table(
        ("u", "owns", "t1"),
        ("v", "owns", "t2"),
        ("v", "owns", "t3"),
        ("u", "holds", "t1"),
        ("v", "holds", "t4"),
    )
    bank = AmieMiner(max_atoms=2, **EVERYTHING).mine(facts)
    owns = bank.get(Rule(Atom("owns", "?x", "?y"), (Atom("holds", "?x", "?y"),)).id)
    assert (owns.quality.pca_body_size, owns.quality.body_size) == (1, 2)
    # "holds" has as many subjects as objects: the subject decides, as in AMIE.
    holds = bank.get(Rule(Atom("holds", "?x", "?y"), (Atom("owns", "?x", "?y"),)).id)
    assert (holds.quality.pca_body_size, holds.quality.body_size) == (3, 3)


# --- order, threads, repetition ------------------------------------------------------------------


def test_the_result_depends_neither_on_threads_nor_on_the_order_of_facts(
    graph_folder: Folder,
) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    one = AmieMiner(threads=1).mine(train)
    assert [r.to_json() for r in one] == [r.to_json() for r in AmieMiner(threads=2).mine(train)]
    shuffled = train.select(np.random.default_rng(0).permutation(len(train)))
    assert one.fingerprint == AmieMiner(threads=3).mine(shuffled).fingerprint


def test_rules_come_by_head_and_confidence(graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("nations")).train
    bank = AmieMiner().mine(train)
    keys = [
        (train.relations.id(r.head.relation), -r.quality.pca_confidence, -r.quality.support)
        for r in bank
    ]
    assert keys == sorted(keys)


def test_duplicate_facts_count_once() -> None:
    facts = [("a", "r", "b"), ("a", "s", "b"), ("c", "s", "d"), ("c", "r", "d")]
    once, twice = table(*facts), table(*facts, *facts)
    assert len(twice) == 2 * len(once)
    assert (
        AmieMiner(**EVERYTHING).mine(once).fingerprint
        == AmieMiner(**EVERYTHING).mine(twice).fingerprint
    )


# --- thresholds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("max_atoms", 1, "greater than or equal to 2"),
        ("max_atoms", 9, "less than or equal to 3"),
        ("max_atoms", 2.5, "expected a whole number"),
        ("max_atoms", 4, "rules with three body atoms are not mined"),
        ("min_head_coverage", -0.1, "greater than or equal to 0"),
        ("min_head_coverage", 1.1, "less than or equal to 1"),
        ("min_pca_confidence", float("nan"), "expected a number"),
        ("min_pca_confidence", "high", "expected a number"),
        ("threads", 0, "greater than or equal to 1"),
        ("min_head_size", 0, "greater than or equal to 1"),
        ("min_support", -1, "greater than or equal to 1"),
        ("max_memory_gb", 0.0, "greater than 0"),
    ],
)
def test_thresholds_out_of_range_are_named(key: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        AmieMiner(**{key: value})
    assert caught.value.key == key
    assert repr(value) in str(caught.value)


def test_thresholds_only_remove_rules(graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    every = AmieMiner(skyline=False).mine(train)
    for key, value, keep in (
        ("min_pca_confidence", 0.5, lambda r: r.quality.pca_confidence >= 0.5),
        ("min_head_coverage", 0.2, lambda r: r.quality.head_coverage >= 0.2),
        ("min_support", 30, lambda r: r.quality.support >= 30),
        ("max_atoms", 2, lambda r: len(r.body) == 1),
    ):
        kept = [rule for rule in every if keep(rule)]
        assert 0 < len(kept) < len(every)
        assert [r.id for r in AmieMiner(skyline=False, **{key: value}).mine(train)] == [
            r.id for r in kept
        ], key


# --- bad input -----------------------------------------------------------------------------------


def test_dated_facts_are_refused(toy_temporal_graph: KnowledgeGraph) -> None:
    with pytest.raises(MiningError, match="TLogicMiner"):
        AmieMiner().mine(toy_temporal_graph.train)


@pytest.mark.parametrize("max_atoms", [2, 3])
def test_one_fact_and_no_fact_give_no_rule(
    max_atoms: int, caplog: pytest.LogCaptureFixture
) -> None:
    one = table(("a", "r", "b"))
    assert len(AmieMiner(max_atoms=max_atoms, **EVERYTHING).mine(one)) == 0
    assert len(AmieMiner(max_atoms=max_atoms, **EVERYTHING).mine(one.select(np.arange(0)))) == 0
    with caplog.at_level(logging.WARNING, "rulerag.mining.amie.miner"):
        assert len(AmieMiner(max_atoms=max_atoms).mine(one)) == 0
    assert "100 facts" in caplog.text


def test_one_loop_is_its_own_inverse() -> None:
    bank = AmieMiner(max_atoms=2, **EVERYTHING).mine(table(("a", "r", "a")))
    assert [r.body for r in bank] == [(Atom("r", "?y", "?x"),)]


def test_a_relation_that_occurs_once_is_no_head_but_may_be_a_body(
    toy_graph: KnowledgeGraph,
) -> None:
    facts = table(("a", "r", "b"), ("c", "r", "d"), ("a", "rare", "b"))
    bank = AmieMiner(min_head_size=2, min_head_coverage=0.1, min_pca_confidence=0.0).mine(facts)
    assert bank.head_relations == ["r"]
    assert Rule(Atom("r", "?x", "?y"), (Atom("rare", "?x", "?y"),)) in bank


def test_too_little_memory_is_refused_with_the_numbers(graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    with pytest.raises(MiningError, match=r"needs about 0\.\d\d GB and 0\.01 GB is allowed"):
        AmieMiner(max_memory_gb=0.01).mine(train)
    assert len(AmieMiner(max_memory_gb=1.0).mine(train)) == 7761


# --- long runs -----------------------------------------------------------------------------------


def test_an_interrupted_run_resumes_by_relation(
    tmp_path: Path, graph_folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    expected = AmieMiner().mine(train).fingerprint
    miner = AmieMiner(checkpoint=tmp_path)
    assert miner.mine(train).fingerprint == expected
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) > 50
    for file in files[::2]:
        file.unlink()
    files[1].write_bytes(files[1].read_bytes()[:20])
    untouched = {file: file.stat().st_mtime_ns for file in files[3::2]}
    with caplog.at_level(logging.WARNING, "rulerag.mining.runtime.tasks"):
        assert miner.mine(train).fingerprint == expected
    assert files[1].name in caplog.text
    assert {file: file.stat().st_mtime_ns for file in untouched} == untouched
    # Another setting must not read these counts.
    other = AmieMiner(min_head_coverage=0.2)
    resumed = AmieMiner(min_head_coverage=0.2, checkpoint=tmp_path)
    assert resumed.mine(train).fingerprint == other.mine(train).fingerprint
    assert len(list(tmp_path.iterdir())) == 2


def test_a_checkpoint_that_cannot_be_written_is_named(
    tmp_path: Path, toy_graph: KnowledgeGraph
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OutputError, match="cannot be written"):
        AmieMiner(checkpoint=tmp_path / "file" / "below", **EVERYTHING).mine(toy_graph.train)


def test_progress_shows_bars(toy_graph: KnowledgeGraph, capsys: pytest.CaptureFixture[str]) -> None:
    AmieMiner(**EVERYTHING).mine(toy_graph.train)
    assert capsys.readouterr().err == ""
    AmieMiner(progress=True, **EVERYTHING).mine(toy_graph.train)
    assert "relations" in capsys.readouterr().err


# --- the house -----------------------------------------------------------------------------------


def test_it_is_a_rule_miner() -> None:
    assert isinstance(AmieMiner(), RuleMiner)
    assert isinstance(AmieMiner(max_atoms=2).mine(table(("a", "r", "b"))), RuleBank)


def test_one_atom_bodies_need_no_compiler() -> None:
    script = """
import sys
from rulerag import AmieMiner, KnowledgeGraph
facts = [(f"e{i}", relation, f"e{i // 2}") for i in range(300) for relation in ("r", "s")]
bank = AmieMiner(max_atoms=2).mine(KnowledgeGraph.from_facts(facts).train)
print(len(bank), "numba" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["2", "False"]


def test_processes_give_what_threads_give(graph_folder: Folder, tmp_path: Path) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    settings = {"min_head_coverage": 0.2}
    expected = [rule.to_json() for rule in AmieMiner(**settings, threads=2).mine(train)]
    processes = AmieMiner(**settings, backend=ProcessBackend(2), checkpoint=tmp_path)
    assert [rule.to_json() for rule in processes.mine(train)] == expected
    assert len(list(tmp_path.rglob("*.npz"))) > 50
    assert [rule.to_json() for rule in processes.mine(train)] == expected
