"""Rule files of AMIE, AnyBURL and TLogic: read as those tools write, written without loss."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataError, DataFormatError, UnknownNameError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.amie import AmieMiner
from rulerag.mining.format_amie import HEADER
from rulerag.mining.formats import (
    FORMATS,
    detect_format,
    export_rules,
    import_rules,
    load_amie,
    load_anyburl,
    load_tlogic,
    save_amie,
    save_anyburl,
    save_tlogic,
)
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


# --- AMIE ----------------------------------------------------------------------------------------


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


# --- AnyBURL -------------------------------------------------------------------------------------


def test_anyburl_round_trip_keeps_what_it_holds(mined: RuleBank, tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    save_anyburl(mined, path)
    back = load_anyburl(path)
    assert list(back) == list(mined)
    for ours, theirs in zip(mined, back, strict=True):
        q = ours.quality
        assert theirs.quality == RuleQuality(
            support=q.support, standard_confidence=q.standard_confidence, body_size=q.body_size
        )
    save_anyburl(back, tmp_path / "again.txt")
    assert path.read_bytes() == (tmp_path / "again.txt").read_bytes()


def test_anyburl_lines_are_those_that_anyburl_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = (
        "1202\t1034\t0.8602329450915142\tspeaks(X,Y) <= lives(X,A), language(A,Y)\n"
        "7\t3\t0.42857142857142855\tspeaks(X,english) <= lives(X,new_york)\n"
        "9\t3\t0.3333333333333333\tspeaks(X,Y) <= Appeal_(such_as_aid,_or_more)(Y,X)\n"
    )
    path = tmp_path / "rules-100"
    path.write_text(text)
    first, second, third = load_anyburl(path)
    assert first == rule("?x speaks ?y", "?x lives ?z", "?z language ?y")
    assert first.quality == RuleQuality(
        support=1034, standard_confidence=1034 / 1202, body_size=1202
    )
    assert second == rule("?x speaks english", "?x lives new_york")
    assert third == rule("?x speaks ?y", "?y Appeal_(such_as_aid,_or_more) ?x")
    save_anyburl(RuleBank([first, second, third]), tmp_path / "again")
    assert (tmp_path / "again").read_text() == text
    path.write_text("9\t3\t0.3\tspeaks(X,english) <= \n" + text)
    assert len(load_anyburl(path)) == 3
    assert "1 rules without a body" in caplog.text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1\t1\t0.5", "expected 4 columns, found 3"),
        ("x\t1\t0.5\th(X,Y) <= r(X,Y)", "whole number"),
        ("1\t1\tinf\th(X,Y) <= r(X,Y)", "expected a number"),
        ("1\t1\t0.5\th(X,Y) r(X,Y)", "is not a rule"),
        ("1\t1\t0.5\th(X,Y) <= r(X)", "is not an atom"),
        ("1\t1\t0.5\th(X,Y), g(X,Y) <= r(X,Y)", "not one atom"),
    ],
)
def test_anyburl_malformed_lines_are_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "rules"
    path.write_text("2\t1\t0.5\th(X,Y) <= r(X,Y)\n" + line + "\n")
    with pytest.raises(DataFormatError, match=words) as caught:
        load_anyburl(path)
    assert (caught.value.path, caught.value.line) == (path, 2)


@pytest.mark.parametrize(
    "unfit",
    [
        Rule(Atom("h", "?x", "?y"), (Atom("tab\t", "?x", "?y"),)),
        Rule(Atom("h", "?x", "Y"), (Atom("r", "?x", "?z"),)),
        Rule(Atom("h", "?x", "a,b"), (Atom("r", "?x", "?z"),)),
        Rule(Atom("h(X,Y) <= g", "?x", "?y"), (Atom("r", "?x", "?y"),)),
    ],
)
def test_anyburl_refuses_names_that_it_could_not_read_back(unfit: Rule, tmp_path: Path) -> None:
    quality = RuleQuality(support=1, body_size=2)
    bank = RuleBank([Rule(unfit.head, unfit.body, quality=quality)])
    with pytest.raises(DataFormatError, match="cannot stand in AnyBURL's format"):
        save_anyburl(bank, tmp_path / "a")


def test_anyburl_needs_body_sizes(tmp_path: Path, toy_graph: KnowledgeGraph) -> None:
    bank = AmieMiner(standard_confidence=False, **ANYTHING).mine(toy_graph.train)
    with pytest.raises(DataFormatError, match="standard_confidence=True"):
        save_anyburl(bank, tmp_path / "a")


# --- TLogic --------------------------------------------------------------------------------------


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


# --- the front door ------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_told_from_its_content(
    format: str, tmp_path: Path, mined: RuleBank, toy_graph: KnowledgeGraph
) -> None:
    graph, bank = toy_graph, mined
    if format == "tlogic":
        quality = {"support": 1, "body_size": 2, "confidence": 0.5}
        bank = RuleBank([rule("?x lives_in ?y", "?x born_in ?y", temporal=True, **quality)])
    for name in ("rules", "rules.gz"):
        export_rules(bank, tmp_path / name, format, graph)
        assert detect_format(tmp_path / name) == format
        assert list(import_rules(tmp_path / name, graph=graph)) == list(bank)
    assert (
        gzip.decompress((tmp_path / "rules.gz").read_bytes()) == (tmp_path / "rules").read_bytes()
    )


@pytest.mark.parametrize("format", ["amie", "anyburl"])
def test_static_formats_refuse_temporal_rules(format: str, tmp_path: Path) -> None:
    quality = {"support": 1, "body_size": 2, "confidence": 0.5}
    bank = RuleBank([rule("?x h ?y", "?x r ?y", temporal=True, **quality)])
    with pytest.raises(DataFormatError, match="is temporal"):
        export_rules(bank, tmp_path / "rules", format)
    assert not (tmp_path / "rules").exists()


@pytest.mark.parametrize("format", ["jsonl", "amie", "anyburl"])
def test_an_empty_bank_is_a_file_too(format: str, tmp_path: Path) -> None:
    export_rules(RuleBank(), tmp_path / "rules", format)
    assert len(import_rules(tmp_path / "rules", format)) == 0


def test_bad_input_at_the_front_door(tmp_path: Path, mined: RuleBank) -> None:
    with pytest.raises(ConfigError, match="did you mean 'anyburl'"):
        export_rules(mined, tmp_path / "rules", "anyburi")
    with pytest.raises(ConfigError, match="ids in a graph") as caught:
        export_rules(mined, tmp_path / "rules", "tlogic")
    assert caught.value.key == "graph"
    with pytest.raises(DataError, match="cannot be read"):
        import_rules(tmp_path / "missing.tsv")
    (tmp_path / "other").write_text("subject\trelation\tobject\n")
    with pytest.raises(DataFormatError, match="name the format") as wrong:
        import_rules(tmp_path / "other")
    assert (wrong.value.path, wrong.value.line) == (tmp_path / "other", 1)
    (tmp_path / "rules.json").write_text('{"0": []}')
    with pytest.raises(ConfigError, match="ids in a graph"):
        import_rules(tmp_path / "rules.json")


def test_texts_take_labels_from_the_graph(graph_folder: Folder, reference_folder: Folder) -> None:
    graph = KnowledgeGraph.load(graph_folder("nell995"))
    bank = import_rules(reference_folder("amie") / "nell995.tsv", graph=graph)
    assert bank.for_head("concept:persongraduatedschool")[0].text.endswith(
        "leads to [Entity 1, person graduated school, Entity 2]"
    )
