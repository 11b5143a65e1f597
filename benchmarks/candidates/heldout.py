"""Joined scorers on datasets that nothing was chosen on, beside each scorer and trivial baselines.

Datasets are those of ``rulerag ruleqa build --kg``, of any graph. Where joining is behind its best
scorer or a baseline beyond chance, the table says so. The best scorer is the one that is best on
these very questions, which flatters it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.baselines.counts import BASELINES, CountedFacts, best_and_tied
from benchmarks.candidates.study import METHOD, right_places
from rulerag.assembly import make_pipeline, make_scorer, method
from rulerag.candidates.learned import LearnedScorer
from rulerag.errors import ConfigError
from rulerag.evaluation import holm, paired_randomization_test, verdict
from rulerag.protocols import ScoredCandidates
from rulerag.ruleqa import RuleQADataset
from rulerag.text import exact_match
from rulerag.types import Query

OTHER = "bm25-guided__symbolic"
# Questions that are answered at once.
_BATCH = 512


def heldout(
    dataset: RuleQADataset, query_set: str, earlier: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Fractions of questions with a right first answer.

    Args:
        dataset: with its questions.
        query_set: which questions.
        earlier: what this gave before, which is given again for the same dataset and questions.

    Raises:
        ConfigError: the configuration joins no scorers.
    """
    configs = {name: method(name, static=not dataset.calendar) for name in (METHOD, OTHER)}
    pipelines = {name: make_pipeline(config, dataset) for name, config in configs.items()}
    asked = dataset.query_set(query_set)
    said = {
        "dataset": dataset.name,
        "dataset_fingerprint": dataset.fingerprint,
        "query_set": query_set,
        "questions": len(asked),
        "methods": {name: dict(one.fingerprints) for name, one in pipelines.items()},
    }
    if earlier is not None and said.items() <= earlier.items():
        return dict(earlier)
    started = time.process_time()
    right = {name: _answered(one, asked) for name, one in pipelines.items()}
    joined = make_scorer(configs[METHOD], dataset)
    if not isinstance(joined, LearnedScorer):
        raise ConfigError("no learned scorer", key="retriever.scorer", hint="type: learned")
    found = joined.score(asked)
    counted = CountedFacts(dataset.corpus)
    entities = dataset.labels["entities"]
    for one in BASELINES:
        if counted.dated or not one.needs_time:
            best = [best_and_tied(one.candidates(counted, q), 1, entities)[0] for q in asked]
            right[one.name] = [
                exact_match(few[0] if few else "", q.answers)
                for few, q in zip(best, asked, strict=True)
            ]
    alone = {
        str(getattr(one, "title", "")): right_places(one.score(asked), asked, joined.facts)[:, 0]
        for one in joined.scorers
    }
    name = max(alone, key=lambda title: float(alone[title].mean()))
    right[f"best scorer alone: {name}"] = alone[name].astype(float).tolist()
    mine = right[METHOD]
    others = [of for of in right.values() if of is not mine]
    p_values = holm([paired_randomization_test(mine, of) for of in others])
    rows, corrected = [], iter(p_values)
    for title, of in right.items():
        row: dict[str, Any] = {"method": title, "em": float(np.mean(of))}
        if of is not mine:
            row["ahead"] = float(np.mean(mine) - np.mean(of))
            row["p"] = next(corrected)
            row["verdict"] = verdict(row["ahead"], row["p"])
        rows.append(row)
    return {
        **said,
        "facts": len(joined.facts),
        "learned_from": joined.learned.questions,
        "trees": joined.learned.trees is not None,
        "tied": _tied(found),
        "unanswered": float(np.mean([not len(one) for one in found])),
        "rows": rows,
        "alone": {title: float(of.mean()) for title, of in alone.items()},
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def _answered(pipeline: Any, asked: Sequence[Query]) -> list[float]:
    """Whether each question is answered rightly."""
    answers = []
    for start in range(0, len(asked), _BATCH):
        answers += pipeline.answer(asked[start : start + _BATCH])
    return [exact_match(one.completion.text, one.query.answers) for one in answers]


def _tied(found: Sequence[ScoredCandidates]) -> float:
    """How often the first candidate is no better than the second."""
    return float(np.mean([len(one) > 1 and one.score[0] == one.score[1] for one in found]))
