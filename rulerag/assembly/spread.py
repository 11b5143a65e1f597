"""A pipeline on many machines: each worker builds its own, queries go to them in small batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rulerag.parallel import Backend, Copies
from rulerag.pipeline import RuleRAGPipeline
from rulerag.types import Answer, Query, ScoredDocument

AT_ONCE = 64
"""Queries of a task: some seconds of a reader's work, and a batch that searches well."""


class SpreadPipeline:
    """Answers queries as a :class:`~rulerag.RuleRAGPipeline` does, on the workers of a backend.

    Args:
        build: makes the pipeline, in a worker; picklable, and what it reads (a dataset folder,
            models) is there too.
        backend: the workers, such as a :class:`~rulerag.parallel.RayBackend`.

    Attributes:
        seconds: what the workers spent so far by stage, added up.
    """

    def __init__(self, build: Callable[[], RuleRAGPipeline], backend: Backend) -> None:
        self._copies = Copies(partial(_Copy, build), backend)
        self.seconds = {"retrieve": 0.0, "generate": 0.0}

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer queries in order.

        Raises:
            RuleRAGError: a worker died; else what the pipeline raises.
        """
        answers = []
        for some, seconds in self._copies.map("answer", _parts(queries)):
            answers += some
            for stage, value in seconds.items():
                self.seconds[stage] += value
        return answers

    def retrieve(
        self, queries: Sequence[Query], *, union: bool = False
    ) -> list[list[ScoredDocument]]:
        """See :meth:`rulerag.RuleRAGPipeline.retrieve`."""
        found = self._copies.map("retrieve", ((*part, union) for part in _parts(queries)))
        return [documents for some in found for documents in some]


def _parts(queries: Sequence[Query]) -> Iterator[tuple[Sequence[Query]]]:
    return ((queries[n : n + AT_ONCE],) for n in range(0, len(queries), AT_ONCE))


class _Copy:
    """A pipeline in a worker."""

    def __init__(self, build: Callable[[], RuleRAGPipeline]) -> None:
        self._pipeline = build()

    def answer(self, queries: Sequence[Query]) -> tuple[list[Answer], dict[str, float]]:
        before = dict(self._pipeline.seconds)
        answers = self._pipeline.answer(queries)
        return answers, {k: v - before[k] for k, v in self._pipeline.seconds.items()}

    def retrieve(self, queries: Sequence[Query], union: bool) -> list[list[ScoredDocument]]:
        return self._pipeline.retrieve(queries, union=union)
