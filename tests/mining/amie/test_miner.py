"""AmieMiner against AMIE's own output, all bindings tried, and counts by hand; long runs."""

from __future__ import annotations

import hashlib
import itertools
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
from rulerag.mining.paths.canonical import normal_form
from rulerag.rules import Atom, Rule, rule_text

Folder = Callable[[str], Path]
Counts = tuple[int, float, float, float, int, int]
EVERYTHING = {"min_head_size": 1, "min_head_coverage": 0.0, "min_pca_confidence": 0.0}


def counts(rule: Rule) -> tuple[object, ...]:
    q = rule.quality
    ratios = q.head_coverage, q.standard_confidence, q.pca_confidence
    return q.support, *ratios, q.body_size, q.pca_body_size


def table(*facts: tuple[str, str, str]) -> FactTable:
    return KnowledgeGraph.from_facts(facts).train


@pytest.fixture(scope="module")
def umls(graph_folder: Folder) -> FactTable:
    return KnowledgeGraph.load(graph_folder("umls")).train


# --- AMIE's own output ---------------------------------------------------------------------------


@pytest.mark.parametrize("skyline", [True, False])
@pytest.mark.parametrize(
    "name",
    ["nations", *(pytest.param(x, marks=pytest.mark.slow) for x in ("umls", "kinship", "nell995"))],
)
def test_the_same_rules_with_the_same_counts_as_amie(
    name: str, skyline: bool, graph_folder: Folder, reference_folder: Folder
) -> None:
    train = KnowledgeGraph.load(graph_folder(name)).train
    theirs = load_amie(reference_folder("amie") / f"{name}{'' if skyline else '.all'}.tsv")
    ours = AmieMiner(skyline=skyline).mine(train)
    assert {r.id: r.head for r in ours} == {r.id: r.head for r in theirs}
    for rule in theirs:
        # AMIE writes head coverage with six decimals; everything else follows from whole numbers.
        (support, coverage, *rest), found = counts(rule), counts(ours.get(rule.id))
        assert (found[0], round(found[1], 6), *found[2:]) == (support, round(coverage, 6), *rest)
    relations = train.relations
    assert all(rule.text == rule_text(rule, relations.label) for rule in ours)
    keys = [(relations.id(r.head.relation), -counts(r)[3], -r.quality.support) for r in ours]
    assert keys == sorted(keys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("skyline", "number", "digest"),
    [
        (True, 16_174, "de4049f69970ad566275b565098b1d5f0beeaf2789655be0b5eb5c6719873041"),
        (False, 17_458, "e32bda002e1629255b7953a9313394d297848002e477b63fe0b2ef232ba8f8af"),
    ],
)
def test_the_same_rules_of_four_atoms_as_amie(
    skyline: bool, number: int, digest: str, umls: FactTable
) -> None:
    """AMIE 3.5 with ``-maxad 4 -enstd -minhc 0.3 -minc 0.3 -minpca 0.4 [-noSkyline]``."""
    thresholds = {"min_head_coverage": 0.3, "min_pca_confidence": 0.4}
    miner = AmieMiner(max_atoms=4, min_standard_confidence=0.3, skyline=skyline, **thresholds)
    lines = [
        f"{rule.id} {q.support} {q.body_size} {q.pca_body_size}"
        for rule in miner.mine(umls)
        if (q := rule.quality)
    ]
    assert len(lines) == number
    assert hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() == digest


# --- all bindings tried --------------------------------------------------------------------------


def random_graph(seed: int) -> FactTable:
    rng = np.random.default_rng(seed)
    entities, relations = int(rng.integers(1, 7)), int(rng.integers(1, 6))
    facts = int(rng.integers(1, 1 + min(3 * entities * relations, 30)))
    rows = rng.integers(0, [entities, relations, entities], size=(facts, 3))
    return table(*((f"e{s}", f"r{r}", f"e{o}") for s, r, o in rows.tolist()))


