"""Ranks against plain counting."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rulerag.evaluation.link_prediction.ranks import (
    PRIORS,
    Prior,
    Ranks,
    measures,
    queries_of,
    rank_answers,
)
from rulerag.kg.graph import KnowledgeGraph
from rulerag.mining.inference.engine import Candidates
from rulerag.types import Fact

Row = tuple[int, int, int, int]


def random_facts(rng: random.Random, count: int, first: int) -> list[Fact]:
    return [
        Fact(
            f"e{rng.randrange(7)}",
            f"r{rng.randrange(2)}",
            f"e{rng.randrange(7)}",
            first + rng.randrange(2),
        )
        for _ in range(count)
    ]


def plain_rank(
    scores: dict[int, tuple[float, int]],
    answer: int,
    others: set[int],
    counts: dict[int, int],
    where: str,
    num_entities: int,
) -> tuple[int, int]:
    """Best and worst rank, by sorting all entities that anything scores."""
    keys: dict[int, tuple[float, ...]] = {}
    for entity in range(num_entities):
        if entity in scores:
            keys[entity] = scores[entity]
            if where == "everywhere":
                keys[entity] += (counts.get(entity, 0),)
        elif counts.get(entity) and (
            where == "everywhere" or (where == "unreached" and not scores)
        ):
            keys[entity] = (-1.0, 0, counts[entity])
    if answer not in keys:
        return num_entities, num_entities
    rest = [key for entity, key in keys.items() if entity not in others and entity != answer]
    above = sum(key > keys[answer] for key in rest)
    return above + 1, above + 1 + sum(key == keys[answer] for key in rest)


def both_ways(facts: list[Fact], graph: KnowledgeGraph) -> list[Row]:
    ids, relation = graph.entities.id, graph.relations.id
    forward = [(ids(s), relation(r), t, ids(o)) for s, r, o, t in facts]
    shift = len(graph.relations)
    return forward + [(o, r + shift, t, s) for s, r, t, o in forward]


@pytest.mark.parametrize("where", PRIORS)
@pytest.mark.parametrize("seed", range(8))
def test_ranks_equal_plain_counting(seed: int, where: str) -> None:
    rng = random.Random(seed)
    train, test = random_facts(rng, 12, 0), random_facts(rng, 12, 2)
    graph = KnowledgeGraph.from_facts(train, test=test)
    size = len(graph.entities)
    queries = queries_of(graph.test, list(graph.splits.values()))
    rows = both_ways(test, graph)
    columns = (queries.subject, queries.relation, queries.time, queries.answer)
    assert sorted(zip(*map(np.ndarray.tolist, columns), strict=True)) == sorted(rows)

    scores = [
        {e: (rng.randrange(3) / 2, rng.randrange(2)) for e in range(size) if rng.random() < 0.5}
        if rng.random() < 0.8
        else {}
        for _ in rows
    ]
    candidates = Candidates(
        np.arange(len(rows)),
        np.cumsum([0, *map(len, scores)]),
        np.array([e for found in scores for e in found], np.int32),
        np.array([score for found in scores for score, _ in found.values()]),
        np.array([tie for found in scores for _, tie in found.values()], np.int32),
    )
    ranks = rank_answers(queries, candidates, Prior.of(graph.train), size, where)
    true = set(rows)
    trained = both_ways(train, graph)
    for number, (s, r, t, answer) in enumerate(zip(*map(np.ndarray.tolist, columns), strict=True)):
        others = {o for a, b, c, o in true if (a, b, c) == (s, r, t)} - {answer}
        same = [o for _, b, _, o in trained if b == r] or [o for *_, o in trained]
        counts = {o: same.count(o) for o in same}
        wanted = plain_rank(scores[number], answer, others, counts, where, size)
        assert (ranks.best[number], ranks.worst[number]) == wanted
        assert ranks.reached[number] == (answer in scores[number])


def test_measures_by_hand() -> None:
    ranks = Ranks(np.array([1.0, 2.0]), np.array([2.0, 4.0]), np.array([True, False]))
    found = measures(ranks)
    assert found["mrr"] == pytest.approx((1 / 1.5 + 1 / 3) / 2)
    assert found["mrr_best"] == pytest.approx((1 + 1 / 2) / 2)
    assert found["mrr_worst"] == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert found["mrr_rounded_down"] == pytest.approx((1 + 1 / 3) / 2)
    assert (found["hits@1"], found["hits@1_best"]) == (0.0, 0.5)
    assert (found["hits@3"], found["hits@10"], found["reached"]) == (1.0, 1.0, 0.5)
