"""Merging by joined evidence: values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rulerag.retrieval.corpus import Rows
from rulerag.retrieval.evidence_merging import EvidenceMerger, RowSearch
from rulerag.types import Document, Fact, RuleHit


def document(name: str, *facts: Fact) -> Document:
    return Document(name, name, facts)


# 0 and 1 tell of ann and bob, 2 of ann and cid, 3 and 4 of unknown things, each its own.
DOCUMENTS = [
    document("bob1", Fact("ann", "met", "bob", 1)),
    document("bob2", Fact("bob", "met", "ann", 2)),
    document("cid", Fact("ann", "met", "cid", 1)),
    document("text1"),
    document("text2"),
]


def rows(*found: list[tuple[int, float]]) -> Rows:
    depth = max(map(len, found))
    padded = [[*hits, *[(-1, 0.0)] * (depth - len(hits))] for hits in found]
    return Rows(
        np.array([[row for row, _ in hits] for hits in padded], dtype=np.int64),
        np.array([[score for _, score in hits] for hits in padded]),
    )


def merged(found: Rows, *weights: float, power: float = 1.0, top_k: int = 10) -> list[Any]:
    searches = [RowSearch(f"r{i}", weight, i) for i, weight in enumerate(weights)]
    return EvidenceMerger(DOCUMENTS, power=power).merge(searches, found, top_k)


def test_documents_of_one_pair_share_their_evidence_and_one_place() -> None:
    found = rows([(2, 10.0), (0, 8.0), (1, 8.0)], [(1, 4.0), (3, 1.0)])
    results = merged(found, 0.5, 0.2)
    # Evidence: cid .5; bob1 .5 * .8 = .4; bob2 .4 + .2 = .6; text1 .2 / 4 = .05.
    bob, cid, text = 1 - math.exp(-1.0), 1 - math.exp(-0.5), 1 - math.exp(-0.05)
    assert [r.document.id for r in results] == ["bob2", "cid", "text1", "bob1"]
    assert [r.score for r in results] == pytest.approx([bob, cid, text, bob - 1])
    assert [r.rank for r in results] == [1, 2, 3, 4]
    assert results[0].found_by == (RuleHit("r1", 1, 4.0), RuleHit("r0", 3, 8.0))
    assert merged(found, 0.5, 0.2, top_k=2) == results[:2]


def test_power_sharpens() -> None:
    found = rows([(2, 10.0), (0, 5.0), (1, 5.0)])
    assert merged(found, 0.4, power=0.5)[0].document.id == "bob1"
    assert merged(found, 0.4, power=8.0)[0].document.id == "cid"


def test_hits_that_tell_next_to_nothing_are_not_named() -> None:
    found = rows([(2, 10.0), (0, 5.0)], [(0, 10.0)])
    [bob, _] = merged(found, 0.4, 0.4, power=8.0)
    assert bob.found_by == (RuleHit("r1", 1, 10.0),)  # (5 / 10) ** 8 of the weight is not told
    [_, alone] = merged(rows([(2, 10.0), (0, 5.0)]), 0.4, power=8.0)
    assert alone.found_by == (RuleHit("r0", 2, 5.0),)  # but there is always one


def test_ties_follow_the_corpus_and_nothing_gives_nothing() -> None:
    found = rows([(4, 3.0), (3, 3.0), (2, 3.0)])
    assert [r.document.id for r in merged(found, 0.5)] == ["cid", "text1", "text2"]
    assert merged(rows([(-1, 0.0)]), 0.5) == []
