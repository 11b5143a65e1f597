"""The scorers of a configuration on questions of a dataset: alone, joined, and each left out.

The oracle says what joining could reach at most: whether an answer is the first, or among the first
ten, of any scorer. Every scorer runs once; what is joined afterwards is the same lists. A dataset
whose figures are there is not measured again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from rulerag.arrays import Bools
from rulerag.assembly import make_scorer, method
from rulerag.candidates import CorpusFacts
from rulerag.candidates.base import Movable, RememberedScorer
from rulerag.candidates.learned import LearnedScorer
from rulerag.errors import ConfigError
from rulerag.evaluation import holm, paired_randomization_test, peak_memory_mb, verdict
from rulerag.protocols import CandidateScorer, ScoredCandidates
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query

METHOD = "bm25-scored__candidate-scorer"
_TOP = 10
# What is left out first: what orders the likeliest candidates of the weighted sum.
_TREES = "trees"


class _Kept(RememberedScorer):
    """A scorer that keeps what it found for the questions of this study, and its seconds."""

    def __init__(self, scorer: CandidateScorer, most: int) -> None:
        super().__init__(scorer, most=most)
        self.title = str(getattr(scorer, "title", type(scorer).__name__))
        self.cpu_seconds = 0.0

    def over(self, facts: CorpusFacts) -> CandidateScorer:
        """The same scorer over other facts, which hides facts to learn from."""
        moved: CandidateScorer = cast(Movable, self.scorer).over(facts)
        return moved

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        started = time.process_time()
        found = super().score(queries)
        self.cpu_seconds += time.process_time() - started
        return found


def right_places(found: Sequence[ScoredCandidates], asked: Sequence[Query], facts: Any) -> Bools:
    """Whether the first and one of the first ten candidates answer, shape (q, 2)."""
    right = np.zeros((len(asked), 2), bool)
    for line, (one, query) in enumerate(zip(found, asked, strict=True)):
        good = [facts.entity(entity) in query.answers for entity in one.entity[:_TOP].tolist()]
        right[line] = bool(good[:1] and good[0]), any(good)
    return right


def study(
    dataset: RuleQADataset,
    benchmark: str,
    query_set: str,
    overrides: Sequence[str] = (),
    *,
    ablate: bool = True,
    earlier: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Figures of one dataset.

    Args:
        dataset: with its questions.
        benchmark: what its configuration is called.
        query_set: which questions.
        overrides: changes of the configuration.
        ablate: learn without each kind of scorer, too, and not without trees alone.
        earlier: what this gave before, which is given again where nothing has changed.

    Raises:
        ConfigError: the configuration joins no scorers.
    """
    config = method(METHOD, benchmark, overrides, static=not dataset.calendar)
    joined = make_scorer(config, dataset)
    if not isinstance(joined, LearnedScorer):
        raise ConfigError("no learned scorer", key="retriever.scorer", hint="type: learned")
    asked, facts = dataset.query_set(query_set), joined.facts
    settings = {
        "dataset": dataset.name,
        "dataset_fingerprint": dataset.fingerprint,
        "query_set": query_set,
        "questions": len(asked),
        "config": config.section("retriever").section("scorer").to_dict(),
    }
    same = earlier is not None and settings.items() <= earlier.items()
    if earlier is not None and same and (len(earlier["without"]) > 1 or not ablate):
        return dict(earlier)
    kept = [_Kept(scorer, len(asked) + joined.questions) for scorer in joined.scorers]
    alone = [right_places(one.score(asked), asked, facts) for one in kept]
    seconds = [round(one.cpu_seconds, 2) for one in kept]
    whole = joined.with_scorers(kept)
    started = time.process_time()
    learned = whole.learned
    learning = time.process_time() - started
    started = time.process_time()
    found = whole.score(asked)
    joining = time.process_time() - started
    right = right_places(found, asked, facts)
    ever = np.array(
        [
            any(facts.entity(entity) in query.answers for entity in one.entity.tolist())
            for one, query in zip(found, asked, strict=True)
        ]
    )
    rows = [
        {"scorer": one.title, **_shares(of), "cpu_seconds": spent}
        for one, of, spent in zip(kept, alone, seconds, strict=True)
    ]
    return {
        **settings,
        "learned": _shares(right),
        "oracle": {**_shares(np.any(alone, axis=0)), "any": float(ever.mean())},
        "learned_from": learned.questions,
        "loss": learned.loss,
        "scorers": rows,
        "without": _without(whole, kept, asked, right, ablate=ablate),
        "cpu_seconds": {"learning": round(learning, 2), "joining": round(joining, 2)},
        "peak_memory_mb": round(peak_memory_mb(), 1),
    }


def _without(
    whole: LearnedScorer,
    kept: Sequence[_Kept],
    asked: Sequence[Query],
    right: Bools,
    *,
    ablate: bool,
) -> list[dict[str, Any]]:
    """The trees and each kind of scorer left out, with what is learned anew, and what is missed."""
    kinds = dict.fromkeys(getattr(one.scorer, "kind", one.title) for one in kept)
    rows, p_values = [], []
    for kind in (_TREES, *(kinds if ablate else ())):
        rest = [one for one in kept if getattr(one.scorer, "kind", one.title) != kind]
        if not rest:
            continue
        left = whole.with_scorers(rest)
        if kind == _TREES:
            left.learned = whole.learned._replace(trees=None)
        less = right_places(left.score(asked), asked, whole.facts)
        row: dict[str, Any] = {"kind": kind, **_shares(less)}
        for place, measure in enumerate(("first", "top10")):
            mine, its = right[:, place].astype(float), less[:, place].astype(float)
            row[f"{measure}_added"] = float(mine.mean() - its.mean())
            p_values.append(paired_randomization_test(mine.tolist(), its.tolist()))
        rows.append(row)
    corrected = iter(holm(p_values))
    for row in rows:
        for measure in ("first", "top10"):
            row[f"{measure}_p"] = next(corrected)
            row[f"{measure}_verdict"] = verdict(row[f"{measure}_added"], row[f"{measure}_p"])
    return rows


def _shares(right: Bools) -> dict[str, float]:
    first, top = right.mean(axis=0).tolist()
    return {"first": first, "top10": top}
