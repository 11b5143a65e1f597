"""What scoring costs on a dataset, apart from retrieval: CPU seconds and memory.

A fresh process loads the dataset, makes the scorer of the configuration, learns its weights, and
scores the questions, as many at once as an evaluation asks and remembering them as it does.
Candidates are found and joined; no document is looked for, and no reason is told.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.candidates.study import METHOD
from benchmarks.common.process_cost import in_fresh_process
from rulerag.assembly import make_scorer, method
from rulerag.candidates.base import RememberedScorer
from rulerag.candidates.learned import LearnedScorer
from rulerag.evaluation.runner import peak_memory_mb
from rulerag.ruleqa import RuleQADataset

# What ``rulerag evaluate`` asks at once.
_BATCH = 512


def measure(folder: Path, query_set: str) -> dict[str, Any]:
    """The scorer of a dataset's configuration on its questions, in a fresh process.

    Args:
        folder: of the dataset.
        query_set: which questions, ``full`` or ``balanced``.

    Raises:
        RuntimeError: the process failed.
    """
    return in_fresh_process("benchmarks.candidates.cost", str(folder), query_set)


def _child(folder: str, query_set: str) -> dict[str, Any]:
    dataset = RuleQADataset.load(folder)
    base = dataset.name.removesuffix("-validation")
    scorer = make_scorer(method(METHOD, base, (), static=not dataset.calendar), dataset)
    asked = dataset.query_set(query_set)
    loaded = peak_memory_mb()
    started = time.process_time()
    if isinstance(scorer, LearnedScorer):
        scorer.learned = scorer.learn()  # not what the cache folder may hold
    learning, learned = time.process_time() - started, peak_memory_mb()
    started = time.process_time()
    remembered = RememberedScorer(scorer)
    for start in range(0, len(asked), _BATCH):
        remembered.score(asked[start : start + _BATCH])
    scoring = time.process_time() - started
    return {
        "questions": len(asked),
        "facts": sum(len(document.facts) for document in dataset.corpus),
        "learning": round(learning, 1),
        "scoring": round(scoring, 1),
        "loaded_mb": round(loaded),
        "learned_mb": round(learned),
        "peak_mb": round(peak_memory_mb()),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_child(*sys.argv[1:])))
