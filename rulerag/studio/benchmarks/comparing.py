"""Two ways to answer the queries of a benchmark, query by query: where one helps, where it hurts.

With and without rules, two encoders, two readers: the same question to both, the rank of the first
document with an accepted answer, and what was answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulerag.composition import check_range
from rulerag.evaluation import AnswerMatcher
from rulerag.studio.benchmarks.opened import SYMBOLIC, Benchmark
from rulerag.text import exact_match
from rulerag.types import GenerationRequest, Query

_TOGETHER = 32
"""So many questions are read at once, so that a stop is heard in between."""


@dataclass(frozen=True)
class Way:
    """One way to answer: what searches, and what reads; nothing reads where that is empty."""

    retriever: str = "guided"
    generator: str = SYMBOLIC


@dataclass(frozen=True)
class Outcome:
    """What came of one query, one way.

    Args:
        rank: of the first document with an accepted answer, from 1; None where none has one.
        answer: what was answered.
        right: whether it is an accepted answer.
    """

    rank: int | None
    answer: str
    right: bool

    @property
    def worth(self) -> tuple[float, bool]:
        """What outcomes are compared by: the reciprocal rank, and the answer where ranks tie."""
        return (0.0 if self.rank is None else 1 / self.rank), self.right


@dataclass(frozen=True)
class Difference:
    """One query, both ways.

    Args:
        query_id: its id.
        question: its words.
        answers: the accepted answers.
        first: what came of the first way.
        second: what came of the second.
    """

    query_id: str
    question: str
    answers: tuple[str, ...]
    first: Outcome
    second: Outcome

    @property
    def gain(self) -> tuple[float, int]:
        """How much better the second is: of reciprocal rank, then of right answers."""
        (one, right), (two, also) = self.first.worth, self.second.worth
        return two - one, int(also) - int(right)


@dataclass(frozen=True)
class Differences:
    """Queries both ways, those first that the second way helps most.

    Args:
        first: the first way.
        second: the second.
        query_set: what the queries are of.
        of: how many queries the set has; where ``rows`` are fewer, they are a sample of it.
        rows: the queries, by what the second way gains.
    """

    first: Way
    second: Way
    query_set: str
    of: int
    rows: tuple[Difference, ...]

    @property
    def better(self) -> tuple[Difference, ...]:
        """Where the second way is better, the greatest gain first."""
        return tuple(row for row in self.rows if row.gain > (0, 0))

    @property
    def worse(self) -> tuple[Difference, ...]:
        """Where it is worse, the greatest loss first."""
        return tuple(row for row in reversed(self.rows) if row.gain < (0, 0))

    def means(self, cutoffs: Sequence[int] = (1, 5, 10)) -> dict[str, tuple[float, float]]:
        """Both ways over all queries: answer recall at some depths, reciprocal rank, exact match.

        Recall as in :mod:`rulerag.evaluation`: an accepted answer stands in one of the first k.
        """
        if not self.rows:
            return {}
        sides = [[row.first for row in self.rows], [row.second for row in self.rows]]

        def mean(of: Callable[[Outcome], float]) -> tuple[float, float]:
            one, two = (sum(map(of, side)) / len(side) for side in sides)
            return one, two

        made = {
            f"answer_recall@{k}": mean(lambda one, k=k: one.rank is not None and one.rank <= k)  # type: ignore[misc]
            for k in cutoffs
        }
        made["mrr"] = mean(lambda one: one.worth[0])
        made["exact_match"] = mean(lambda one: one.right)
        return made


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
    rows: list[Difference] = []
    matcher = AnswerMatcher()
    for start in range(0, len(chosen), _TOGETHER):
        if stopped():
            break
        part = chosen[start : start + _TOGETHER]
        sides = [_outcomes(benchmark, way, part, top_k, matcher) for way in (first, second)]
        rows += [
            Difference(query.id, query.text, tuple(query.answers), one, two)
            for query, one, two in zip(part, *sides, strict=True)
        ]
    rows.sort(key=lambda row: row.gain, reverse=True)
    return Differences(first, second, query_set, len(every), tuple(rows))


def _outcomes(
    benchmark: Benchmark, way: Way, queries: Sequence[Query], top_k: int, matcher: AnswerMatcher
) -> list[Outcome]:
    found = benchmark.retrieve_all(queries, top_k, way.retriever)
    read = [tuple(one.document for one in documents) for documents, _ in found]
    said = [""] * len(queries)
    if way.generator:
        requests = [
            GenerationRequest(query, documents, tuple(rules))
            for query, documents, (_, rules) in zip(queries, read, found, strict=True)
        ]
        said = [one.text for one in benchmark.generator(way.generator).generate(requests)]
    return [
        Outcome(
            matcher.first_rank(documents, query.answers),
            answer,
            bool(exact_match(answer, query.answers)),
        )
        for query, documents, answer in zip(queries, read, said, strict=True)
    ]
