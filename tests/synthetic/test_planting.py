"""Planted rules and queries against counters that know nothing of how worlds are made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from rulerag.rules import Atom, Rule
from rulerag.synthetic.world import QUERY_KINDS, World
from rulerag.types import Fact
from tests.synthetic.worlds import KINDS, cases, world_of

SIZES = (500, 1_000, 5_000)
MIN_CONFIDENCE, MIN_SUPPORT = 0.3, 20
TOLERANCE = 0.03

Key = tuple[str, str, bool]  # body relation, head relation, whether the body is inverse


# ---- Counters of one-atom rules, written from the docstring of RuleQuality -------------------


def count_static(facts: Iterable[Fact]) -> dict[Key, tuple[int, int, int, int]]:
    """Support, body size, PCA body size and head size of every rule with support."""
    pairs: dict[str, set[tuple[str, str]]] = defaultdict(set)
    relations_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in facts:
        pairs[fact.relation].add((fact.subject, fact.object))
        relations_of[fact.subject, fact.object].add(fact.relation)
    support: Counter[Key] = Counter()
    for (subject, object_), heads in relations_of.items():
        for inverse, pair in ((False, (subject, object_)), (True, (object_, subject))):
            for body in relations_of.get(pair, ()):
                for head in heads:
                    if inverse or body != head:
                        support[body, head, inverse] += 1
    counts = {}
    for key, hits in support.items():
        body, head, inverse = key
        subjects = {s for s, _ in pairs[head]}
        objects = {o for _, o in pairs[head]}
        on_object = len(objects) > len(subjects)
        predicted = [(o, s) if inverse else (s, o) for s, o in pairs[body]]
        known = sum((o in objects) if on_object else (s in subjects) for s, o in predicted)
        counts[key] = (hits, len(predicted), known, len(pairs[head]))
    return counts


def count_temporal(facts: Iterable[Fact]) -> dict[Key, tuple[int, int]]:
    """Support and body size of every rule with support: which fact is followed by which."""
    times: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    body_size: Counter[str] = Counter()
    everything = list(facts)
    for fact in everything:
        times[fact.subject, fact.object].append((fact.relation, fact.timestamp))
        body_size[fact.relation] += 1
    support: Counter[Key] = Counter()
    for fact in everything:
        for inverse in (False, True):
            pair = (fact.object, fact.subject) if inverse else (fact.subject, fact.object)
            later = {head for head, time in times.get(pair, ()) if time > fact.timestamp}
            for head in later:
                support[fact.relation, head, inverse] += 1
    return {key: (hits, body_size[key[0]]) for key, hits in support.items()}


def held_rules(world: World) -> dict[Key, tuple[int, float]]:
    """Support and confidence of every one-atom rule with any support in the training facts."""
    if world.kind == "temporal":
        return {k: (s, s / body) for k, (s, body) in count_temporal(world.graph.train).items()}
    counts = count_static(world.graph.train)
    return {k: (s, s / pca) for k, (s, _, pca, _) in counts.items()}


def key_of(rule: Rule) -> Key:
    return rule.body[0].relation, rule.head.relation, rule.is_inverse


def one_atom(world: World) -> dict[Key, float]:
    return {key_of(p.rule): p.confidence for p in world.planted if len(p.rule.body) == 1}


# ---- Rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "size", "seed"), cases(SIZES, range(2)))
def test_the_rules_that_hold_are_the_planted_ones(kind: str, size: int, seed: int) -> None:
    world = world_of(kind, size, seed)
    planted = one_atom(world)
    held = held_rules(world)
    found = {k for k, (s, c) in held.items() if s >= MIN_SUPPORT and c >= MIN_CONFIDENCE}
    assert found == set(planted)
    for key, confidence in planted.items():
        assert held[key][1] == pytest.approx(confidence, abs=TOLERANCE)
    # Nothing else comes near the threshold, so it need not be met exactly.
    others = [c for k, (s, c) in held.items() if k not in planted and s >= MIN_SUPPORT // 2]
    assert max(others, default=0.0) < 0.22


@pytest.mark.parametrize(("kind", "size", "seed"), cases((100, 5_000), range(1)))
def test_planted_counts_are_exact(kind: str, size: int, seed: int) -> None:
    world = world_of(kind, size, seed)
    train = list(world.graph.train)
    checked = 0
    for planted in world.planted:
        rule, quality = planted.rule, planted.rule.quality
        if len(rule.body) > 1:
            continue
        checked += 1
        if kind == "temporal":
            assert (quality.support, quality.body_size) == count_temporal(train)[key_of(rule)]
            assert quality.confidence == quality.support / quality.body_size
            continue
        support, body, pca, head = count_static(train)[key_of(rule)]
        assert (quality.support, quality.body_size) == (support, body)
        assert (quality.pca_body_size, quality.head_coverage) == (pca, support / head)
        assert quality.standard_confidence == support / body
        assert quality.pca_confidence == support / pca
    assert checked >= 2


@pytest.mark.parametrize(("kind", "size", "seed"), cases((5_000,), range(2)))
def test_the_rule_of_two_atoms_holds_as_planted(kind: str, size: int, seed: int) -> None:
    world = world_of(kind, size, seed)
    (planted,) = [p for p in world.planted if len(p.rule.body) == 2]
    first, second = planted.rule.body
    assert (first.subject, first.object, second.subject, second.object) == ("?x", "?z", "?z", "?y")
    facts: dict[str, list[Fact]] = defaultdict(list)
    for fact in world.graph.train:
        facts[fact.relation].append(fact)
    onward: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts[second.relation]:
        onward[fact.subject].append(fact)
    heads: dict[tuple[str, str], list[int]] = defaultdict(list)
    for fact in facts[planted.rule.head.relation]:
        heads[fact.subject, fact.object].append(fact.timestamp or 0)
    subjects = {subject for subject, _ in heads}
    body, known, support = 0, 0, 0
    for one in facts[first.relation]:
        for two in onward[one.object]:
            if kind == "temporal" and one.timestamp > two.timestamp:
                continue
            body += 1
            known += one.subject in subjects
            hits = heads.get((one.subject, two.object), [])
            support += any(kind == "static" or time > two.timestamp for time in hits)
    quality = planted.rule.quality
    assert (support, body) == (quality.support, quality.body_size)
    measured = support / (body if kind == "temporal" else known)
    assert measured == pytest.approx(planted.confidence, abs=TOLERANCE)
    assert planted.rule.ranking_confidence == pytest.approx(measured)


def test_seeds_deal_the_confidences_out_anew() -> None:
    dealt = {tuple(sorted(one_atom(world_of("static", 5_000, seed)).items())) for seed in range(4)}
    assert len(dealt) > 1


# ---- Queries -------------------------------------------------------------------------------


def candidates(
    world: World, query: Fact, index: dict[tuple[str, str], list[Fact]]
) -> dict[str, list[tuple[float, Rule, tuple[Fact, ...]]]]:
    """Every object that a planted rule leads to from the training facts, tried one by one."""

    def facts(atom: Atom, bound: dict[str, str]) -> Iterable[tuple[Fact, dict[str, str]]]:
        side = "s" if atom.subject in bound else "o"
        at = bound[atom.subject if side == "s" else atom.object]
        for fact in index.get((f"{side}{atom.relation}", at), ()):
            joined = {**bound, atom.subject: fact.subject, atom.object: fact.object}
            if all(joined[v] == value for v, value in bound.items()):
                yield fact, joined

    reached: dict[str, list[tuple[float, Rule, tuple[Fact, ...]]]] = defaultdict(list)
    for planted in world.planted:
        rule = planted.rule
        if rule.head.relation != query.relation:
            continue
        partial: list[tuple[tuple[Fact, ...], dict[str, str]]] = [((), {"?x": query.subject})]
        for atom in rule.body:
            partial = [
                ((*used, fact), joined)
                for used, bound in partial
                for fact, joined in facts(atom, bound)
                if not rule.temporal
                or (
                    fact.timestamp < query.timestamp
                    and (not used or used[-1].timestamp <= fact.timestamp)
                )
            ]
        for used, bound in partial:
            reached[bound["?y"]].append((planted.confidence, rule, used))
    return reached


def index_of(world: World) -> dict[tuple[str, str], list[Fact]]:
    index: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in world.graph.train:
        index[f"s{fact.relation}", fact.subject].append(fact)
        index[f"o{fact.relation}", fact.object].append(fact)
    return index


@pytest.mark.parametrize(("kind", "size", "seed"), cases((100, 5_000), range(1)))
def test_every_query_knows_all_its_supports(kind: str, size: int, seed: int) -> None:
    world = world_of(kind, size, seed)
    index = index_of(world)
    for split in ("valid", "test"):
        queries = world.queries_of(split)
        assert [query.fact for query in queries] == list(world.graph.split(split))
        for query in queries:
            reached = candidates(world, query.fact, index)
            ways = {(rule.id, used) for _, rule, used in reached.pop(query.fact.object, [])}
            told = zip(query.rules, query.supports, strict=True)
            assert ways == {(rule.id, used) for rule, used in told}
            wrong = [(c, used) for ways in reached.values() for c, _, used in ways]
            if query.kind == "tail":
                assert query.rule is None and not query.supports
                continue
            # The truth can be told: what leads elsewhere is less confident, and older.
            assert query.rule is not None
            best = query.rule.ranking_confidence
            assert all(rule.ranking_confidence <= best for rule in query.rules)
            assert all(confidence < best - 0.05 for confidence, _ in wrong)
            if kind == "temporal":
                last = max(fact.timestamp for fact in query.supports[0])
                assert all(fact.timestamp < last for _, used in wrong for fact in used)
            assert bool(wrong) == (query.kind == "conflict")
            assert len(query.supports) == (2 if query.kind == "agree" else 1)
            assert len(query.supports[0]) == (2 if query.kind == "chain" else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_queries_occur_and_tails_are_a_minority(kind: str) -> None:
    world = world_of(kind, 5_000, 0)
    for split in ("valid", "test"):
        counts = Counter(query.kind for query in world.queries_of(split))
        expected = set(QUERY_KINDS) - (set() if kind == "temporal" else {"echo"})
        assert set(counts) == expected
        assert 0.1 < counts["tail"] / sum(counts.values()) < 0.3
    assert len(world.queries) >= 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_has_one_answer_and_is_found_by_its_parts(kind: str) -> None:
    world = world_of(kind, 5_000, 0)
    for query in [*world.queries, *world.queries_of("valid")]:
        fact = query.fact
        assert world.find(fact.subject, fact.relation, fact.timestamp) == query
    assert world.find("nobody", "visits", 3) is None
    if kind == "static":
        known = {(fact.subject, fact.relation) for fact in world.graph.train}
        assert not any((q.fact.subject, q.fact.relation) in known for q in world.queries)
