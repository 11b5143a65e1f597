"""Whatever a format holds comes back from its file: generated banks, and peers' own files."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rulerag.io import read_json
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.formats.files import export_rules, import_rules
from rulerag.mining.paths.canonical import canonical
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality

Folder = Callable[[str], Path]

RELATIONS = ("lives in", "concept:kind_of", "/people/person./x", "is (a), b", "r<=s", "naïve")
GRAPH = KnowledgeGraph.from_facts([("a", name, "b") for name in RELATIONS])
DATED = KnowledgeGraph.from_facts([("a", name, "b", n) for n, name in enumerate(RELATIONS)])
SHAPES = (
    (("?x", "?y"),),
    (("?y", "?x"),),
    (("?x", "?z"), ("?z", "?y")),
    (("?z", "?x"), ("?y", "?z")),
    (("?x", "?y"), ("?y", "?x")),
    (("?x", "?z"), ("?z", "?w"), ("?w", "?y")),
    (("?x", "?z"), ("?x", "?z"), ("?z", "?y")),
    (("?x", "c d"),),
    (("?x", "?z"), ("?z", "e_1")),
)


@st.composite
def static_rules(draw: st.DrawFn) -> Rule:
    shape = draw(st.sampled_from(SHAPES))
    body = tuple(Atom(draw(st.sampled_from(RELATIONS)), *ends) for ends in shape)
    constant = any(end == "?y" for ends in shape for end in ends)
    head = Atom(draw(st.sampled_from(RELATIONS)), "?x", "?y" if constant else "f g")
    support = draw(st.integers(1, 10**6))
    pca = support + draw(st.integers(0, 10**6))
    size = pca + draw(st.integers(0, 10**7))
    quality = RuleQuality(
        support=support,
        head_coverage=support / (support + draw(st.integers(0, 10**6))),
        standard_confidence=support / size,
        pca_confidence=support / pca,
        body_size=size,
        pca_body_size=pca,
    )
    return canonical(Rule(head, body, quality=quality, miner="amie"))


@st.composite
def temporal_rules(draw: st.DrawFn) -> Rule:
    places = draw(
        st.sampled_from(
            ["xy", "xx", "xzy", "xyx", "xxy", "xyy", "xzwy", "xzxy", "xyzx", "xzzy", "xyxy"]
        )
    )
    walk = [f"?{place}" for place in places]
    body = []
    for start, end in itertools.pairwise(walk):
        ends = draw(st.sampled_from([(start, end), (end, start)]))
        body.append(Atom(draw(st.sampled_from(RELATIONS)), *ends))
    start, end = walk[0], walk[-1]
    ends = draw(st.sampled_from([(start, end), (end, start)]))
    size = draw(st.integers(1, 10**6))
    support = draw(st.integers(0, size))
    quality = RuleQuality(support=support, body_size=size, confidence=support / size)
    head = Atom(draw(st.sampled_from(RELATIONS)), *ends)
    return canonical(Rule(head, tuple(body), True, quality=quality, miner="tlogic"))


def written_and_read(bank: RuleBank, format: str, graph: KnowledgeGraph) -> RuleBank:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules"
        export_rules(bank, path, format, graph)
        return import_rules(path, format, graph)


FEW = settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)


@FEW
@given(rules=st.lists(static_rules(), max_size=6))
def test_static_formats_keep_rules_and_the_counts_that_they_hold(rules: list[Rule]) -> None:
    bank = RuleBank(rules)
    plain = RuleBank(rule for rule in rules if rule.head.object == "?y")
    back = written_and_read(plain, "amie", GRAPH)
    assert [(r, r.quality) for r in back] == [(r, r.quality) for r in plain]
    back = written_and_read(bank, "anyburl", GRAPH)
    assert list(back) == list(bank)
    for one, other in zip(bank, back, strict=True):
        counts = replace(one.quality, head_coverage=None, pca_confidence=None, pca_body_size=None)
        assert other.quality == counts
    # What the format has no place for comes back by joining the two.
    assert [r.quality for r in back.merge(bank)] == [r.quality for r in bank]


@FEW
@given(rules=st.lists(temporal_rules(), max_size=6), static=st.lists(static_rules(), max_size=3))
def test_tlogic_and_jsonl_keep_everything(rules: list[Rule], static: list[Rule]) -> None:
    bank, both = RuleBank(rules), RuleBank([*rules, *static])
    back = written_and_read(bank, "tlogic", DATED)
    assert {r.id: r.quality for r in back} == {r.id: r.quality for r in bank}
    assert written_and_read(both, "jsonl", DATED).fingerprint == both.fingerprint


@pytest.mark.parametrize("name", ["nations", "kinship", "nell995.all"])
def test_amies_own_files(name: str, reference_folder: Folder, tmp_path: Path) -> None:
    """Read, written and read again: the same rules and counts; and already in one form."""
    bank = import_rules(reference_folder("amie") / f"{name}.tsv", "amie")
    assert all(canonical(rule) is rule for rule in bank)
    export_rules(bank, tmp_path / "again.tsv", "amie")
    assert import_rules(tmp_path / "again.tsv", "amie").fingerprint == bank.fingerprint


@pytest.mark.slow
def test_all_rules_that_tlogic_learned(
    graph_folder: Folder, reference_folder: Folder, tmp_path: Path
) -> None:
    graph = KnowledgeGraph.load(graph_folder("icews14_forecasting"))
    path = reference_folder("tlogic") / "icews14_r123_n200_exp_s12_rules.json"
    bank = import_rules(path, "tlogic", graph)
    assert len(bank) == 26_823
    assert all(canonical(rule) is rule for rule in bank)
    export_rules(bank, tmp_path / "rules.json", "tlogic", graph)
    assert read_json(tmp_path / "rules.json") == read_json(path)
