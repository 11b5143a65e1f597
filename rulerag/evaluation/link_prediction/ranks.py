"""Ranks of the right answers among candidates: filtered, ties kept apart, and their measures.

A query asks for the object or the subject of one test fact. Other true answers of the same query
(the same time too, in a temporal graph) are taken out. Candidates of equal score share a *best*
and a *worst* rank; their mean is the rank that counts. An entity that nothing scores has the last
rank of all, the number of entities, in each of the three, as TLogic's evaluation has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rulerag.arrays import Ints, Longs
from rulerag.kg import FactTable
from rulerag.mining.indexes import first_after
from rulerag.mining.inference import Candidates
from rulerag.mining.runtime import compiled

PRIORS = ("none", "unreached", "everywhere")
"""Where the frequency of an answer with a relation counts: nowhere; in queries without any
candidate (TLogic's baseline); or there, between ties, and behind all candidates."""


@dataclass(frozen=True)
class Queries:
    """Queries with their answers, sorted by known entity.

    Args:
        subject: int32 array of shape (q,), known entities.
        relation: int32 array of shape (q,), directed relations.
        time: int32 array of shape (q,), zeros in a static graph.
        answer: int32 array of shape (q,), right answers.
        other_bounds: int64 array of shape (q + 1,), other true answers of each query.
        other: int32 array, entities.
    """

    subject: Ints
    relation: Ints
    time: Ints
    answer: Ints
    other_bounds: Longs
    other: Ints

    def __len__(self) -> int:
        return len(self.subject)

    def part(self, start: int, end: int) -> Queries:
        """The queries of some rows."""
        rows = slice(start, end)
        bounds = self.other_bounds[start : end + 1]
        others = self.other[bounds[0] : bounds[-1]]
        columns = (self.subject[rows], self.relation[rows], self.time[rows], self.answer[rows])
        return Queries(*columns, bounds - bounds[0], others)


def queries_of(
    facts: FactTable, known: Sequence[FactTable], *, limit: int | None = None
) -> Queries:
    """Both queries of every fact of a split, and the other true answers that some table knows.

    Args:
        facts: the split; a duplicate is a query each time.
        known: every split, this one too.
        limit: only the first so many facts.
    """
    true = np.unique(np.concatenate([_both_ways(table) for table in known]), axis=0)
    rows = _both_ways(facts, limit)
    rows = rows[np.lexsort(rows.T[::-1])]
    low, high = (_search(true, rows[:, :3], side) for side in ("left", "right"))
    count = high - low
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    owner = np.repeat(np.arange(len(rows)), count)
    other = true[np.repeat(low, count) + place, 3]
    keep = other != rows[owner, 3]
    bounds = np.concatenate([[0], np.bincount(owner[keep], minlength=len(rows)).cumsum()])
    entity, relation, time, answer = (np.ascontiguousarray(row, np.int32) for row in rows.T)
    return Queries(entity, relation, time, answer, bounds, other[keep].astype(np.int32))


def _both_ways(table: FactTable, limit: int | None = None) -> Longs:
    """Rows (known entity, directed relation, time, answer)."""
    first = slice(limit)
    subject, object_ = table.subject[first], table.object[first]
    time = np.zeros_like(subject) if table.timestamp is None else table.timestamp[first]
    relation = table.relation[first]
    forward = np.stack([subject, relation, time, object_], axis=1)
    backward = np.stack([object_, relation + len(table.relations), time, subject], axis=1)
    return np.concatenate([forward, backward]).astype(np.int64)


def _search(rows: Longs, wanted: Longs, side: str) -> Longs:
    """The positions of rows of three columns among sorted rows of more."""
    both = np.concatenate([rows[:, :3], wanted])
    low = both.min(axis=0, initial=0)
    span = both.max(axis=0, initial=0) - low + 1
    code, asked = (
        ((part[:, 0] - low[0]) * span[1] + part[:, 1] - low[1]) * span[2] + part[:, 2] - low[2]
        for part in (rows[:, :3], wanted)
    )
    places: Longs = np.searchsorted(code, asked, side="left" if side == "left" else "right")
    return places


class Prior(NamedTuple):
    """How often each entity answers each directed relation.

    Attributes:
        bounds: int64 array of shape (2 R + 2,), entries of each directed relation; the last row
            counts over all relations and is used for relations without any fact.
        entity: int32 array, ascending for each relation.
        facts: int64 array, how many facts each is the answer of.
    """

    bounds: Longs
    entity: Ints
    facts: Longs

    @classmethod
    def of(cls, table: FactTable) -> Prior:
        """Count the facts of a table."""
        rows = _both_ways(table)
        relations, entities = 2 * len(table.relations), max(len(table.entities), 1)
        code = np.concatenate([rows[:, 1], np.full(len(rows), relations)]) * entities
        code, count = np.unique(code + np.tile(rows[:, 3], 2), return_counts=True)
        bounds = np.searchsorted(code, np.arange(relations + 2) * entities)
        return cls(bounds, (code % entities).astype(np.int32), count)


class Ranks(NamedTuple):
    """Ranks of the right answers.

    Attributes:
        best: float64 array of shape (q,), from 1; ties rank behind the answer.
        worst: the same, ties rank before it.
        reached: bool array of shape (q,), whether a rule reached the answer.
    """

    best: npt.NDArray[np.float64]
    worst: npt.NDArray[np.float64]
    reached: npt.NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Iterable[Ranks]) -> Ranks:
        """The ranks of several parts, in order."""
        best, worst, reached = zip(*parts, strict=True)
        return cls(np.concatenate(best), np.concatenate(worst), np.concatenate(reached))


