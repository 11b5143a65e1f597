"""AmieMiner against a count by trying all bindings, on random graphs small enough for it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rulerag.kg.graph import FactTable, KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.rules import Atom, Rule
from rulerag.types import Fact

Counts = tuple[int, float, float, float, int, int]
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


def random_graph(seed: int) -> FactTable:
    rng = np.random.default_rng(seed)
    entities = int(rng.integers(1, 7))
    relations = int(rng.integers(1, 6))
    facts = int(rng.integers(1, 1 + min(3 * entities * relations, 30)))
    rows = rng.integers(0, [entities, relations, entities], size=(facts, 3))
    return table(*((f"e{s}", f"r{r}", f"e{o}") for s, r, o in rows.tolist()))


def brute_force(facts: FactTable, max_atoms: int) -> dict[Rule, tuple[int, int, int, int]]:
    """Support, head size, body size and PCA body size of every closed rule, by trying all bindings.

    It knows nothing of joins, inverse relations or shapes: bodies are all sets of atoms over ?x, ?y
    and ?z that make every variable of the rule stand in two atoms.
    """
    triples = {(f.relation, f.subject, f.object) for f in facts}
    entities = sorted({e for _, s, o in triples for e in (s, o)})
    relations = sorted({r for r, _, _ in triples})
    by_relation = {r: {(s, o) for q, s, o in triples if q == r} for r in relations}
    variables = ("?x", "?y", "?z")
    atoms = [Atom(r, u, v) for r in relations for u, v in itertools.permutations(variables, 2)]
    found = {}
    for size in range(1, max_atoms):
        for body in itertools.combinations(atoms, size):
            ends = [end for atom in body for end in (atom.subject, atom.object)]
            # The head adds one to ?x and ?y; closed means that every variable stands twice.
            if not {"?x", "?y"} <= set(ends) or ("?z" in ends and ends.count("?z") < 2):
                continue
            pairs = set()
            used = [v for v in variables if v in ends]
            for values in itertools.product(entities, repeat=len(used)):
                bound = dict(zip(used, values, strict=True))
                if all((a.relation, bound[a.subject], bound[a.object]) in triples for a in body):
                    pairs.add((bound["?x"], bound["?y"]))
            for relation, head_pairs in by_relation.items():
                head = Atom(relation, "?x", "?y")
                support = len(pairs & head_pairs)
                if head in body or not support:
                    continue
                subjects, objects = ({p[end] for p in head_pairs} for end in (0, 1))
                if len(objects) > len(subjects):
                    known = [p for p in pairs if p[1] in objects]
                else:
                    known = [p for p in pairs if p[0] in subjects]
                rule = Rule(head, tuple(sorted(body, key=str)))
                found[rule] = (support, len(head_pairs), len(pairs), len(known))
    return found


def as_set(rule: Rule) -> Rule:
    return Rule(rule.head, tuple(sorted(rule.body, key=str)))


def expected_rules(
    facts: FactTable, *, coverage: float, pca: float, skyline: bool, max_atoms: int
) -> dict[Rule, Counts]:
    every = brute_force(facts, max_atoms)
    kept = {}
    for rule, (support, head_size, body_size, pca_size) in every.items():
        ratios = support / head_size, support / body_size, support / pca_size
        if ratios[0] < coverage or ratios[2] < pca:
            continue
        parents = [Rule(rule.head, (atom,)) for atom in rule.body] if len(rule.body) > 1 else []
        rivals = [every[p] for p in parents if p in every]
        if skyline and any(s / q >= ratios[2] for s, _, _, q in rivals):
            continue
        kept[rule] = (support, *ratios, body_size, pca_size)
    return kept


@pytest.mark.parametrize("block", range(6))
def test_brute_force_finds_the_same(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        rng = np.random.default_rng([seed, 1])
        facts = random_graph(seed)
        coverage, pca = (float(rng.choice([0.0, 0.1, 0.34, 0.5])) for _ in range(2))
        skyline, max_atoms = bool(rng.integers(2)), int(rng.integers(2, 4))
        miner = AmieMiner(
            max_atoms=max_atoms,
            min_head_size=1,
            min_head_coverage=coverage,
            min_pca_confidence=pca,
            skyline=skyline,
            threads=int(rng.integers(1, 3)),
        )
        expected = expected_rules(
            facts,
            coverage=coverage,
            pca=pca,
            skyline=skyline,
            max_atoms=max_atoms,
        )
        assert {as_set(rule): counts(rule) for rule in miner.mine(facts)} == expected, seed


def test_brute_force_on_a_larger_graph_with_hubs() -> None:
    # Enough facts that hash tables grow, neighbours are found by galloping, and sets are shared.
    rng = np.random.default_rng(7)
    hubs = [("e0", f"r{i % 3}", f"e{i}") for i in range(40)]
    spread = [(f"e{a}", f"r{r}", f"e{b}") for a, r, b in rng.integers(0, [40, 3, 40], (150, 3))]
    facts = table(*hubs, *spread)
    pairs = {}
    for s, r, o in zip(facts.subject, facts.relation, facts.object, strict=True):
        pairs.setdefault(int(r), set()).add((int(s), int(o)))
        pairs.setdefault(int(r) + 3, set()).add((int(o), int(s)))
    names = facts.relations.names
    seen = 0
    for rule in AmieMiner(skyline=False, **EVERYTHING).mine(facts):
        if len(rule.body) < 2 or "?z" not in (rule.body[0].subject, rule.body[0].object):
            continue
        near, far = (
            pairs[names.index(a.relation) + (0 if (a.subject, a.object) in forward else 3)]
            for a, forward in zip(rule.body, ([("?x", "?z")], [("?z", "?y")]), strict=True)
        )
        joined = {(x, y) for x, z in near for w, y in far if z == w}
        head = pairs[names.index(rule.head.relation)]
        assert (rule.quality.support, rule.quality.body_size) == (len(joined & head), len(joined))
        seen += 1
    assert seen > 50