def brute_force(facts: FactTable, max_atoms: int) -> dict[Rule, tuple[int, int, int, int]]:
    """Support, head size, body size and PCA body size of every closed rule, by trying all bindings.

    It knows nothing of joins, inverse relations or shapes: bodies are all connected sets of atoms
    over ?x, ?y and up to two more that make every variable of the rule stand in two atoms.
    """
    triples = {(f.relation, f.subject, f.object) for f in facts}
    entities = sorted({e for _, s, o in triples for e in (s, o)})
    relations = sorted({r for r, _, _ in triples})
    by_relation = {r: {(s, o) for q, s, o in triples if q == r} for r in relations}
    variables = ("?x", "?y", "?z", "?w")[:max_atoms]
    atoms = [Atom(r, u, v) for r in relations for u, v in itertools.permutations(variables, 2)]
    found = {}
    for body in itertools.chain.from_iterable(
        itertools.combinations(atoms, size) for size in range(1, max_atoms)
    ):
        ends = [end for atom in body for end in (atom.subject, atom.object)]
        # The head adds one to ?x and ?y; closed means that every variable stands twice.
        more = [v for v in variables[2:] if v in ends]
        if not {"?x", "?y"} <= set(ends) or any(ends.count(v) < 2 for v in more):
            continue
        beside = any({atom.subject, atom.object} == {"?x", "?y"} for atom in body)
        if more == ["?w"] or (len(more) == 2 and beside):
            continue  # ?z with another name; two atoms that are not connected with the others
        pairs, used = set(), [v for v in variables if v in ends]
        for values in itertools.product(entities, repeat=len(used)):
            bound = dict(zip(used, values, strict=True))
            if all((a.relation, bound[a.subject], bound[a.object]) in triples for a in body):
                pairs.add((bound["?x"], bound["?y"]))
        for relation, head_pairs in by_relation.items():
            head, support = Atom(relation, "?x", "?y"), len(pairs & head_pairs)
            if head in body or not support:
                continue
            if len(body) > 2 and {atom.relation for atom in body} == {relation}:
                continue  # AMIE's recursivity limit
            ends_of = [{p[end] for p in head_pairs} for end in (0, 1)]
            end = int(len(ends_of[1]) > len(ends_of[0]))
            known = sum(p[end] in ends_of[end] for p in pairs)
            rule = Rule(*normal_form(head, body))
            found[rule] = (support, len(head_pairs), len(pairs), known)
    return found


def expected_rules(
    facts: FactTable, coverage: float, pca: float, least: int, skyline: bool, max_atoms: int
) -> dict[Rule, Counts]:
    every, kept = brute_force(facts, max_atoms), {}
    for rule, (support, head_size, body_size, pca_size) in every.items():
        ratios = support / head_size, support / body_size, support / pca_size
        parts = (itertools.combinations(rule.body, n) for n in range(1, len(rule.body)))
        parents = [Rule(*normal_form(rule.head, part)) for part in itertools.chain(*parts)]
        rivals = [every[p] for p in parents if p in every]
        beaten = skyline and any(s / q >= ratios[2] for s, _, _, q in rivals)
        if ratios[0] >= coverage and ratios[2] >= pca and support >= least and not beaten:
            kept[rule] = (support, *ratios, body_size, pca_size)
    return kept


