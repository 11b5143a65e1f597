"""Smaller banks: what subsumption and coverage drop, checked against graphs and AMIE's skyline."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rulerag.errors import ConfigError, MiningError
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.amie.miner import AmieMiner
from rulerag.mining.formats.files import load_amie
from rulerag.mining.inference.engine import StaticInference
from rulerag.mining.paths.canonical import merge_rules
from rulerag.mining.pruning.coverage import prune_covered
from rulerag.mining.pruning.scores import top_rules
from rulerag.mining.pruning.subsumption import prune_subsumed, subsumes
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality

Folder = Callable[[str], Path]
EVERYTHING = {"min_head_size": 1, "min_head_coverage": 0.0, "min_pca_confidence": 0.0}


def atom(text: str) -> Atom:
    subject, relation, object_ = text.split()
    return Atom(relation, subject, object_)


def rule(head: str, *body: str, temporal: bool = False, **quality: float) -> Rule:
    return Rule(atom(head), tuple(map(atom, body)), temporal, quality=RuleQuality(**quality))


HEAD = "?x h ?y"
STATIC = [
    # general, special, whether the first subsumes the second
    ((HEAD, "?x a ?y"), (HEAD, "?x a ?y", "?x b ?z"), True),
    ((HEAD, "?x a ?y", "?x b ?z"), (HEAD, "?x a ?y"), False),
    ((HEAD, "?x a ?z", "?z b ?y"), (HEAD, "?w b ?y", "?x a ?w"), True),
    ((HEAD, "?x a ?y"), (HEAD, "?y a ?x"), False),
    ((HEAD, "?x a ?z", "?z a ?y"), (HEAD, "?x a ?x", "?x b ?y", "?x a ?y"), True),
    ((HEAD, "?x a ?z", "?w a ?z", "?w b ?y"), (HEAD, "?x a ?z", "?x b ?y"), True),
    ((HEAD, "?x a ?z", "?x b ?y"), (HEAD, "?x a ?z", "?w a ?z", "?w b ?y"), False),
    ((HEAD, "?x a c"), (HEAD, "?x a c", "?x b ?y"), True),
    ((HEAD, "?x a c"), (HEAD, "?x a d", "?x b ?y"), False),
    ((HEAD, "?x a ?z", "?z b ?y"), (HEAD, "?x a c", "c b ?y"), True),
    ((HEAD, "?x a ?y"), ("?x h c", "?x a c"), True),
    (("?x g ?y", "?x a ?y"), (HEAD, "?x a ?y"), False),
]
LONG = (HEAD, "?x a ?z", "?z b ?x", "?x c ?y")
# Temporal bodies keep their order, and heads their way round.
TEMPORAL = [
    ((HEAD, "?x c ?y"), LONG, True),
    ((HEAD, "?x a ?z", "?x c ?y"), LONG, True),
    ((HEAD, "?x c ?y", "?x a ?z"), LONG, False),
    (("?y h ?x", "?y c ?x"), LONG, False),
]


@pytest.mark.parametrize(
    ("temporal", "general", "special", "expected"),
    [(temporal, *one) for temporal, pairs in enumerate((STATIC, TEMPORAL)) for one in pairs],
)
def test_what_subsumes_what(
    temporal: int, general: tuple[str, ...], special: tuple[str, ...], expected: bool
) -> None:
    one, other = (rule(*of, temporal=bool(temporal)) for of in (general, special))
    assert subsumes(one, other) is expected and subsumes(one, one)
    assert not subsumes(one, rule(*special, temporal=not temporal))


def predicted(one: Rule, facts: set[tuple[str, str, str]], names: str) -> set[tuple[str, str]]:
    """Pairs by trying every entity for every variable."""
    terms = [end for a in (one.head, *one.body) for end in (a.subject, a.object)]
    variables = sorted({term for term in terms if term.startswith("?")})
    found = set()
    for values in itertools.product(names, repeat=len(variables)):
        bound = dict(zip(variables, values, strict=True))
        at = {term: bound.get(term, term) for term in terms}
        if all((at[a.subject], a.relation, at[a.object]) in facts for a in one.body):
            found.add((at[one.head.subject], at[one.head.object]))
    return found


def some_rule(rng: random.Random) -> Rule:
    ends = ["?x", "?y", "?z", "?w", "c"]
    body = []
    for _ in range(rng.randrange(1, 4)):
        body.append(f"{rng.choice(ends)} {rng.choice('ab')} {rng.choice(ends)}")
    return rule(HEAD, *body, pca_confidence=rng.choice((0.25, 0.5)), support=1)


def test_a_subsumed_rule_predicts_nothing_more_on_any_graph() -> None:
    rng, seen, names = random.Random(0), 0, "cdef"
    for _ in range(1500):
        one, other = some_rule(rng), some_rule(rng)
        if subsumes(one, other):
            seen += 1
            facts = {(rng.choice(names), rng.choice("ab"), rng.choice(names)) for _ in range(8)}
            assert predicted(other, facts, names) <= predicted(one, facts, names)
    assert seen > 50


def test_what_is_left_neither_subsumes_itself_nor_loses_a_best_score() -> None:
    rng = random.Random(1)
    for _ in range(30):
        bank = RuleBank(some_rule(rng) for _ in range(12))
        left = prune_subsumed(bank)
        for one, other in itertools.permutations(left, 2):
            assert one.ranking_confidence < other.ranking_confidence or not subsumes(one, other)
        for gone in bank:
            assert gone in left or any(
                subsumes(one, gone) and one.ranking_confidence >= gone.ranking_confidence
                for one in left
            )
        assert [r.id for r in bank if r in left] == [r.id for r in left]


@pytest.mark.parametrize("name", ["nations", "nell995"])
def test_subsumption_is_amies_skyline(name: str, reference_folder: Folder) -> None:
    """AMIE's rules without skyline, pruned here, are its rules with skyline."""
    folder = reference_folder("amie")
    pruned = prune_subsumed(load_amie(folder / f"{name}.all.tsv"))
    assert {r.id for r in pruned} == {r.id for r in load_amie(folder / f"{name}.tsv")}


