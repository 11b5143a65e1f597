"""TLogic's rule files: read as TLogic writes them, written without loss."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import DataFormatError, UnknownNameError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.formats.tlogic import load_tlogic, save_tlogic
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality

Folder = Callable[[str], Path]


def atom(text: str) -> Atom:
    subject, relation, object_ = text.split()
    return Atom(relation, subject, object_)


def rule(head: str, *body: str, temporal: bool = False, **quality: float) -> Rule:
    return Rule(atom(head), tuple(atom(b) for b in body), temporal, quality=RuleQuality(**quality))


def everything(bank: RuleBank) -> list[dict[str, object]]:
    return [r.to_json() for r in bank]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ("icews14_forecasting", "icews14_r123_n200_exp_s12_rules.json"),
        ("yago", "yago_r123_n200_exp_s12_rules.json"),
    ],
)
def test_tlogic_round_trip_of_its_own_rules(
    folder: str, file: str, tmp_path: Path, graph_folder: Folder, reference_folder: Folder
) -> None:
    source = reference_folder("tlogic") / file
    graph = KnowledgeGraph.load(graph_folder(folder))
    bank = load_tlogic(source, graph)
    save_tlogic(bank, tmp_path / "rules.json", graph)
    written, read = (json.loads(p.read_text()) for p in (tmp_path / "rules.json", source))
    assert len(bank) == sum(map(len, read.values()))
    assert written == read
    assert everything(load_tlogic(tmp_path / "rules.json", graph)) == everything(bank)


def test_tlogic_rules_are_walks_in_time_order(
    tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    ids = toy_temporal_graph.relations.id
    visit, criticise, count = ids("visit"), ids("criticise"), len(toy_temporal_graph.relations)
    row = {"conf": 0.4, "rule_supp": 2, "body_supp": 5}
    forward = {
        "head_rel": visit,
        "body_rels": [criticise, count + criticise, visit],
        "var_constraints": [[0, 2]],
        **row,
    }
    inverse = {
        "head_rel": count + visit,
        "body_rels": [count + criticise],
        "var_constraints": [],
        **row,
    }
    content = {str(visit): [forward], str(count + visit): [inverse]}
    (tmp_path / "rules.json").write_text(json.dumps(content))
    first, second = load_tlogic(tmp_path / "rules.json", toy_temporal_graph)
    assert first == rule(
        "?x visit ?y", "?x criticise ?z", "?x criticise ?z", "?x visit ?y", temporal=True
    )
    assert second == rule("?y visit ?x", "?y criticise ?x", temporal=True)
    assert first.quality == RuleQuality(support=2, body_size=5, confidence=0.4)
    assert first.miner == "tlogic"
    save_tlogic(RuleBank([second, first]), tmp_path / "again.json", toy_temporal_graph)
    assert json.loads((tmp_path / "again.json").read_text()) == content


def test_tlogic_takes_a_body_that_walks_backwards_as_an_inverse_head(
    tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    quality = {"support": 1, "body_size": 2, "confidence": 0.5}
    bank = RuleBank([rule("?x visit ?y", "?y visit ?z", "?x visit ?z", temporal=True, **quality)])
    save_tlogic(bank, tmp_path / "rules.json", toy_temporal_graph)
    visit, count = toy_temporal_graph.relations.id("visit"), len(toy_temporal_graph.relations)
    (row,) = json.loads((tmp_path / "rules.json").read_text())[str(visit + count)]
    assert row["body_rels"] == [visit, visit + count]


@pytest.mark.parametrize(
    ("unfit", "words"),
    [
        (rule("?x visit ?y", "?x visit ?y"), "is static"),
        (rule("?x visit ?y", "?x visit ?y", temporal=True), "no temporal confidence"),
        (
            rule(
                "?x visit ?y",
                "?x visit ?y",
                "?x visit ?y",
                temporal=True,
                confidence=1.0,
                support=1,
                body_size=1,
            ),
            "no walk",
        ),
    ],
)
def test_tlogic_refuses_rules_that_it_cannot_hold(
    unfit: Rule, words: str, tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    with pytest.raises(DataFormatError, match=words):
        save_tlogic(RuleBank([unfit]), tmp_path / "a.json", toy_temporal_graph)


def test_tlogic_refuses_relations_of_another_graph(
    tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    quality = {"support": 1, "body_size": 2, "confidence": 0.5}
    bank = RuleBank([rule("?x visits ?y", "?x visit ?y", temporal=True, **quality)])
    with pytest.raises(UnknownNameError, match="'visit'"):
        save_tlogic(bank, tmp_path / "a.json", toy_temporal_graph)


@pytest.mark.parametrize(
    ("change", "words", "key"),
    [
        ({"head_rel": 6}, "ids are 0 to 2, their inverses 3 to 5", "0[1].head_rel"),
        ({"body_rels": []}, "list of relation ids", "0[1].body_rels"),
        ({"body_rels": ["0"]}, "no relation id", "0[1].body_rels"),
        ({"var_constraints": [[0, 2]]}, "places from 0 to 1", "0[1].var_constraints"),
        ({"var_constraints": 3}, "list of lists", "0[1].var_constraints"),
        ({"conf": "high"}, "from 0 to 1", "0[1].conf"),
        ({"rule_supp": None}, "whole number", "0[1].rule_supp"),
    ],
)
def test_tlogic_malformed_rules_are_named(
    change: dict[str, object],
    words: str,
    key: str,
    tmp_path: Path,
    toy_temporal_graph: KnowledgeGraph,
) -> None:
    good = {
        "head_rel": 0,
        "body_rels": [1],
        "var_constraints": [],
        "conf": 0.5,
        "rule_supp": 1,
        "body_supp": 2,
    }
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"0": [good, good | change]}))
    with pytest.raises(DataFormatError, match=words) as caught:
        load_tlogic(path, toy_temporal_graph)
    assert (caught.value.path, caught.value.key) == (path, key)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ('{"0": [\n{]}', "not JSON", 2),
        ("[]", "an object of relation ids", None),
        ('{"0": 5}', "list of rules", None),
        ('{"0": [5]}', "expected a rule", None),
    ],
)
def test_tlogic_wrong_files_are_named(
    text: str, words: str, line: int | None, tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(DataFormatError, match=words) as caught:
        load_tlogic(path, toy_temporal_graph)
    assert (caught.value.path, caught.value.line) == (path, line)
