"""A validation twin of a benchmark: settings are chosen on it, so that test queries stay unseen.

The twin asks about validation facts. Between the last document and the first query it leaves the
same gap in time that the test queries have: settings chosen without the gap would lean on
yesterday's facts, which the test queries do not have.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rulerag.errors import EmptyDataError
from rulerag.kg.graph import FactTable, KnowledgeGraph

__all__ = ["joined", "validation_graph", "with_held_out"]


def validation_graph(graph: KnowledgeGraph, *, seed: int = 0) -> KnowledgeGraph:
    """The same graph one step earlier: validation facts are asked, training facts are shortened.

    Temporal: with ``gap = first test time - last training time``, the twin's training facts end
    ``gap`` before the first validation time; the facts in between are its validation split.
    Static: about a tenth of the training facts, drawn by seed, is the twin's validation split.
    Where no validation fact links two entities that a training fact links (FB15K-237), the draw
    is of linked pairs with all of their facts, so that none is linked in the twin either.

    Args:
        graph: a graph with the splits train, valid and test.
        seed: for static graphs.

    Raises:
        EmptyDataError: a split is empty, or nothing is left to train on.
    """
    train, valid, test = graph.train, graph.valid, graph.test
    if train.timestamp is None or valid.timestamp is None or test.timestamp is None:
        random, pairs = np.random.default_rng(seed), _pairs(train)
        if np.isin(_pairs(valid), pairs).any():
            held = random.random(len(train)) < 0.1
        else:
            distinct, pair_of = np.unique(pairs, return_inverse=True)
            held = (random.random(len(distinct)) < 0.1)[pair_of]
        shorter, between = train.select(~held, "train"), train.select(held, "valid")
    else:
        gap = int(test.timestamp.min() - train.timestamp.max())
        cut = int(valid.timestamp.min()) - gap
        shorter = train.select(train.timestamp <= cut, "train")
        between = train.select(train.timestamp > cut, "valid")
    if not len(shorter) or not len(between):
        raise EmptyDataError(f"{graph.name}: too few training facts for a validation twin")
    splits = {"train": shorter, "valid": between, "test": valid}
    return _with_splits(graph, splits, f"{graph.name}-validation")


def with_held_out(graph: KnowledgeGraph, number: int, *, seed: int = 0) -> KnowledgeGraph:
    """The graph with some training facts moved, by seed, behind its validation facts.

    Args:
        graph: a graph with the splits train, valid and test.
        number: how many facts move; 0 gives the graph itself.
        seed: decides which.
    """
    if number == 0:
        return graph
    train = graph.train
    held = np.zeros(len(train), dtype=bool)
    held[np.random.default_rng([seed, 1]).permutation(len(train))[:number]] = True
    valid = joined(graph.valid, train.select(held), "valid")
    splits = {"train": train.select(~held, "train"), "valid": valid, "test": graph.test}
    return _with_splits(graph, splits, graph.name)


def joined(first: FactTable, second: FactTable, name: str) -> FactTable:
    """The facts of two tables over the same vocabularies, in order."""
    time = None
    if first.timestamp is not None and second.timestamp is not None:
        time = np.concatenate([first.timestamp, second.timestamp])
    return FactTable(
        first.entities,
        first.relations,
        np.concatenate([first.subject, second.subject]),
        np.concatenate([first.relation, second.relation]),
        np.concatenate([first.object, second.object]),
        time,
        first.calendar,
        name,
    )


def _pairs(facts: FactTable) -> npt.NDArray[np.int64]:
    """int64 array of shape (n,): the two ends of each fact, whatever their order, as one number."""
    ends = np.sort(np.stack([facts.subject, facts.object]).astype(np.int64), axis=0)
    return np.asarray(ends[0] * len(facts.entities) + ends[1], dtype=np.int64)


def _with_splits(graph: KnowledgeGraph, splits: dict[str, FactTable], name: str) -> KnowledgeGraph:
    return KnowledgeGraph(
        graph.entities, graph.relations, splits, calendar=graph.calendar, name=name
    )
