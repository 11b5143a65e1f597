"""Merging by joined evidence: values worked out by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.retrieval.base.corpus import Rows
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.guided.merging.evidence import EvidenceMerger
from rulerag.retrieval.guided.merging.hits import RuleSearch
from rulerag.types import Document, Fact, Query, RuleHit

QUERY = Query("q", "whom did ann meet ?", "ann", "met")


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


def searched(found: Rows, *weights: float) -> list[RuleSearch]:
    """The searches of rules r0, r1, ... with what each found."""
    return [
        RuleSearch(f"r{n}", weight, *of_search)
        for n, (weight, of_search) in enumerate(zip(weights, zip(*found, strict=True), strict=True))
    ]


def rows(*found: list[tuple[int, float]]) -> Rows:
    depth = max(map(len, found))
    padded = [[*hits, *[(-1, 0.0)] * (depth - len(hits))] for hits in found]
    return Rows(
        np.array([[row for row, _ in hits] for hits in padded], dtype=np.int64),
        np.array([[score for _, score in hits] for hits in padded]),
    )


def merged(found: Rows, *weights: float, power: float = 1.0, top_k: int = 10) -> list[Any]:
    return EvidenceMerger(DOCUMENTS, power=power).merge(QUERY, searched(found, *weights), top_k)


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


# --- laws ----------------------------------------------------------------------------------------

# 6 pairs of entities with 4 documents each, so that groups of every size come up.
CROWD = [document(f"d{n}", Fact("ann", f"r{n}", f"person {n % 6}")) for n in range(24)]


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[RuleSearch], float]:
    """Searches as an index gives them: distinct rows, best first, ties in corpus order."""
    found, weights = [], []
    for _ in range(draw(st.integers(1, 4))):
        chosen = draw(st.lists(st.integers(0, 23), unique=True, max_size=12))
        hits = [(row, float(draw(st.integers(1, 20)))) for row in chosen]
        found.append(sorted(hits, key=lambda hit: (-hit[1], hit[0])) or [(-1, 0.0)])
        weights.append(draw(st.integers(1, 64)) / 64)  # either equal or well apart
    return searched(rows(*found), *weights), draw(st.sampled_from([0.5, 1.0, 8.0]))


def plainly_merged(searches: list[RuleSearch], power: float) -> list[str]:
    """The documented order, a step at a time."""
    evidence: dict[int, float] = {}
    for search in searches:
        hits = zip(search.rows.tolist(), search.scores.tolist(), strict=True)
        for row, score in (hit for hit in hits if hit[0] >= 0):
            fraction = score / search.scores.max()
            evidence[row] = evidence.get(row, 0.0) + search.weight * fraction**power
    groups: dict[object, list[int]] = {}
    for row in sorted(evidence, key=lambda r: (-round(evidence[r], 12), r)):
        groups.setdefault(CROWD[row].facts[0].object, []).append(row)
    value = {key: round(sum(evidence[row] for row in group), 12) for key, group in groups.items()}
    order = []
    for turn in range(4):
        rows = [(-value[key], group[turn]) for key, group in groups.items() if len(group) > turn]
        order += [CROWD[row].id for _, row in sorted(rows)]
    return order


@given(searches())
def test_law_it_is_the_documented_order(case: tuple[list[RuleSearch], float]) -> None:
    found, power = case
    merger = EvidenceMerger(CROWD, power=power)
    results = merger.merge(QUERY, found, len(CROWD))
    names = [result.document.id for result in results]
    assert names == plainly_merged(found, power)
    assert len(set(names)) == len(names)  # never a document twice
    assert [result.rank for result in results] == list(range(1, len(names) + 1))
    assert all(a.score >= b.score - 1e-12 for a, b in itertools.pairwise(results))
    for k in (1, 3, 10):
        assert merger.merge(QUERY, found, k) == results[:k]
    for result in results:  # and every hit is one that the searches gave
        assert result.found_by
        for hit in result.found_by:
            search = found[int(str(hit.rule_id)[1:])]
            assert CROWD[search.rows[hit.rank - 1]] is result.document
            assert search.scores[hit.rank - 1] == hit.score


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20)), unique_by=lambda hit: hit[0]),
    st.floats(0.01, 1),
)
def test_law_one_rule_and_distinct_pairs_keep_the_order_of_the_search(
    hits: list[tuple[int, int]], weight: float
) -> None:
    ordered = sorted(hits, key=lambda hit: (-hit[1], hit[0]))
    found = rows([(row, float(score)) for row, score in ordered] or [(-1, 0.0)])
    results = EvidenceMerger(CROWD).merge(QUERY, searched(found, weight), 10)
    assert [result.document.id for result in results] == [f"d{row}" for row, _ in ordered]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 25))
def test_law_late_documents_never_come_through(scores: list[int], now: int) -> None:
    """Rows from a time-aware search hold none, so that the merged list holds none."""
    dated = [document(f"d{t}", Fact("ann", "met", f"p{t % 5}", t)) for t in range(24)]

    class Fixed:
        """Gives the same rows to every query."""

        documents = tuple(dated)
        fingerprint = "fixed"

        def search(self, queries: Sequence[Query], depth: int) -> Rows:
            hits = [(2 * n, float(score)) for n, score in enumerate(sorted(scores, reverse=True))]
            return rows(*[hits[:depth]] * len(queries))

        def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[Any]]:
            raise AssertionError("rows are asked for")

    query = Query("q", "?", "ann", "met", now)
    found = TimeAwareRetriever(Fixed()).search([query, query], 24)
    results = EvidenceMerger(dated).merge(query, searched(found, 0.5, 0.9), 24)
    allowed = {2 * n for n in range(len(scores)) if 2 * n < now}
    assert {result.document.timestamp for result in results} == allowed