def rank_answers(
    queries: Queries, candidates: Candidates, prior: Prior, num_entities: int, where: str
) -> Ranks:
    """The filtered ranks of the answers.

    Args:
        queries: with their answers.
        candidates: of these queries, in order.
        prior: counts of answers.
        num_entities: entities of the graph; the rank of an answer that nothing scores.
        where: one of :data:`PRIORS`.
    """
    best, worst, reached = _rank(
        (queries.relation, queries.answer, queries.other_bounds, queries.other),
        (candidates.row, candidates.bounds, candidates.entity, candidates.score, candidates.tie),
        prior,
        num_entities,
        PRIORS.index(where),
    )
    return Ranks(best, worst, reached)


@compiled
def _find(entity: Ints, low: int, high: int, wanted: int) -> int:
    place = first_after(entity, low, high, wanted - 1)
    return place if place < high and entity[place] == wanted else -1


@compiled
def _prior_row(prior: Prior, relation: int) -> int:
    return (
        relation if prior.bounds[relation] < prior.bounds[relation + 1] else len(prior.bounds) - 2
    )


@compiled
def _prior_of(prior: Prior, relation: int, entity: int) -> int:
    place = _find(prior.entity, prior.bounds[relation], prior.bounds[relation + 1], entity)
    return prior.facts[place] if place >= 0 else 0


@compiled
def _rank(queries, candidates, prior, num_entities, where):  # type: ignore[no-untyped-def]
    relation, answer, other_bounds, other = queries
    row, bounds, entity, score, tie = candidates
    best = np.full(len(answer), float(num_entities))
    worst, reached = best.copy(), np.zeros(len(answer), np.bool_)
    seen = np.full(num_entities, -1, np.int64)
    for query in range(len(answer)):
        for place in range(other_bounds[query], other_bounds[query + 1]):
            seen[other[place]] = query
        low, high = bounds[row[query]], bounds[row[query] + 1]
        kind = _prior_row(prior, relation[query])
        found = _find(entity, low, high, answer[query])
        reached[query] = found >= 0
        own = _prior_of(prior, kind, answer[query]) if where == 2 else 0
        above, equal = 0, 0
        for place in range(low, high):
            if seen[entity[place]] == query or place == found:
                continue
            seen[entity[place]] = query
            if found < 0 or score[place] > score[found]:
                above += 1
            elif score[place] == score[found]:
                if tie[place] != tie[found]:
                    above += tie[place] > tie[found]
                elif where == 2:
                    count = _prior_of(prior, kind, entity[place])
                    above += count > own
                    equal += count == own
                else:
                    equal += 1
        if found < 0:
            if where == 0 or (where == 1 and high > low):
                continue
            own = _prior_of(prior, kind, answer[query])
            if own == 0:
                continue
            for place in range(prior.bounds[kind], prior.bounds[kind + 1]):
                if seen[prior.entity[place]] != query and prior.entity[place] != answer[query]:
                    above += prior.facts[place] > own
                    equal += prior.facts[place] == own
        best[query], worst[query] = above + 1, above + equal + 1
    return best, worst, reached


def measures(ranks: Ranks) -> dict[str, float]:
    """MRR and Hits@1, 3 and 10 with ties averaged, and with best and worst ranks.

    ``mrr_rounded_down`` takes the mean rank of ties rounded down, as TLogic's "average" does.
    """
    mean = (ranks.best + ranks.worst) / 2
    kinds = {"": mean, "_best": ranks.best, "_worst": ranks.worst, "_rounded_down": mean // 1}
    figures = {}
    for kind, rank in kinds.items():
        figures[f"mrr{kind}"] = float(np.mean(1 / rank)) if len(rank) else 0.0
        for k in (1, 3, 10):
            figures[f"hits@{k}{kind}"] = float(np.mean(rank <= k)) if len(rank) else 0.0
    figures["reached"] = float(np.mean(ranks.reached)) if len(mean) else 0.0
    return figures