def test_equal_rules_under_other_names_are_one() -> None:
    first = rule(HEAD, "?x a ?z", "?z b ?y", pca_confidence=0.5, support=3)
    second = rule(HEAD, "?u b ?y", "?x a ?u", pca_confidence=0.5, support=3)
    better = rule(HEAD, "?x a ?v", "?v b ?y", pca_confidence=0.6, support=3)
    assert len(prune_subsumed(RuleBank([first, second]))) == 1
    assert list(prune_subsumed(RuleBank([first, second, better]))) == [better]


@pytest.mark.parametrize("seed", range(4))
def test_covered_rules_are_those_that_add_no_pair(seed: int) -> None:
    rng, names = random.Random(seed), "cdefgh"
    rows = [(rng.choice(names), rng.choice("abh"), rng.choice(names)) for _ in range(22)]
    train = KnowledgeGraph.from_facts(rows).train
    bank = AmieMiner(skyline=False, **EVERYTHING).mine(train)
    expected, known = set(), {head: set() for head in bank.head_relations}
    order = sorted(
        bank, key=lambda r: (-r.ranking_confidence, -r.quality.support, len(r.body), r.text)
    )
    for one in order:
        pairs = predicted(one, set(rows), names)
        if pairs - known[one.head.relation]:
            expected.add(one.id)
        known[one.head.relation] |= pairs
    left = prune_covered(bank, train)
    assert [r.id for r in left] == [r.id for r in bank if r.id in expected]
    # The best score of every candidate stays what it was.
    size = len(train.entities), 2 * len(train.relations)
    subject, relation = (c.reshape(-1) for c in np.meshgrid(np.arange(size[0]), np.arange(size[1])))
    one, two = (StaticInference(of, [train]).candidates(subject, relation) for of in (bank, left))
    assert np.array_equal(one.entity, two.entity) and np.array_equal(one.score, two.score)


def test_covered_rules_need_static_facts_and_walks(
    toy_graph: KnowledgeGraph, toy_temporal_graph: KnowledgeGraph
) -> None:
    with pytest.raises(MiningError, match="dated"):
        prune_covered(RuleBank(), toy_temporal_graph.train)
    far = "?x married_to ?z", "?z married_to ?w", "?w lives_in ?y"
    with pytest.raises(MiningError, match="one body atom, or two"):
        prune_covered(RuleBank([rule("?x lives_in ?y", *far, support=1)]), toy_graph.train)


def test_top_rules_keeps_the_best_of_every_head_and_way() -> None:
    bank = RuleBank(
        rule(head, f"?x r{n} ?y", temporal=True, support=9 - 4 * n, confidence=(n + 1) / 10)
        for head in ("?x h ?y", "?y h ?x", "?x g ?y")
        for n in range(3)
    )
    # Confidences of 0.1, 0.2 and 0.3, which times the support are 0.9, 1.0 and 0.3.
    for score, best in (("confidence", [0.3]), ("product", [0.2])):
        assert [r.quality.confidence for r in top_rules(bank, 1, score)] == best * 3
    assert [r.quality.confidence for r in top_rules(bank, 2)] == [0.1, 0.2] * 3
    assert [r.id for r in top_rules(bank, 9)] == [r.id for r in bank]
    with pytest.raises(ConfigError, match="did you mean 'product'"):
        top_rules(bank, 2, "products")
    with pytest.raises(ConfigError, match="per_head"):
        top_rules(bank, 0)


def test_banks_of_several_miners_become_one_without_loss(toy_graph: KnowledgeGraph) -> None:
    full = AmieMiner(**EVERYTHING).mine(toy_graph.train)
    bare = RuleBank(
        replace(r, quality=replace(r.quality, standard_confidence=None, body_size=None))
        for r in full
    )
    other = RuleBank(
        Rule(r.head, tuple(reversed(r.body)), quality=r.quality, miner="anyburl") for r in full
    )
    merged = merge_rules(bare, other)
    assert [(r.id, r.quality) for r in merged] == [(r.id, r.quality) for r in full]
    assert {r.miner for r in merged} == {"amie+anyburl"}
    assert merge_rules(full, full).fingerprint == full.fingerprint


def test_counts_that_differ_are_not_mixed() -> None:
    small = rule(HEAD, "?x a ?z", "?z b ?y", support=2, body_size=4, standard_confidence=0.5)
    large = rule(HEAD, "?u b ?y", "?x a ?u", support=9, body_size=10, pca_confidence=0.9)
    banks = RuleBank([small]), RuleBank([large])
    assert [r.quality for r in merge_rules(*banks)] == [small.quality]


def test_temporal_rules_keep_order_and_way_round_when_merged() -> None:
    here = rule("?y h ?x", "?x a ?q", "?q b ?y", temporal=True, support=1)
    there = rule("?x h ?y", "?x a ?q", "?q b ?y", temporal=True, support=1)
    back = rule("?y h ?x", "?q b ?y", "?x a ?q", temporal=True, support=1)
    merged = merge_rules(RuleBank([here, there]), RuleBank([back, here]))
    ends = {end for r in merged for a in r.body for end in (a.subject, a.object)}
    assert len(merged) == 3 and ends == {"?x", "?y", "?z"}
