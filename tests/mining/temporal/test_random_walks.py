"""Random walks and sampled bodies against lists of all walks and all bodies of small graphs."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

from rulerag.errors import MiningError
from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.temporal.long_rules import body_counts
from rulerag.mining.temporal.random_walks import below, cyclic_walks, stream, uniform_number
from rulerag.mining.temporal.walk_index import BY_TIME, SOURCE, TIME, build_walk_index
from rulerag.types import Fact

RELATIONS = 2
Quad = tuple[int, int, int, int]


def small_graph(seed: int, count: int = 14) -> KnowledgeGraph:
    rng = random.Random(seed)
    facts = [
        Fact(
            f"e{rng.randrange(4)}",
            f"r{rng.randrange(RELATIONS)}",
            f"e{rng.randrange(4)}",
            24 * rng.randrange(4),
        )
        for _ in range(count)
    ]
    facts += [Fact("e0", "r0", "e0", 0), Fact("e1", "r1", "e1", 0)]  # all relations, and loops
    return KnowledgeGraph.from_facts(facts, calendar=Calendar("hour", "2014-01-01", 24))


def quads(graph: KnowledgeGraph) -> set[Quad]:
    table = graph.train
    rows = zip(table.subject, table.relation, table.object, table.timestamp, strict=True)
    forward = {tuple(map(int, row)) for row in rows}
    return forward | {(o, r + RELATIONS, s, t) for s, r, o, t in forward}


def inverse(relation: int) -> int:
    return (relation + RELATIONS) % (2 * RELATIONS)


def links(nodes: list[int]) -> tuple[int, ...]:
    return tuple(nodes.index(node) for node in nodes) + tuple(range(len(nodes), 4))


def all_cycles(facts: set[Quad], head: int, length: int) -> set[tuple[int, ...]]:
    """Bodies and links of every walk back in time that closes, straight from the definition."""
    found = set()
    for steps in itertools.product(facts, repeat=length + 1):
        first = steps[0]
        if first[1] != head or steps[-1][2] != first[0]:
            continue
        fits = True
        for number, (before, step) in enumerate(itertools.pairwise(steps)):
            earlier = step[3] < before[3] if number == 0 else step[3] <= before[3]
            straight_back = number > 0 and step == (
                before[2],
                inverse(before[1]),
                before[0],
                before[3],
            )
            fits = fits and step[0] == before[2] and earlier and not straight_back
        if fits:
            body = [inverse(step[1]) for step in steps[:0:-1]]
            nodes = [step[2] for step in steps[::-1]]
            found.add((*body, *[0] * (3 - length), *links(nodes)))
    return found


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("uniform", [True, False])
def test_walks_find_all_cycles_and_nothing_else(length: int, uniform: bool) -> None:
    graph = small_graph(length, count=8 if length == 3 else 14)
    index, facts = build_walk_index([graph.train]), quads(graph)
    for head in range(2 * RELATIONS):
        walks = cyclic_walks(index, head, length, 30_000, uniform, stream(5, 0, head))
        assert set(map(tuple, walks.tolist())) == all_cycles(facts, head, length)


def draws(facts: list[Fact], uniform: bool) -> Counter[int]:
    """Which bodies the walks from one fact of the relation ``head`` find, and how often."""
    graph = KnowledgeGraph.from_facts(facts, calendar=Calendar("hour", "2014-01-01", 24))
    index = build_walk_index([graph.train])
    head = graph.relations.id("head")
    walks = cyclic_walks(index, head, 1, 40_000, uniform, stream(1, 2, 3))
    return Counter(graph.relations.names[row[0]] for row in walks.tolist())


def test_recent_facts_are_drawn_with_more_weight() -> None:
    facts = [Fact("a", f"day{day}", "b", 24 * day) for day in (1, 3, 4)]
    facts += [Fact("a", "head", "b", 120), Fact("b", "other", "b", 0)]
    weights = {f"day{day}": math.exp(day - 5) for day in (1, 3, 4)}
    total = sum(weights.values())
    found = draws(facts, uniform=False)
    assert set(found) == set(weights)
    for name, weight in weights.items():
        spread = 4 * math.sqrt(weight / total * 40_000)
        assert abs(found[name] - 40_000 * weight / total) < spread
    for count in draws(facts, uniform=True).values():
        assert abs(count - 40_000 / 3) < 4 * math.sqrt(40_000 / 3)


def all_bodies(facts: set[Quad], rule: tuple[int, ...]) -> tuple[int, int]:
    """Support and body size over all bodies of a rule."""
    head, length, *rest = rule
    body, link = rest[:length], rest[3:]
    support = size = 0
    options = [[fact for fact in facts if fact[1] == relation] for relation in body]
    for steps in itertools.product(*options):
        pairs = list(itertools.pairwise(steps))
        if any(one[2] != other[0] or one[3] > other[3] for one, other in pairs):
            continue
        nodes = [steps[0][0], *(step[2] for step in steps)]
        bound = any(place != number for number, place in enumerate(link))
        if bound and links(nodes) != tuple(link):
            continue
        size += 1
        support += any(
            (s, r, o) == (nodes[0], head, nodes[-1]) and t > steps[-1][3] for s, r, o, t in facts
        )
    return support, size


def some_rules(rng: random.Random) -> np.ndarray:
    rows = []
    for _ in range(60):
        length = rng.randrange(1, 4)
        body = [rng.randrange(2 * RELATIONS) for _ in range(length)]
        link = list(range(4))
        for place in range(2, length + 1):
            if rng.random() < 0.4:
                link[place] = link[rng.randrange(place)]
        rows.append([rng.randrange(2 * RELATIONS), length, *body, *[-1] * (3 - length), *link])
    return np.array(sorted(rows, key=lambda row: (row[2:5], row)), np.int32)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("room", [20_000, 10])
def test_few_bodies_are_all_counted(seed: int, room: int) -> None:
    graph = small_graph(seed)
    facts, rules = quads(graph), some_rules(random.Random(seed))
    counts = body_counts(build_walk_index([graph.train]), rules, room, seed)
    fitting = 0
    for rule, (support, size) in zip(rules.tolist(), counts.tolist(), strict=True):
        wanted = all_bodies(facts, tuple(rule))
        begins = [
            all_bodies(facts, (0, n, *rule[2:5], 0, 1, 2, 3))[1] for n in range(1, rule[1] + 1)
        ]
        if max(begins) <= room:
            assert (support, size) == wanted
            fitting += 1
        else:  # a sample
            assert support <= wanted[0]
            assert size <= min(room, wanted[1])
    assert fitting == len(rules) if room > 10 else 0 < fitting < len(rules)


def test_samples_estimate_the_confidence() -> None:
    rng = random.Random(0)
    facts = [Fact(f"a{i}", "asks", f"b{i}", 2 * i) for i in range(3000)]
    followed = [i for i in range(3000) if rng.random() < 0.3]
    facts += [Fact(f"a{i}", "meets", f"b{i}", 2 * i + 1) for i in followed]
    graph = KnowledgeGraph.from_facts(facts)
    rule = np.array([[1, 1, 0, -1, -1, 0, 1, 2, 3]], np.int32)
    support, size = body_counts(build_walk_index([graph.train]), rule, 1000, 0)[0]
    assert 800 < size < 900  # distinct ones of a thousand draws from three thousand: 850
    assert abs(support / size - len(followed) / 3000) < 0.05


def test_a_rule_is_counted_alike_in_any_company() -> None:
    graph = small_graph(9)
    index, rules = build_walk_index([graph.train]), some_rules(random.Random(3))
    together = body_counts(index, rules, 20, 7)
    alone = [body_counts(index, rules[row : row + 1], 20, 7)[0] for row in range(len(rules))]
    assert np.array_equal(together, alone)
    assert not np.array_equal(together, body_counts(index, rules, 20, 8))


def test_streams_differ_and_repeat() -> None:
    def numbers(*key: int) -> list[float]:
        state = stream(*key)
        return [uniform_number(state) for _ in range(1000)]

    assert numbers(0, 1, 2) == numbers(0, 1, 2)
    keys = [(0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 1, 3), (0, 2, 1)]
    assert len({tuple(numbers(*key)) for key in keys}) == len(keys)
    drawn = numbers(0, 1, 2)
    assert 0 <= min(drawn) < 0.01
    assert 0.99 < max(drawn) < 1
    assert abs(sum(drawn) / 1000 - 0.5) < 0.05
    state = stream(4, 4, 4)
    assert {below(state, 3) for _ in range(100)} == {0, 1, 2}


def test_masses_sum_over_runs() -> None:
    index = build_walk_index([small_graph(2).train])
    source, time = index.facts[BY_TIME, SOURCE], index.facts[BY_TIME, TIME].tolist()
    for row in range(len(time)):
        run = range(index.bounds[source[row]], row + 1)
        wanted = sum(math.exp((time[i] - time[row]) / 24) for i in run)
        assert index.mass[BY_TIME, row] == pytest.approx(wanted)


def test_static_facts_have_no_walks(toy_graph: KnowledgeGraph) -> None:
    with pytest.raises(MiningError, match="no walks in time"):
        build_walk_index([toy_graph.train])
