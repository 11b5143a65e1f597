"""Splits: a validation variant of a benchmark, and splits for a graph that has none.

Settings are chosen on the validation variant, so that test queries stay unseen. It asks about
validation facts. Between the last document and the first query it leaves the same gap in time that
the test queries have: settings chosen without the gap would lean on yesterday's facts, which the
test queries do not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rulerag.errors import EmptyDataError
from rulerag.kg import FactTable, KnowledgeGraph
from rulerag.kg.readers import cut_times

_SPLITS = ("train", "valid", "test")


def with_splits(graph: KnowledgeGraph, *, seed: int = 0) -> tuple[KnowledgeGraph, str]:
    """The graph with the splits train, valid and test, and in words where they are from.

    Splits that the graph has stay, unless they share facts or overlap in time. Without them, 80,
    10 and 10 % of the facts: drawn by seed for a static graph, by time for a temporal one. Where
    the graph has test facts and no validation facts, these are a ninth of the other facts.

    Args:
        graph: any graph.
        seed: for static graphs.

    Raises:
        EmptyDataError: fewer than three facts, or facts at fewer than three times.
    """
    have = [name for name in _SPLITS if name in graph.splits and len(graph.splits[name])]
    tables = [graph.splits[name] for name in have]
    if len(tables) == 3 and _are_apart(tables):
        return graph, "as the graph has them"
    keep_test = have == ["train", "test"] and _are_apart(tables)
    whole = tables[0] if keep_test else joined(tables, "train")
    first = np.unique(whole.rows, axis=0, return_index=True)[1]
    whole = whole.select(np.sort(first))
    fractions = (8 / 9, 1.0) if keep_test else (0.8, 0.9)
    part = _parts(whole, fractions, graph.name, seed)
    splits = {name: whole.select(part == number, name) for number, name in enumerate(_SPLITS)}
    if keep_test:
        splits = {**splits, "valid": whole.select(part > 0, "valid"), "test": graph.test}
    how = "by time" if whole.is_temporal else f"drawn by seed {seed}"
    shares = "8 to 1 of the training facts" if keep_test else "80, 10 and 10 % of all facts"
    why = "the graph's own overlap" if len(tables) == 3 else f"the graph has {' and '.join(have)}"
    return _with_splits(graph, splits, graph.name), f"{shares}, {how} ({why})"


def _are_apart(tables: Sequence[FactTable]) -> bool:
    """Whether no fact is in two tables, and dated tables follow one another."""
    times = [table.timestamp for table in tables if table.timestamp is not None]
    if times:
        return all(one.max() < other.min() for one, other in pairwise(times))
    rows = np.concatenate([table.rows for table in tables])
    return len(np.unique(rows, axis=0)) == len(rows)


def _parts(
    facts: FactTable, fractions: tuple[float, float], name: str, seed: int
) -> npt.NDArray[np.int64]:
    """int64 array of shape (n,): 0 for train, 1 for valid, 2 for test."""
    times = facts.timestamp
    keys = np.arange(len(facts), dtype=np.int32) if times is None else times
    if len(np.unique(keys)) < 3:
        what = f"{len(facts)} facts" if times is None else "facts at fewer than three times"
        raise EmptyDataError(
            f"{name!r} has {what}: too little to cut into train, valid and test",
            hint="give the splits as files train.txt, valid.txt and test.txt",
        )
    if times is None:
        keys = np.random.default_rng(seed).permutation(keys)
    return np.searchsorted(cut_times(keys, fractions), keys, side="right")


def validation_graph(graph: KnowledgeGraph, *, seed: int = 0) -> KnowledgeGraph:
    """The same graph one step earlier: queries are of validation facts, training is shortened.

    Temporal: with ``gap = first test time - last training time``, the variant's training facts end
    ``gap`` before the first validation time; the facts in between are its validation split.
    Static: about a tenth of the training facts, drawn by seed, is its validation split.
    Where no validation fact links two entities that a training fact links (FB15K-237), the draw
    is of linked pairs with all of their facts, so that none is linked in the variant either.

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
        raise EmptyDataError(f"{graph.name}: too few training facts for a validation variant")
    splits = {"train": shorter, "valid": between, "test": valid}
    return _with_splits(graph, splits, f"{graph.name}-validation")


def with_held_out(graph: KnowledgeGraph, number: int, *, seed: int = 0) -> KnowledgeGraph:
    """The graph with some training facts moved to its validation facts.

    Of dated facts the latest move, all of a time step together, since documents may not be later
    than the questions; of undated ones any.

    Args:
        graph: a graph with the splits train, valid and test.
        number: how many facts move, of dated ones at least; 0 gives the graph itself.
        seed: decides which of undated facts.
    """
    if number == 0:
        return graph
    train = graph.train
    held = np.zeros(len(train), dtype=bool)
    if train.timestamp is not None:
        held = train.timestamp >= np.sort(train.timestamp)[-number]
    else:
        held[np.random.default_rng([seed, 1]).permutation(len(train))[:number]] = True
    valid = joined((graph.valid, train.select(held)), "valid")
    splits = {"train": train.select(~held, "train"), "valid": valid, "test": graph.test}
    return _with_splits(graph, splits, graph.name)


def joined(tables: Sequence[FactTable], name: str) -> FactTable:
    """The facts of tables over the same vocabularies, in order."""
    first = tables[0]
    rows = np.concatenate([table.rows for table in tables])
    return FactTable.of(rows, first.entities, first.relations, first.calendar, name)


def _pairs(facts: FactTable) -> npt.NDArray[np.int64]:
    """int64 array of shape (n,): the two ends of each fact, whatever their order, as one number."""
    ends = np.sort(np.stack([facts.subject, facts.object]).astype(np.int64), axis=0)
    return np.asarray(ends[0] * len(facts.entities) + ends[1], dtype=np.int64)


def _with_splits(graph: KnowledgeGraph, splits: dict[str, FactTable], name: str) -> KnowledgeGraph:
    return KnowledgeGraph(
        graph.entities, graph.relations, splits, calendar=graph.calendar, name=name
    )
