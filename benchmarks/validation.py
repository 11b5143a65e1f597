"""A validation twin of a benchmark: settings are chosen on it, so that test queries stay unseen.

The twin asks about validation facts. Between the last document and the first query it leaves the
same gap in time that the test queries have: settings chosen without the gap would lean on
yesterday's facts, which the test queries do not have.
"""

from __future__ import annotations

import numpy as np

from rulerag.errors import EmptyDataError
from rulerag.kg.graph import KnowledgeGraph

__all__ = ["validation_graph"]


def validation_graph(graph: KnowledgeGraph, *, seed: int = 0) -> KnowledgeGraph:
    """The same graph one step earlier: validation facts are asked, training facts are shortened.

    Temporal: with ``gap = first test time - last training time``, the twin's training facts end
    ``gap`` before the first validation time; the facts in between are its validation split.
    Static: a tenth of the training facts, drawn by seed, is the twin's validation split.

    Args:
        graph: a graph with the splits train, valid and test.
        seed: for static graphs.

    Raises:
        EmptyDataError: a split is empty, or nothing is left to train on.
    """
    train, valid, test = graph.train, graph.valid, graph.test
    if train.timestamp is None or valid.timestamp is None or test.timestamp is None:
        held = np.random.default_rng(seed).random(len(train)) < 0.1
        shorter, between = train.select(~held, "train"), train.select(held, "valid")
    else:
        gap = int(test.timestamp.min() - train.timestamp.max())
        cut = int(valid.timestamp.min()) - gap
        shorter = train.select(train.timestamp <= cut, "train")
        between = train.select(train.timestamp > cut, "valid")
    if not len(shorter) or not len(between):
        raise EmptyDataError(f"{graph.name}: too few training facts for a validation twin")
    return KnowledgeGraph(
        graph.entities,
        graph.relations,
        {"train": shorter, "valid": between, "test": valid},
        calendar=graph.calendar,
        name=f"{graph.name}-validation",
    )
