"""Rules of four atoms against a count that tries all bindings, and what they cost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.amie_agreement import count_by_definition, pairs_by_relation
from rulerag.errors import MiningError
from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.mining.amie import AmieMiner
from rulerag.mining.normal_form import normal_form
from rulerag.rules import Atom, Rule, rule_text
from rulerag.types import Fact

Folder = Callable[[str], Path]
Body = tuple[Atom, ...]
Counts = tuple[int, int, int, int]
EVERYTHING = {"min_head_size": 1, "min_head_coverage": 0.0, "min_pca_confidence": 0.0}
VARIABLES = ("?x", "?y", "?z", "?w")
HEAD = Atom("", "?x", "?y")


def random_graph(seed: int) -> FactTable:
    rng = np.random.default_rng(seed)
    entities = int(rng.integers(1, 6))
    relations = int(rng.integers(1, 4))
    facts = int(rng.integers(1, 1 + min(3 * entities * relations, 22)))
    rows = rng.integers(0, [entities, relations, entities], size=(facts, 3)).tolist()
    return KnowledgeGraph.from_facts([Fact(f"e{s}", f"r{r}", f"e{o}") for s, r, o in rows]).train


def is_closed(body: Body) -> bool:
    """Every variable stands in two atoms of the rule, ?x and ?y with the head's."""
    ends = [end for atom in (HEAD, *body) for end in (atom.subject, atom.object)]
    return all(ends.count(end) >= 2 for end in ends)


def is_connected(body: Body) -> bool:
    reached = {"?x", "?y"}
    for _ in body:
        for atom in body:
            if {atom.subject, atom.object} & reached:
                reached |= {atom.subject, atom.object}
    return reached >= {end for atom in body for end in (atom.subject, atom.object)}


def bodies(relations: list[str]) -> Iterator[Body]:
    """Every closed, connected set of up to three atoms, once for each naming of ?z and ?w."""
    atoms = [Atom(r, u, v) for r in relations for u, v in itertools.permutations(VARIABLES, 2)]
    seen = set()
    for size in (1, 2, 3):
        for body in itertools.combinations(atoms, size):
            if is_closed(body) and is_connected(body):
                written = normal_form(HEAD, body)[1]
                if written not in seen:
                    seen.add(written)
                    yield written


