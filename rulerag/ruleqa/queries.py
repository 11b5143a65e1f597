"""The query sets of RuleQA: the balanced sample, and the halves that F_R and F_G come from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rulerag.errors import EmptyDataError
from rulerag.kg import KnowledgeGraph
from rulerag.rules import RuleBank
from rulerag.types import Query


def balanced(
    queries: Sequence[Query],
    graph: KnowledgeGraph,
    size: int,
    random: np.random.Generator,
) -> list[str]:
    """Ids of a sample with equal parts of popular and long-tail subjects and answers.

    An entity's popularity is its number of training facts. The queries fall into four cells:
    subject above or up to the median, best-known answer above or up to the median. Each cell
    gives the same number of queries; what a small cell cannot give, the others do.

    Args:
        queries: what the sample is drawn from.
        graph: whose training facts are counted.
        size: how many ids; all where there are fewer queries.
        random: decides the sample.

    Raises:
        EmptyDataError: there is no query to draw.
    """
    if not queries:
        raise EmptyDataError(
            f"no test query of {graph.name!r} has a guiding rule",
            hint="rules need relations that hold between the same entities, or chains of two: give "
            "a graph with more facts, or lower thresholds (min_support=1 min_confidence=0)",
        )
    train = graph.train
    ends = np.concatenate([train.subject, train.object])
    popularity = np.bincount(ends, minlength=len(graph.entities))
    ids = graph.entities.id
    subject = np.array([popularity[ids(query.subject)] for query in queries])
    label = graph.entities.name_of_label
    answer = np.array([max(popularity[ids(label(a))] for a in query.answers) for query in queries])
    cell = 2 * (subject > np.median(subject)) + (answer > np.median(answer))
    pools = [random.permutation(np.flatnonzero(cell == c)).tolist() for c in range(4)]
    chosen: list[int] = []
    while len(chosen) < min(size, len(queries)):
        for pool in pools:
            if pool and len(chosen) < size:
                chosen.append(pool.pop())
    return [queries[i].id for i in sorted(chosen)]


def fine_tuning_halves(
    queries: Sequence[Query],
    rules: RuleBank,
    tested: Collection[Query],
    random: np.random.Generator,
) -> tuple[list[Query], list[Query]]:
    """The queries of F_R and of F_G: two disjoint halves of those with a guiding rule.

    A static graph asks some (subject, relation) in validation and in test, about other objects:
    such a question must not be trained on, and is left out.

    Args:
        queries: the questions about validation facts.
        rules: the rule bank.
        tested: the test queries.
        random: decides the halves.
    """
    asked = {(query.subject, query.relation, query.timestamp) for query in tested}
    guided = [
        query
        for query in queries
        if rules.for_head(query.relation)
        and (query.subject, query.relation, query.timestamp) not in asked
    ]
    order = random.permutation(len(guided))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    return [guided[i] for i in sorted(first)], [guided[i] for i in sorted(second)]
