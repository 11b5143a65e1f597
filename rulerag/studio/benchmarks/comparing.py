"""Two ways to answer the queries of a benchmark, query by query: where one helps, where it hurts.

With and without rules, two encoders, two readers: the same question to both, the rank of the first
document with an accepted answer, and what was answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulerag.composition import check_range
from rulerag.evaluation import AnswerMatcher, outcome_of
from rulerag.studio.benchmarks.opened import SYMBOLIC, Benchmark
from rulerag.studio.benchmarks.runs import RunPair, RunRow, first_rank
from rulerag.types import GenerationRequest, Query

_TOGETHER = 32
"""So many questions are read at once, so that a stop is heard in between."""


@dataclass(frozen=True)
class Way:
    """One way to answer: what searches, and what reads; nothing reads where that is empty."""

    retriever: str = "guided"
    generator: str = SYMBOLIC


@dataclass(frozen=True)
class Differences(RunPair):
    """Queries both ways.

    Args:
        rows: each query with what came of it the first and the second way.
        first: the first way.
        second: the second.
        query_set: what the queries are of.
        of: how many queries the set has; where ``rows`` are fewer, they are a sample of it.
    """

    first: Way
    second: Way
    query_set: str
    of: int


def differences(
    benchmark: Benchmark,
    first: Way,
    second: Way,
    *,
    query_set: str = "full",
    most: int = 200,
    top_k: int = 10,
    stopped: Callable[[], bool] = lambda: False,
) -> Differences:
    """Ask queries of a benchmark two ways.

    Args:
        benchmark: the benchmark.
        first: one way.
        second: the other.
        query_set: a set or split of its queries.
        most: so many queries at most; where there are more, the same sample each time.
        top_k: documents per query.
        stopped: looked at between questions; true ends the run with the queries so far.

    Raises:
        UnknownNameError: there is no such retriever or query set.
        ConfigError: ``most`` is below 1.
    """
    check_range("most", most, 1)
    every = benchmark.dataset.query_set(query_set)
    chosen = every
    if len(every) > most:
        chosen = [every[n] for n in sorted(random.Random(0).sample(range(len(every)), most))]
    rows: list[tuple[RunRow, RunRow]] = []
    matcher = AnswerMatcher()
    for start in range(0, len(chosen), _TOGETHER):
        if stopped():
            break
        part = chosen[start : start + _TOGETHER]
        one, two = (_rows(benchmark, way, part, top_k, matcher) for way in (first, second))
        rows += zip(one, two, strict=True)
    return Differences(tuple(rows), first, second, query_set, len(every))


def _rows(
    benchmark: Benchmark, way: Way, queries: Sequence[Query], top_k: int, matcher: AnswerMatcher
) -> list[RunRow]:
    found = benchmark.retrieve_all(queries, top_k, way.retriever)
    requests = [
        GenerationRequest(query, tuple(one.document for one in documents), tuple(rules))
        for query, (documents, rules) in zip(queries, found, strict=True)
    ]
    replies = [""] * len(queries)
    if way.generator:
        replies = [one.text for one in benchmark.generator(way.generator).generate(requests)]
    rows = []
    for request, answer in zip(requests, replies, strict=True):
        query = request.query
        ended = outcome_of(answer, query.answers, request.documents, matcher)
        about = query.id, query.text, answer, tuple(query.answers)
        rows.append(RunRow(*about, ended.name, first_rank(ended.holding)))
    return rows
