"""Candidates named by retrieved documents: what text search knows and facts alone do not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rulerag.candidates.facts import CorpusFacts
from rulerag.composition import check_range, register
from rulerag.io import fingerprint_object
from rulerag.protocols import Retriever, ScoredCandidates
from rulerag.types import Query, ScoredDocument, Support

# Documents that an explanation names.
_NAMED = 3


class _Named(NamedTuple):
    """A document that names a candidate.

    Args:
        entity: the candidate's id.
        often: how often the relation has it as an object.
        found: the document.
        row: its first fact; None for a text without facts, which mentions the candidate.
    """

    entity: int
    often: float
    found: ScoredDocument
    row: int | None


@register("scorer", "retrieved")
class Retrieved:
    """The candidates that retrieved documents name, each by the ranks of its documents.

    A document names the entity in it, other than the query's subject, that is most often an object
    of the asked relation; of equal ones the first. A document at rank p (from 1) gives its
    candidate ``1 / p``. Documents whose facts are not among those at hand, or not from before the
    question's time, are passed over, and so is what is stated already of a prediction on undated
    facts. A text without facts names what it mentions (:attr:`rulerag.Document.entities`) and the
    asked relation has as an object elsewhere.

    Args:
        facts: the facts that candidates are known from.
        retriever: over the documents of the same corpus.
        depth: documents of a query.

    Raises:
        ConfigError: ``depth`` below 1.
    """

    def __init__(self, facts: CorpusFacts, retriever: Retriever, *, depth: int = 50) -> None:
        check_range("depth", depth, 1)
        self.facts = facts
        self.retriever = retriever
        self.depth = depth

    title = "retrieved"

    @property
    def names(self) -> Sequence[str]:
        """The names of entities by id."""
        return self.facts.names

    @cached_property
    def fingerprint(self) -> str:
        """Names the facts, the retriever and the depth."""
        parts = [self.facts.fingerprint, self.retriever.fingerprint, self.depth]
        return fingerprint_object([self.title, *parts])

    def over(self, facts: CorpusFacts) -> Retrieved:
        """The same scorer over other facts of the same documents."""
        return Retrieved(facts, self.retriever, depth=self.depth)

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        """Return, for each query, the candidates that its documents name, best first."""
        found = self.retriever.retrieve(queries, self.depth)
        coded = zip(*(column.tolist() for column in self.facts.coded(queries)), strict=True)
        return [
            self._one(query, listed, *ids)
            for query, listed, ids in zip(queries, found, coded, strict=True)
        ]

    def _one(
        self,
        query: Query,
        listed: Sequence[ScoredDocument],
        subject: int,
        relation: int,
        time: int,
    ) -> ScoredCandidates:
        answers, counts = self.facts.answers(relation, time)
        often = dict(zip(answers.tolist(), counts.tolist(), strict=True))
        skipped = {subject}
        if query.prediction and not self.facts.is_dated:
            objects = self.facts.table.object[self.facts.stated(subject, relation)]
            skipped.update(objects.tolist())
        weight: dict[int, float] = {}
        named: dict[int, list[_Named]] = {}
        for scored in listed:
            one = self._named(scored, skipped, often, time)
            if one is not None:
                weight[one.entity] = weight.get(one.entity, 0.0) + 1 / scored.rank
                named.setdefault(one.entity, []).append(one)
        # A stable sort: of equal candidates the one that was found first stays first.
        order = sorted(weight, key=lambda entity: (-weight[entity], -often.get(entity, 0)))

        def explain(entity: int) -> tuple[Support, ...]:
            documents = named.get(entity, [])[:_NAMED]
            return tuple(
                Support(
                    self.title,
                    f"found by the question at rank {one.found.rank}",
                    () if one.row is None else (self.facts.fact(one.row),),
                    (one.found.document.id,),
                )
                for one in documents
            )

        score = np.array([weight[entity] for entity in order], dtype=np.float64)
        return ScoredCandidates(self.names, np.array(order, dtype=np.int64), score, explain)

    def _named(
        self, scored: ScoredDocument, skipped: set[int], often: dict[int, float], time: int
    ) -> _Named | None:
        rows = self._rows.get(scored.document.id, ())
        table, times = self.facts.table, self.facts.times
        best: _Named | None = None
        for row in (row for row in rows if times[row] < time):
            for entity in (int(table.subject[row]), int(table.object[row])):
                count = often.get(entity, 0.0)
                if entity not in skipped and (best is None or count > best.often):
                    best = _Named(entity, count, scored, row)
        if scored.document.facts:
            return best
        known = self.facts.table.entities
        for name in scored.document.entities:
            entity = known.id(name) if name in known else -1
            count = often.get(entity, 0.0)
            # Of what a text mentions, only what the relation is known to have can be an answer.
            if count and entity not in skipped and (best is None or count > best.often):
                best = _Named(entity, count, scored, None)
        return best

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """The rows of the facts that each document states."""
        rows: dict[str, list[int]] = {}
        for row, owner in enumerate(self.facts.owner.tolist()):
            rows.setdefault(self.facts.documents[owner].id, []).append(row)
        return rows
