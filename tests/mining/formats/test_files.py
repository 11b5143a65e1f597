"""AnyBURL's rule files, and the front door to all formats."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.errors import ConfigError, DataError, DataFormatError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.mining.formats.files import (
    FORMATS,
    detect_format,
    export_rules,
    import_rules,
    load_anyburl,
    save_anyburl,
)
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality

Folder = Callable[[str], Path]
ANYTHING = {"min_head_size": 1, "min_head_coverage": 0.0, "min_pca_confidence": 0.0}


def atom(text: str) -> Atom:
    subject, relation, object_ = text.split()
    return Atom(relation, subject, object_)


def rule(head: str, *body: str, temporal: bool = False, **quality: float) -> Rule:
    return Rule(atom(head), tuple(atom(b) for b in body), temporal, quality=RuleQuality(**quality))


@pytest.fixture(scope="module")
def mined(toy_graph: KnowledgeGraph) -> RuleBank:
    return AmieMiner(**ANYTHING).mine(toy_graph.train)


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


def test_anyburl_needs_body_sizes(tmp_path: Path) -> None:
    bank = RuleBank([rule("?x h ?y", "?x r ?y", support=1)])
    with pytest.raises(DataFormatError, match="no support or body size"):
        save_anyburl(bank, tmp_path / "a")


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