@pytest.mark.parametrize("block", range(2))
def test_brute_force_finds_the_same(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        rng = np.random.default_rng([seed, 1])
        facts = random_graph(seed)
        coverage, pca = (float(rng.choice([0.0, 0.1, 0.34, 0.5])) for _ in range(2))
        skyline, max_atoms = bool(rng.integers(2)), int(rng.integers(2, 4))
        if len(facts.entities) < 5 and len(facts.relations) < 3:
            max_atoms += 1
        least = int(rng.integers(1, 4))
        miner = AmieMiner(
            max_atoms=max_atoms,
            min_head_size=1,
            min_head_coverage=coverage,
            min_pca_confidence=pca,
            min_support=least,
            skyline=skyline,
            threads=int(rng.integers(1, 3)),
        )
        found = {Rule(*normal_form(r.head, r.body)): counts(r) for r in miner.mine(facts)}
        assert found == expected_rules(facts, coverage, pca, least, skyline, max_atoms), seed


def test_brute_force_on_a_larger_graph_with_hubs() -> None:
    # Enough facts that hash tables grow, neighbours are found by galloping, and sets are shared.
    rng = np.random.default_rng(7)
    hubs = [("e0", f"r{i % 3}", f"e{i}") for i in range(40)]
    spread = [(f"e{a}", f"r{r}", f"e{b}") for a, r, b in rng.integers(0, [40, 3, 40], (150, 3))]
    facts = table(*hubs, *spread)
    pairs: dict[tuple[str, bool], set[tuple[str, str]]] = {}
    for s, r, o, _ in facts:
        pairs.setdefault((r, True), set()).add((s, o))
        pairs.setdefault((r, False), set()).add((o, s))
    seen = 0
    for rule in AmieMiner(skyline=False, **EVERYTHING).mine(facts):
        if len(rule.body) < 2 or "?z" not in (rule.body[0].subject, rule.body[0].object):
            continue
        near, far = (
            pairs[atom.relation, atom.subject == start]
            for atom, start in zip(rule.body, ("?x", "?z"), strict=True)
        )
        joined = {(x, y) for x, z in near for w, y in far if z == w}
        support = len(joined & pairs[rule.head.relation, True])
        assert (rule.quality.support, rule.quality.body_size) == (support, len(joined))
        seen += 1
    assert seen > 50


# --- by hand -------------------------------------------------------------------------------------


def test_ten_facts_by_hand(toy_graph: KnowledgeGraph, capsys: pytest.CaptureFixture[str]) -> None:
    bank = AmieMiner(**EVERYTHING).mine(toy_graph.train)
    assert capsys.readouterr().err == ""

    def found(head: str, *body: Atom) -> tuple[object, ...]:
        return counts(bank.get(Rule(Atom(head, "?x", "?y"), body).id))

    assert found("lives_in", Atom("born_in", "?x", "?y")) == (2, 1 / 2, 2 / 3, 2 / 3, 3, 3)
    assert found("born_in", Atom("lives_in", "?x", "?y")) == (2, 2 / 3, 1 / 2, 2 / 3, 4, 3)
    assert found("married_to", Atom("married_to", "?y", "?x")) == (2, 2 / 3, 2 / 3, 1.0, 3, 2)
    path = Atom("married_to", "?x", "?z"), Atom("lives_in", "?z", "?y")
    # ann and bob live where the other lives, cid where dee lives; everyone of them lives somewhere.
    assert found("lives_in", *path) == (3, 3 / 4, 1.0, 1.0, 3, 3)
    assert {rule.miner for rule in bank} == {"amie"}
    AmieMiner(progress=True, **EVERYTHING).mine(toy_graph.train)
    assert "relations" in capsys.readouterr().err


def test_the_functional_end_is_the_object_when_there_are_more_objects() -> None:
    # "owns" has two subjects and three objects, so a pair counts against a rule when its object is
    # owned by anyone: (v, t4) is not, whereas by subjects both pairs of "holds" would count.
    owned = [("u", "owns", "t1"), ("v", "owns", "t2"), ("v", "owns", "t3")]
    facts = table(*owned, ("u", "holds", "t1"), ("v", "holds", "t4"))
    bank = AmieMiner(max_atoms=2, **EVERYTHING).mine(facts)
    owns = bank.get(Rule(Atom("owns", "?x", "?y"), (Atom("holds", "?x", "?y"),)).id)
    assert (owns.quality.pca_body_size, owns.quality.body_size) == (1, 2)
    # "holds" has as many subjects as objects: the subject decides, as in AMIE.
    holds = bank.get(Rule(Atom("holds", "?x", "?y"), (Atom("owns", "?x", "?y"),)).id)
    assert (holds.quality.pca_body_size, holds.quality.body_size) == (3, 3)


@pytest.mark.parametrize("max_atoms", [2, 3])
def test_few_facts(max_atoms: int, caplog: pytest.LogCaptureFixture) -> None:
    one, miner = table(("a", "r", "b")), AmieMiner(max_atoms=max_atoms, **EVERYTHING)
    assert len(miner.mine(one)) == len(miner.mine(one.select(np.arange(0)))) == 0
    loops = miner.mine(table(("a", "r", "a"))).filter(max_body_atoms=1)
    assert [rule.body for rule in loops] == [(Atom("r", "?y", "?x"),)]
    facts = [("a", "r", "b"), ("a", "s", "b"), ("c", "s", "d"), ("c", "r", "d")]
    assert miner.mine(table(*facts)).fingerprint == miner.mine(table(*facts, *facts)).fingerprint
    with caplog.at_level(logging.WARNING, "rulerag.mining.amie.miner"):
        assert len(AmieMiner(max_atoms=max_atoms).mine(one)) == 0
    assert "100 facts" in caplog.text
    # A relation that occurs once is no head, but may be a body.
    facts = [("a", "r", "b"), ("c", "r", "d"), ("a", "rare", "b")]
    bank = AmieMiner(min_head_size=2, min_pca_confidence=0.0).mine(table(*facts))
    assert bank.head_relations == ["r"]
    assert Rule(Atom("r", "?x", "?y"), (Atom("rare", "?x", "?y"),)) in bank


# --- settings, threads, bad input ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("max_atoms", 1, "greater than or equal to 2"),
        ("max_atoms", 9, "less than or equal to 4"),
        ("max_atoms", 2.5, "expected a whole number"),
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
    assert caught.value.key == key and repr(value) in str(caught.value)


def test_what_cannot_be_mined(
    umls: FactTable, toy_graph: KnowledgeGraph, toy_temporal_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    with pytest.raises(MiningError, match="TLogicMiner"):
        AmieMiner().mine(toy_temporal_graph.train)
    with pytest.raises(MiningError, match=r"needs about 0\.\d\d GB and 0\.01 GB is allowed"):
        AmieMiner(max_memory_gb=0.01).mine(umls)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OutputError, match="cannot be written"):
        AmieMiner(checkpoint=tmp_path / "file" / "below", **EVERYTHING).mine(toy_graph.train)


def test_an_interrupted_run_resumes_by_relation(
    tmp_path: Path, umls: FactTable, caplog: pytest.LogCaptureFixture
) -> None:
    shuffled = umls.select(np.random.default_rng(0).permutation(len(umls)))
    expected = AmieMiner(max_memory_gb=1.0, threads=3).mine(shuffled)
    assert len(expected) == 7761, "whatever the order of the facts"
    miner = AmieMiner(checkpoint=tmp_path)
    assert miner.mine(umls).fingerprint == expected.fingerprint
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) > 50
    for file in files[::2]:
        file.unlink()
    files[1].write_bytes(files[1].read_bytes()[:20])
    untouched = {file: file.stat().st_mtime_ns for file in files[3::2]}
    with caplog.at_level(logging.WARNING, "rulerag.mining.runtime.tasks"):
        assert miner.mine(umls).fingerprint == expected.fingerprint
    assert files[1].name in caplog.text
    assert {file: file.stat().st_mtime_ns for file in untouched} == untouched
    # Another setting must not read these counts.
    AmieMiner(min_head_coverage=0.2, checkpoint=tmp_path).mine(umls)
    assert len(list(tmp_path.iterdir())) == 2


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
