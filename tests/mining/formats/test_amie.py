"""AMIE's rule files: read as AMIE writes them, written without loss."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import DataFormatError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.mining.formats.amie import HEADER, load_amie, save_amie
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality

Folder = Callable[[str], Path]
ANYTHING = {"min_head_size": 1, "min_head_coverage": 0.0, "min_pca_confidence": 0.0}


def atom(text: str) -> Atom:
    subject, relation, object_ = text.split()
    return Atom(relation, subject, object_)


def rule(head: str, *body: str, temporal: bool = False, **quality: float) -> Rule:
    return Rule(atom(head), tuple(atom(b) for b in body), temporal, quality=RuleQuality(**quality))


def everything(bank: RuleBank) -> list[dict[str, object]]:
    return [r.to_json() for r in bank]


@pytest.fixture(scope="module")
def mined(toy_graph: KnowledgeGraph) -> RuleBank:
    return AmieMiner(**ANYTHING).mine(toy_graph.train)


def test_amie_round_trip_keeps_every_count(
    mined: RuleBank, tmp_path: Path, toy_graph: KnowledgeGraph
) -> None:
    save_amie(mined, tmp_path / "rules.tsv", toy_graph)
    assert everything(load_amie(tmp_path / "rules.tsv", toy_graph)) == everything(mined)


def test_amie_round_trip_of_large_heads_keeps_head_coverage(
    tmp_path: Path, graph_folder: Folder
) -> None:
    # Six decimals do not tell 15,174 facts from 15,175; more are written where they are needed.
    graph = KnowledgeGraph.load(graph_folder("nell995"))
    bank = AmieMiner().mine(graph.train)
    save_amie(bank, tmp_path / "rules.tsv", graph)
    assert everything(load_amie(tmp_path / "rules.tsv", graph)) == everything(bank)


@pytest.mark.parametrize("name", ["umls", "kinship"])
def test_amie_cells_are_those_that_amie_writes(
    name: str, tmp_path: Path, graph_folder: Folder, reference_folder: Folder
) -> None:
    graph = KnowledgeGraph.load(graph_folder(name))
    theirs = reference_folder("amie") / f"{name}.tsv"
    save_amie(AmieMiner().mine(graph.train), tmp_path / "ours.tsv", graph)

    def cells(path: Path) -> dict[str, list[str]]:
        with open(path, encoding="utf-8") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        assert tuple(rows[0]) == HEADER
        ids = [r.id for r in load_amie(path)]
        return {rule_id: row[1:] for rule_id, row in zip(ids, rows[1:], strict=True)}

    assert cells(tmp_path / "ours.tsv") == cells(theirs)


def test_amie_reading_puts_rules_in_one_form(tmp_path: Path) -> None:
    counts = "\t0.5\t0.5\t0.5\t1\t2\t2\t-1\n"
    lines = [
        "?f  s  ?b  ?a  r  ?f   => ?a  h  ?b",
        "?b  r  ?a  ?a  s  ?b   => ?a  h  ?b",
        "?e  s  ?b  ?e  r  ?a   => ?a  h  ?b",
        "?a  lives in  New York   => ?a  citizen of  USA",
    ]
    (tmp_path / "a.tsv").write_text("\t".join(HEADER) + "\n" + "".join(x + counts for x in lines))
    first, second, third, constants = load_amie(tmp_path / "a.tsv")
    assert first == rule("?x h ?y", "?x r ?z", "?z s ?y")
    assert second == rule("?x h ?y", "?x s ?y", "?y r ?x")
    assert third == rule("?x h ?y", "?z r ?x", "?z s ?y")
    assert constants.head == Atom("citizen of", "?x", "USA")
    assert constants.body == (Atom("lives in", "?x", "New York"),)


def test_amie_columns_of_other_versions_are_understood(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(
        "Rule\tHead Coverage\tStd Confidence\tPCA Confidence\tPositive Examples\tBody size\t"
        "PCA Body size\tFunctional variable\r\n"
        "?a  r  ?b   => ?a  h  ?b\t0.1\t0.25\t0.333333333\t1\t4\t3\t?a\r\n"
    )
    (found,) = load_amie(tmp_path / "a.tsv")
    assert found.quality == RuleQuality(1, 0.1, 1 / 4, 1 / 3, 4, 3)


def test_amie_counts_that_were_not_made_stay_empty(tmp_path: Path) -> None:
    bank = RuleBank([rule("?x h ?y", "?x r ?y", support=3, pca_confidence=0.123456789)])
    save_amie(bank, tmp_path / "a.tsv")
    (found,) = load_amie(tmp_path / "a.tsv")
    assert found.quality == RuleQuality(support=3, pca_confidence=0.123456789)


@pytest.mark.parametrize(
    ("line", "words", "key"),
    [
        ("?a  r  ?b   => ?a  h  ?b\t0.1", "expected 8 columns, found 2", None),
        ("?a r ?b => ?a h ?b\t0.1\t0.1\t0.1\t1\t9\t9\t-1", "is not a rule", "Rule"),
        ("?a  r  ?b\t0.1\t0.1\t0.1\t1\t9\t9\t-1", "is not a rule", "Rule"),
        ("?a  r  ?b   => ?a  h  ?b\t0.1\t0.1\t0.1\tone\t9\t9\t-1", "whole number", "support"),
        ("?a  r  ?b   => ?a  h  ?b\tx\t0.1\t0.1\t1\t9\t9\t-1", "a number", "head coverage"),
        ("?a  r  ?b   => ?a  h  ?b\t0.1\t0.1\tnan\t1\t9\t9\t-1", "a number", "pca confidence"),
    ],
)
def test_amie_malformed_lines_are_named(
    tmp_path: Path, line: str, words: str, key: str | None
) -> None:
    good = "?a  r  ?b   => ?a  h  ?b\t0.1\t0.1\t0.1\t1\t9\t9\t-1"
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(["\t".join(HEADER), good, line]) + "\n")
    with pytest.raises(DataFormatError, match=words) as caught:
        load_amie(path)
    assert (caught.value.path, caught.value.line, caught.value.key) == (path, 3, key)


def test_amie_without_a_header_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("?a  r  ?b   => ?a  h  ?b\t0.1\t0.1\t0.1\t1\t9\t9\t-1\n")
    with pytest.raises(DataFormatError, match="no AMIE header") as caught:
        load_amie(tmp_path / "a.tsv")
    assert caught.value.line == 1


@pytest.mark.parametrize("name", ["two  blanks", " edge", "tab\there", "a=>b", ""])
def test_amie_refuses_names_that_it_could_not_read_back(name: str, tmp_path: Path) -> None:
    bank = RuleBank([Rule(Atom("h", "?x", "?y"), (Atom(name, "?x", "?y"),))])
    with pytest.raises(DataFormatError, match="cannot stand in AMIE's format"):
        save_amie(bank, tmp_path / "a.tsv")
    assert not (tmp_path / "a.tsv").exists()
