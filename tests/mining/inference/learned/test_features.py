"""Evidence for candidates against plain counting on random graphs."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from rulerag.kg.calendar import Calendar
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.inference.learned.features import AGES, COUNTS, RULE_SPAN, gather, new_evidence
from rulerag.mining.inference.learned.history import (
    ACTIVE_SPAN,
    ANSWER_SPANS,
    PAIR_SPAN,
    build_history,
)
from rulerag.mining.inference.learned.logit import room_for
from rulerag.mining.paths.body_paths import new_reached
from rulerag.mining.paths.coded_rules import code_rules
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Fact

ENTITIES, RELATIONS, STEP = 6, 3, 24


def random_graph(rng: random.Random) -> KnowledgeGraph:
    facts = {
        Fact(f"e{rng.randrange(6)}", f"r{rng.randrange(3)}", f"e{rng.randrange(6)}", t)
        for t in (rng.randrange(40) * STEP for _ in range(120))
    }
    everything = [Fact(f"e{i}", f"r{i % 3}", f"e{(i + 1) % 6}", 0) for i in range(6)]
    calendar = Calendar(unit="hour", origin="2014-01-01", step=STEP)
    return KnowledgeGraph.from_facts([*sorted(facts), *everything], calendar=calendar)


def place_of(value: int, limits: tuple[int, ...]) -> int:
    return sum(value > limit for limit in limits)


def class_of(times: list[int], now: int) -> int:
    if not times:
        return -1
    age = (now - max(times)) // STEP
    return place_of(age, AGES) * (len(COUNTS) + 1) + place_of(len(times), COUNTS)


def faded(times: list[int], now: int, span: float) -> float:
    return math.log1p(sum(math.exp((time - now) / STEP / span) for time in times))


@pytest.mark.parametrize("seed", range(6))
def test_evidence_equals_plain_counting(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng)
    quality = RuleQuality(support=3, body_size=6, confidence=0.5)
    bodies = [(f"r{i}", *ends) for i in range(3) for ends in (("?x", "?y"), ("?y", "?x"))]
    rules = [
        Rule(Atom("r0", "?x", "?y"), (Atom(*body),), True, quality)
        for body in rng.sample(bodies, 4)
    ]
    history = build_history([graph.train])
    coded, coded_rules = code_rules(rules, graph.relations)
    table = graph.train
    columns = (table.subject, table.relation, table.object, table.timestamp)
    both = {
        row
        for s, r, o, t in zip(*map(np.ndarray.tolist, columns), strict=True)
        for row in ((s, r, o, t), (o, r + RELATIONS, s, t))
    }
    single = np.full(2 * RELATIONS, -1, np.int32)
    room = room_for(history, np.arange(ENTITIES, dtype=np.int32))
    evidence = new_evidence(ENTITIES, room)
    for subject in range(ENTITIES):
        for relation in (0, graph.relations.id("r0") + RELATIONS):
            now = rng.randrange(10, 41) * STEP
            query = (subject, relation, now)
            gather(history, coded, single, *query, new_reached(ENTITIES), evidence)
            before = {row for row in both if row[3] < now}
            for entity in range(ENTITIES):
                met = [row for row in before if (row[0], row[2]) == (subject, entity)]
                answered = [t for _, r, o, t in before if (r, o) == (relation, entity)]
                slot = evidence.slot[entity]
                assert (slot >= 0) == bool(met or answered)
                if slot < 0:
                    continue
                inverse = (relation + RELATIONS) % (2 * RELATIONS)
                wanted = [
                    class_of([t for _, r, _, t in met if r in kinds], now)
                    for kinds in ({relation}, {inverse}, set(range(2 * RELATIONS)))
                ]
                assert evidence.table[slot].tolist() == wanted
                active = [t for s, _, _, t in before if s == entity]
                dense = [faded(answered, now, span) for span in ANSWER_SPANS]
                dense.append(math.log1p(len(answered)))
                dense += [faded(active, now, ACTIVE_SPAN), math.log1p(len(active))]
                assert evidence.dense[slot, :5] == pytest.approx(dense, abs=1e-5)
                assert not evidence.dense[slot, 5:].any()
                fired = {}
                for number in range(evidence.sizes[1]):
                    if evidence.row[number] == slot:
                        fired[int(evidence.rule[number])] = evidence.curve[number].tolist()
                expected = {}
                for number in range(coded.bounds[relation], coded.bounds[relation + 1]):
                    times = [t for _, r, _, t in met if r == coded.body[number, 0]]
                    if times:
                        recency = math.exp((max(times) - now) / STEP / RULE_SPAN)
                        curve = [recency, math.log1p(len(times)), faded(times, now, PAIR_SPAN)]
                        expected[number] = pytest.approx(curve, abs=1e-5)
                assert fired == expected
    assert set(coded_rules) == set(rules)