def tensor(atom: Atom, holds: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where an atom holds, over all bindings of the four variables."""
    one, two = VARIABLES.index(atom.subject), VARIABLES.index(atom.object)
    shape = [1, 1, 1, 1]
    shape[one] = shape[two] = len(holds)
    return (holds if one < two else holds.T).reshape(shape)


def brute_force(facts: FactTable) -> dict[Rule, Counts]:
    """Support, head size, body size and PCA body size of every closed rule of up to four atoms."""
    holds = {name: np.zeros((len(facts.entities),) * 2, bool) for name in facts.relations.names}
    for fact in facts:
        ends = facts.entities.id(fact.subject), facts.entities.id(fact.object)
        holds[fact.relation][ends] = True
    found = {}
    for body in bodies(list(holds)):
        everywhere = reduce(np.logical_and, [tensor(atom, holds[atom.relation]) for atom in body])
        pairs = everywhere.any(axis=(2, 3))
        for relation, head in holds.items():
            support = int((pairs & head).sum())
            if Atom(relation, "?x", "?y") in body or not support:
                continue
            known = head.any(axis=1)[:, None], head.any(axis=0)[None, :]
            functional = known[int(known[1].sum() > known[0].sum())]
            rule = Rule(Atom(relation, "?x", "?y"), body)
            sizes = int(pairs.sum()), int((pairs & functional).sum())
            found[rule] = (support, int(head.sum()), *sizes)
    return found


def in_skyline(rule: Rule, every: dict[Rule, Counts]) -> bool:
    """By definition: more confident than every closed rule with some of its body atoms."""
    own = Fraction(every[rule][0], every[rule][3])
    for size in range(1, len(rule.body)):
        for body in itertools.combinations(rule.body, size):
            if is_closed(body) and is_connected(body):
                within = every[Rule(rule.head, normal_form(HEAD, body)[1])]
                if Fraction(within[0], within[3]) >= own:
                    return False
    return True


def counts(rule: Rule) -> tuple[object, ...]:
    q = rule.quality
    return (q.support, q.head_coverage, q.standard_confidence, q.pca_confidence, q.body_size)


@pytest.mark.parametrize("block", range(5))
def test_the_same_rules_and_counts_as_trying_all_bindings(block: int) -> None:
    shapes = set()
    for seed in range(block * 12, block * 12 + 12):
        rng = np.random.default_rng([seed, 2])
        facts = random_graph(seed)
        coverage, pca = (float(rng.choice([0.0, 0.1, 0.34, 0.5])) for _ in range(2))
        limit, skyline = int(rng.integers(1, 5)), bool(rng.integers(2))
        miner = AmieMiner(
            max_atoms=4,
            min_head_size=1,
            min_head_coverage=coverage,
            min_pca_confidence=pca,
            recursivity_limit=limit,
            skyline=skyline,
            threads=int(rng.integers(1, 3)),
        )
        every = brute_force(facts)
        expected = {}
        for rule, (support, head_size, body_size, pca_size) in every.items():
            ratios = support / head_size, support / body_size, support / pca_size
            relations = [atom.relation for atom in (rule.head, *rule.body)]
            if ratios[0] < coverage or ratios[2] < pca or (skyline and not in_skyline(rule, every)):
                continue
            if max(map(relations.count, relations)) <= limit:
                expected[rule] = (support, *ratios, body_size)
        assert {rule: counts(rule) for rule in miner.mine(facts)} == expected, seed
        shapes |= {tuple((a.subject, a.object) for a in rule.body) for rule in expected}
    assert len({shape for shape in shapes if len(shape) == 3}) > 20


def test_a_chain_by_hand() -> None:
    # Who lives where the employer of a friend has its seat: three of four seats, all known.
    rows = [("friend", i, i + 10) for i in range(4)] + [("works", i + 10, i + 20) for i in range(4)]
    rows += [("seat", i + 20, 30 + i % 2) for i in range(4)] + [("lives", 0, 30), ("lives", 1, 31)]
    rows += [("lives", 2, 30), ("lives", 3, 30)]
    facts = KnowledgeGraph.from_facts([Fact(f"e{s}", r, f"e{o}") for r, s, o in rows]).train
    chain = (Atom("friend", "?x", "?z"), Atom("works", "?z", "?w"), Atom("seat", "?w", "?y"))
    rule = (
        AmieMiner(max_atoms=4, **EVERYTHING)
        .mine(facts)
        .get(Rule(Atom("lives", "?x", "?y"), chain).id)
    )
    assert counts(rule) == (3, 3 / 4, 3 / 4, 3 / 4, 4)
    assert rule.text == rule_text(rule, facts.relations.label)


def test_real_graphs_agree_with_counts_by_definition(graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("nell995")).train
    pairs = pairs_by_relation(train)
    bank = AmieMiner(max_atoms=4, min_head_coverage=0.05).mine(train)
    long = [rule for rule in bank if len(rule.body) == 3]
    assert len(long) > 5_000
    small = [r for r in long if sum(len(pairs[a.relation]) for a in r.body) < 600]
    assert len(small) > 30
    for rule in small[::5]:
        support, head_size, body_size, pca_size = count_by_definition(rule, pairs)
        quality = rule.quality
        assert (quality.support, quality.body_size, quality.pca_body_size) == (
            support,
            body_size,
            pca_size,
        )
        assert quality.head_coverage == support / head_size
    three = AmieMiner(min_head_coverage=0.05).mine(train)
    assert [r.to_json() for r in three] == [r.to_json() for r in bank if len(r.body) < 3]


def test_threads_and_order_do_not_matter(graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    one = AmieMiner(max_atoms=4, min_head_coverage=0.3, threads=1).mine(train)
    shuffled = train.select(np.random.default_rng(0).permutation(len(train)))
    two = AmieMiner(max_atoms=4, min_head_coverage=0.3, threads=2).mine(shuffled)
    assert len(one) > 1_000 and one.fingerprint == two.fingerprint


def test_too_little_memory_is_refused_before_the_join(graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("nations")).train
    with pytest.raises(MiningError, match=r"counting up to [\d,]+ bodies .* about [\d.]+ GB and 1"):
        AmieMiner(max_atoms=4, max_memory_gb=1.0).mine(train)
    train = KnowledgeGraph.load(graph_folder("umls")).train
    with pytest.raises(MiningError, match=r"holding [\d,]+ rules needs about"):
        AmieMiner(max_atoms=4, max_memory_gb=0.3).mine(train)


def test_an_interrupted_run_resumes(tmp_path: Path, graph_folder: Folder) -> None:
    train = KnowledgeGraph.load(graph_folder("umls")).train
    settings = {"max_atoms": 4, "min_head_coverage": 0.3}
    expected = AmieMiner(**settings).mine(train).fingerprint
    miner = AmieMiner(checkpoint=tmp_path, **settings)
    assert miner.mine(train).fingerprint == expected
    files = sorted(tmp_path.rglob("*three*.npz"))
    assert len(files) > 50
    for file in files[::3]:
        file.unlink()
    assert miner.mine(train).fingerprint == expected
