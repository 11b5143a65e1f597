"""Rule files as AMIE, AnyBURL and TLogic write them, and what is wrong with others."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulerag.errors import ConfigError, DataError, DataFormatError, UnknownNameError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.mining.formats.amie import HEADER, load_amie, save_amie
from rulerag.mining.formats.files import FORMATS, detect_format, export_rules, import_rules
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality

Folder = Callable[[str], Path]
AMIE, ANYBURL = "?a  r  ?b   => ?a  h  ?b", "h(X,Y) <= r(X,Y)"
COUNTS = "\t0.5\t0.5\t0.5\t1\t2\t2\t-1"
TEMPORAL = {"temporal": True, "support": 1, "body_size": 2, "confidence": 0.5}
WALK = {
    "head_rel": 0,
    "body_rels": [1],
    "var_constraints": [],
    "conf": 0.5,
    "rule_supp": 1,
    "body_supp": 2,
}


def atom(text: str) -> Atom:
    subject, relation, object_ = text.split()
    return Atom(relation, subject, object_)


def rule(head: str, *body: str, temporal: bool = False, **quality: float) -> Rule:
    return Rule(atom(head), tuple(atom(b) for b in body), temporal, quality=RuleQuality(**quality))


@pytest.fixture(scope="module")
def mined(toy_graph: KnowledgeGraph) -> RuleBank:
    miner = AmieMiner(min_head_size=1, min_head_coverage=0.0, min_pca_confidence=0.0)
    return miner.mine(toy_graph.train)


# --- as the tools write them ---


def test_amie_cells_are_those_that_amie_writes(
    tmp_path: Path, graph_folder: Folder, reference_folder: Folder
) -> None:
    graph = KnowledgeGraph.load(graph_folder("umls"))
    save_amie(AmieMiner().mine(graph.train), tmp_path / "ours.tsv", graph)

    def cells(path: Path) -> dict[str, list[str]]:
        with open(path, encoding="utf-8") as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        assert tuple(rows[0]) == HEADER
        ids = [r.id for r in load_amie(path)]
        return {rule_id: row[1:] for rule_id, row in zip(ids, rows[1:], strict=True)}

    assert cells(tmp_path / "ours.tsv") == cells(reference_folder("amie") / "umls.tsv")


def test_amie_reading_puts_rules_in_one_form(tmp_path: Path) -> None:
    lines = [
        "?f  s  ?b  ?a  r  ?f   => ?a  h  ?b",
        "?b  r  ?a  ?a  s  ?b   => ?a  h  ?b",
        "?e  s  ?b  ?e  r  ?a   => ?a  h  ?b",
        "?a  lives in  New York   => ?a  citizen of  USA",
    ]
    (tmp_path / "a.tsv").write_text("\n".join(["\t".join(HEADER), *(x + COUNTS for x in lines)]))
    first, second, third, constants = load_amie(tmp_path / "a.tsv")
    assert first == rule("?x h ?y", "?x r ?z", "?z s ?y")
    assert second == rule("?x h ?y", "?x s ?y", "?y r ?x")
    assert third == rule("?x h ?y", "?z r ?x", "?z s ?y")
    assert constants.head == Atom("citizen of", "?x", "USA")
    assert constants.body == (Atom("lives in", "?x", "New York"),)


def test_amie_columns_of_other_versions_and_counts_that_were_not_made(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(
        "Rule\tHead Coverage\tStd Confidence\tPCA Confidence\tPositive Examples\tBody size\t"
        f"PCA Body size\tFunctional variable\r\n{AMIE}\t0.1\t0.25\t0.333333333\t1\t4\t3\t?a\r\n"
    )
    (found,) = load_amie(tmp_path / "a.tsv")
    assert found.quality == RuleQuality(1, 0.1, 1 / 4, 1 / 3, 4, 3)
    bank = RuleBank([rule("?x h ?y", "?x r ?y", support=3, pca_confidence=0.123456789)])
    save_amie(bank, tmp_path / "b.tsv")
    (found,) = load_amie(tmp_path / "b.tsv")
    assert found.quality == RuleQuality(support=3, pca_confidence=0.123456789)


def test_anyburl_lines_are_those_that_anyburl_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = (
        "1202\t1034\t0.8602329450915142\tspeaks(X,Y) <= lives(X,A), language(A,Y)\n"
        "7\t3\t0.42857142857142855\tspeaks(X,english) <= lives(X,new_york)\n"
        "9\t3\t0.3333333333333333\tspeaks(X,Y) <= Appeal_(such_as_aid,_or_more)(Y,X)\n"
    )
    path = tmp_path / "rules-100"
    path.write_text("9\t3\t0.3\tspeaks(X,english) <= \n" + text)
    bank = import_rules(path, "anyburl")
    assert "1 rules without a body" in caplog.text
    assert list(bank) == [
        rule("?x speaks ?y", "?x lives ?z", "?z language ?y"),
        rule("?x speaks english", "?x lives new_york"),
        rule("?x speaks ?y", "?y Appeal_(such_as_aid,_or_more) ?x"),
    ]
    assert next(iter(bank)).quality == RuleQuality(
        support=1034, standard_confidence=1034 / 1202, body_size=1202
    )
    export_rules(bank, tmp_path / "again", "anyburl")
    assert (tmp_path / "again").read_text() == text


def test_tlogic_rules_are_walks_in_time_order(
    tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    ids, count = toy_temporal_graph.relations.id, len(toy_temporal_graph.relations)
    visit, criticise = ids("visit"), ids("criticise")
    body = [criticise, count + criticise, visit]
    forward = {**WALK, "head_rel": visit, "body_rels": body, "var_constraints": [[0, 2]]}
    inverse = {**WALK, "head_rel": count + visit, "body_rels": [count + criticise]}
    content = {str(visit): [forward], str(count + visit): [inverse]}
    (tmp_path / "rules.json").write_text(json.dumps(content))
    bank = import_rules(tmp_path / "rules.json", graph=toy_temporal_graph)
    walk = "?x criticise ?z", "?x criticise ?z", "?x visit ?y"
    assert list(bank) == [
        rule("?x visit ?y", *walk, temporal=True),
        rule("?y visit ?x", "?y criticise ?x", temporal=True),
    ]
    assert {(one.quality, one.miner) for one in bank} == {
        (RuleQuality(support=1, body_size=2, confidence=0.5), "tlogic")
    }
    export_rules(bank, tmp_path / "again.json", "tlogic", toy_temporal_graph)
    assert json.loads((tmp_path / "again.json").read_text()) == content
    # A body that walks backwards is one of the inverse head.
    back = RuleBank([rule("?x visit ?y", "?y visit ?z", "?x visit ?z", **TEMPORAL)])
    export_rules(back, tmp_path / "back.json", "tlogic", toy_temporal_graph)
    (row,) = json.loads((tmp_path / "back.json").read_text())[str(visit + count)]
    assert row["body_rels"] == [visit, visit + count]


# --- what is wrong, and where ---


@pytest.mark.parametrize(
    ("format", "line", "words", "key"),
    [
        ("amie", f"{AMIE}\t0.1", "expected 8 columns, found 2", None),
        ("amie", f"?a r ?b => ?a h ?b{COUNTS}", "is not a rule", "Rule"),
        ("amie", f"?a  r  ?b{COUNTS}", "is not a rule", "Rule"),
        ("amie", f"{AMIE}\t0.1\t0.1\t0.1\tone\t9\t9\t-1", "whole number", "support"),
        ("amie", f"{AMIE}\tx\t0.1\t0.1\t1\t9\t9\t-1", "a number", "head coverage"),
        ("amie", f"{AMIE}\t0.1\t0.1\tnan\t1\t9\t9\t-1", "a number", "pca confidence"),
        ("anyburl", "1\t1\t0.5", "expected 4 columns, found 3", None),
        ("anyburl", f"x\t1\t0.5\t{ANYBURL}", "whole number", "predicted"),
        ("anyburl", f"1\t1\tinf\t{ANYBURL}", "expected a number", "confidence"),
        ("anyburl", "1\t1\t0.5\th(X,Y) r(X,Y)", "is not a rule", None),
        ("anyburl", "1\t1\t0.5\th(X,Y) <= r(X)", "is not an atom", None),
        ("anyburl", "1\t1\t0.5\th(X,Y), g(X,Y) <= r(X,Y)", "not one atom", None),
    ],
)
def test_malformed_lines_are_named(
    tmp_path: Path, format: str, line: str, words: str, key: str | None
) -> None:
    good = ["\t".join(HEADER), AMIE + COUNTS] if format == "amie" else 2 * [f"2\t1\t0.5\t{ANYBURL}"]
    path = tmp_path / "rules"
    path.write_text("\n".join([*good, line]) + "\n")
    with pytest.raises(DataFormatError, match=words) as caught:
        import_rules(path, format)
    assert (caught.value.path, caught.value.line, caught.value.key) == (path, 3, key)


@pytest.mark.parametrize(
    ("content", "words", "key"),
    [
        ({"head_rel": 6}, "ids are 0 to 2, their inverses 3 to 5", "0[1].head_rel"),
        ({"body_rels": []}, "list of relation ids", "0[1].body_rels"),
        ({"body_rels": ["0"]}, "no relation id", "0[1].body_rels"),
        ({"var_constraints": [[0, 2]]}, "places from 0 to 1", "0[1].var_constraints"),
        ({"var_constraints": 3}, "list of lists", "0[1].var_constraints"),
        ({"conf": "high"}, "from 0 to 1", "0[1].conf"),
        ({"rule_supp": None}, "whole number", "0[1].rule_supp"),
        ("[]", "an object of relation ids", None),
        ('{"0": 5}', "list of rules", "0"),
        ('{"0": [5]}', "expected a rule", "0[0]"),
        ('{"0": [\n{]}', "not JSON", None),
    ],
)
def test_malformed_tlogic_rules_are_named(
    content: Any, words: str, key: str | None, tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    path = tmp_path / "rules.json"
    text = content if isinstance(content, str) else json.dumps({"0": [WALK, WALK | content]})
    path.write_text(text)
    with pytest.raises(DataFormatError, match=words) as caught:
        import_rules(path, "tlogic", toy_temporal_graph)
    assert (caught.value.path, caught.value.key) == (path, key)
    assert caught.value.line == (2 if words == "not JSON" else None)


def named(name: str, head: str = "h") -> Rule:
    """A rule with relations of some names, and the counts that every format needs."""
    quality = RuleQuality(support=1, body_size=2)
    return Rule(Atom(head, "?x", "?y"), (Atom(name, "?x", "?y"),), quality=quality)


@pytest.mark.parametrize(
    ("format", "unfit", "words"),
    [
        *(
            ("amie", named(name), "cannot stand in AMIE's format")
            for name in ("two  blanks", " edge", "tab\there", "a=>b", "")
        ),
        ("amie", rule("?x h ?y", "?x r ?y", **TEMPORAL), "is temporal"),
        ("anyburl", rule("?x h ?y", "?x r ?y", **TEMPORAL), "is temporal"),
        ("anyburl", rule("?x h ?y", "?x r ?y", support=1), "no support or body size"),
        ("anyburl", named("tab\t"), "cannot stand in AnyBURL's format"),
        ("anyburl", rule("?x h Y", "?x r ?z", support=1, body_size=2), "'Y' cannot stand"),
        ("anyburl", rule("?x h a,b", "?x r ?z", support=1, body_size=2), "'a,b' cannot stand"),
        ("anyburl", named("r", "h(X,Y) <= g"), "cannot stand in AnyBURL's format"),
        ("tlogic", rule("?x visit ?y", "?x visit ?y"), "is static"),
        ("tlogic", rule("?x visit ?y", "?x visit ?y", temporal=True), "no temporal confidence"),
        ("tlogic", rule("?x visit ?y", "?x visit ?y", "?x visit ?y", **TEMPORAL), "no walk"),
        ("tlogic", rule("?x visits ?y", "?x visit ?y", **TEMPORAL), "'visit'"),
    ],
)
def test_rules_that_a_format_cannot_hold(
    format: str, unfit: Rule, words: str, tmp_path: Path, toy_temporal_graph: KnowledgeGraph
) -> None:
    with pytest.raises((DataFormatError, UnknownNameError), match=words):
        export_rules(RuleBank([unfit]), tmp_path / "rules", format, toy_temporal_graph)
    assert not (tmp_path / "rules").exists()


# --- any format ---


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_told_from_its_content(
    format: str, tmp_path: Path, mined: RuleBank, toy_graph: KnowledgeGraph
) -> None:
    dated = RuleBank([rule("?x lives_in ?y", "?x born_in ?y", **TEMPORAL)])
    bank = dated if format == "tlogic" else mined
    for name in ("rules", "rules.gz"):
        export_rules(bank, tmp_path / name, format, toy_graph)
        assert detect_format(tmp_path / name) == format
        assert list(import_rules(tmp_path / name, graph=toy_graph)) == list(bank)
    packed = gzip.decompress((tmp_path / "rules.gz").read_bytes())
    assert packed == (tmp_path / "rules").read_bytes()
    export_rules(RuleBank(), tmp_path / "empty", format, toy_graph)
    assert len(import_rules(tmp_path / "empty", format, toy_graph)) == 0


@pytest.mark.parametrize(
    ("error", "words", "content", "format"),
    [
        (ConfigError, "did you mean 'anyburl'", "", "anyburi"),
        (ConfigError, "ids in a graph", '{"0": []}', "auto"),
        (DataError, "cannot be read", None, "auto"),
        (DataFormatError, "name the format", "subject\trelation\tobject\n", "auto"),
        (DataFormatError, "no AMIE header", AMIE + COUNTS, "amie"),
    ],
)
def test_files_that_are_not_read(
    tmp_path: Path, error: type[Exception], words: str, content: str | None, format: str
) -> None:
    if content is not None:
        (tmp_path / "rules").write_text(content)
    with pytest.raises(error, match=words):
        import_rules(tmp_path / "rules", format)


def test_texts_take_labels_from_the_graph(graph_folder: Folder, reference_folder: Folder) -> None:
    graph = KnowledgeGraph.load(graph_folder("nell995"))
    bank = import_rules(reference_folder("amie") / "nell995.tsv", graph=graph)
    assert bank.for_head("concept:persongraduatedschool")[0].text.endswith(
        "leads to [Entity 1, person graduated school, Entity 2]"
    )
