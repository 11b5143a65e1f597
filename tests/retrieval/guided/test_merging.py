"""Merging searches: by turns, by evidence, by learned weights; values worked out by hand, laws."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rulerag.errors import ConfigError
from rulerag.generation.candidate_reader import CandidateReader, answers_by_relation
from rulerag.retrieval.base import Rows, TimeAwareRetriever
from rulerag.retrieval.guided import HeadRelationSelector, RuleGuidedRetriever
from rulerag.retrieval.guided.merging import (
    FEATURES,
    DiversifiedRetriever,
    LearnedMerger,
    MergeWeights,
    RuleSearch,
    SearchHits,
    union_of,
)
from rulerag.retrieval.guided.merging.evidence import EvidenceMerger
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.rules import Atom, Rule, RuleBank
from rulerag.types import Document, Fact, GenerationRequest, Query, RuleHit
from tests.retrieval.conftest import ids

QUERY = Query("q", "whom does ann visit ?", "ann", "visit", 10, prediction=True)


def search(rule_id: str | None, weight: float, *hits: tuple[int, float]) -> RuleSearch:
    # A place without a document, as where one was left out, is no rank.
    rows, scores = zip((-1, 0.0), *hits, strict=True)
    return RuleSearch(
        rule_id, weight, np.array(rows, dtype=np.int64), np.array(scores, dtype=float)
    )


# --- the union -----------------------------------------------------------------------------------

LETTERS = [Document(name, name) for name in "abcde"]
TURNS = [
    search("r1", 0.5, (0, 10), (1, 8), (2, 5)),
    search("r2", 0.4, (3, 20), (1, 20), (4, 4)),
]


def test_searches_take_turns_or_are_ordered_by_their_best_evidence() -> None:
    by_rank = union_of(LETTERS, TURNS)
    assert ids(by_rank) == ["a", "d", "b", "c", "e"]
    assert by_rank[2].score == 0.5
    assert by_rank[2].found_by == (RuleHit("r1", 2, 8), RuleHit("r2", 2, 20))
    by_evidence = union_of(LETTERS, TURNS, by_rank=False)
    # b: max(0.5 * 8 / 10, 0.4 * 20 / 20), best rank 2; d the same, best rank 1
    assert ids(by_evidence) == ["a", "d", "b", "c", "e"]
    assert [s.score for s in by_evidence] == pytest.approx([0.5, 0.4, 0.4, 0.25, 0.08])


@pytest.mark.parametrize("by_rank", [True, False])
def test_one_search_keeps_its_order_negative_scores_too(by_rank: bool) -> None:
    assert ids(union_of(LETTERS, TURNS[:1], by_rank=by_rank)) == ["a", "b", "c"]
    for scores in ((-1, -2), (0, -3), (3, -1)):
        found = union_of(LETTERS, [search("r", 0.5, *enumerate(scores))], by_rank=by_rank)
        assert ids(found) == ["a", "b"]
        assert found[0].score == (1.0 if by_rank else 0.5)
    assert union_of(LETTERS, [search("r", 1.0)], by_rank=by_rank) == []


# --- evidence ------------------------------------------------------------------------------------


def document(name: str, *facts: Fact) -> Document:
    return Document(name, name, facts)


# 0 and 1 tell of ann and bob, 2 of ann and cid, 3 and 4 of unknown things, each its own.
ABOUT = [
    document("bob1", Fact("ann", "met", "bob", 1)),
    document("bob2", Fact("bob", "met", "ann", 2)),
    document("cid", Fact("ann", "met", "cid", 1)),
    document("text1"),
    document("text2"),
]


def merged(*searches: RuleSearch, power: float = 1.0, top_k: int = 10) -> list[Any]:
    return EvidenceMerger(ABOUT, power=power).merge(QUERY, searches, top_k)


def test_documents_of_one_pair_share_their_evidence_and_one_place() -> None:
    searches = search("r0", 0.5, (2, 10), (0, 8), (1, 8)), search("r1", 0.2, (1, 4), (3, 1))
    results = merged(*searches)
    # Evidence: cid .5; bob1 .5 * .8 = .4; bob2 .4 + .2 = .6; text1 .2 / 4 = .05.
    bob, cid, text = 1 - math.exp(-1.0), 1 - math.exp(-0.5), 1 - math.exp(-0.05)
    assert ids(results) == ["bob2", "cid", "text1", "bob1"]
    assert [r.score for r in results] == pytest.approx([bob, cid, text, bob - 1])
    assert results[0].found_by == (RuleHit("r1", 2, 4.0), RuleHit("r0", 4, 8.0))
    assert merged(*searches, top_k=2) == results[:2]
    linked = [*ABOUT, Document("x", "", entities=("bob", "ann"))]  # a text that mentions both
    assert EvidenceMerger(linked)._group[[0, 5]].tolist() == [0, 0]


def test_power_sharpens_and_hits_that_tell_next_to_nothing_are_not_named() -> None:
    found = search("r0", 0.4, (2, 10), (0, 5), (1, 5))
    assert [merged(found, power=power)[0].document.id for power in (0.5, 8.0)] == ["bob1", "cid"]
    pair = search("r0", 0.4, (2, 10), (0, 5))
    [bob, _] = merged(pair, search("r1", 0.4, (0, 10)), power=8.0)
    assert bob.found_by == (RuleHit("r1", 2, 10.0),)  # (5 / 10) ** 8 of the weight is not told
    [_, alone] = merged(pair, power=8.0)
    assert alone.found_by == (RuleHit("r0", 3, 5.0),)  # but there is always one
    ties = merged(search("r0", 0.5, (4, 3), (3, 3), (2, 3)))
    assert ids(ties) == ["cid", "text1", "text2"]
    assert merged(search("r0", 0.5)) == []


# 6 pairs of entities with 4 documents each, so that groups of every size come up.
CROWD = [document(f"d{n}", Fact("ann", f"r{n}", f"person {n % 6}")) for n in range(24)]


@st.composite
def searches(draw: st.DrawFn) -> list[RuleSearch]:
    """Searches as an index gives them: distinct rows, best first, ties in corpus order."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        chosen = draw(st.lists(st.integers(0, 23), unique=True, max_size=12))
        hits = [(row, float(draw(st.integers(1, 20)))) for row in chosen]
        weight = draw(st.integers(1, 64)) / 64  # either equal or well apart
        found.append(search(f"r{number}", weight, *sorted(hits, key=lambda h: (-h[1], h[0]))))
    return found


def plainly_merged(searches: Sequence[RuleSearch], power: float) -> list[str]:
    """The documented order, a step at a time."""
    evidence: dict[int, float] = {}
    for one in searches:
        hits = zip(one.rows.tolist(), one.scores.tolist(), strict=True)
        for row, score in (hit for hit in hits if hit[0] >= 0):
            fraction = score / one.scores.max()
            evidence[row] = evidence.get(row, 0.0) + one.weight * fraction**power
    groups: dict[object, list[int]] = {}
    for row in sorted(evidence, key=lambda r: (-round(evidence[r], 12), r)):
        groups.setdefault(CROWD[row].facts[0].object, []).append(row)
    value = {key: round(sum(evidence[row] for row in group), 12) for key, group in groups.items()}
    order = []
    for turn in range(4):
        rows = [(-value[key], group[turn]) for key, group in groups.items() if len(group) > turn]
        order += [CROWD[row].id for _, row in sorted(rows)]
    return order


@settings(max_examples=60)
@given(found=searches(), power=st.sampled_from([0.5, 1.0, 8.0]))
def test_law_it_is_the_documented_order(found: list[RuleSearch], power: float) -> None:
    merger = EvidenceMerger(CROWD, power=power)
    results = merger.merge(QUERY, found, len(CROWD))
    names = [result.document.id for result in results]
    assert names == plainly_merged(found, power)
    for k in (1, 3, 10):
        assert merger.merge(QUERY, found, k) == results[:k]
    if len(found) == 1 and len({CROWD[int(name[1:])].facts[0].object for name in names}) == len(
        names
    ):
        assert names == [f"d{row}" for row in found[0].rows if row >= 0]
    for result in results:  # and every hit is one that the searches gave
        assert result.found_by
        for hit in result.found_by:
            one = found[int(str(hit.rule_id)[1:])]
            assert CROWD[one.rows[hit.rank - 1]] is result.document
            assert one.scores[hit.rank - 1] == hit.score


# --- learned -------------------------------------------------------------------------------------

VISITS = [
    Document("0", "ann met bob", (Fact("ann", "met", "bob", 9),)),
    Document("1", "bob met ann", (Fact("bob", "met", "ann", 2),)),
    Document("2", "ann met cid", (Fact("ann", "met", "cid", 10),)),
    Document("3", "eve visit cid", (Fact("eve", "visit", "cid", 3),)),
    Document("4", "no facts", ()),
    Document("5", "dan visit cid", (Fact("dan", "visit", "cid", 4),)),
]
FOUND = Rows(
    np.array([[0, 1, 4, -1], [2, 3, 0, 1]], dtype=np.int64),
    np.array([[8.0, 4.0, 2.0, 0.0], [10.0, 5.0, 5.0, 1.0]]),
)
SEARCHES = [
    RuleSearch(None, 0.5, FOUND.rows[0], FOUND.scores[0]),
    RuleSearch("r1", 0.25, FOUND.rows[1], FOUND.scores[1], ("met", "heard of")),
]


def learned(**weights: float) -> LearnedMerger:
    return LearnedMerger(VISITS, weights=MergeWeights(weights))


def test_features_and_candidates_of_every_hit() -> None:
    hit = SearchHits.of(SEARCHES)
    features, candidate = learned().features(QUERY, SEARCHES, hit)
    assert hit.search.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert hit.row.tolist() == [0, 1, 4, 2, 3, 0, 1]
    # bob in 0 and 1; cid in 2 and, known as somebody visited, in 3; 4 stands for itself.
    assert candidate[[0, 1, 5, 6]].tolist() == [candidate[0]] * 4
    assert candidate[3] == candidate[4] != candidate[0]
    assert len(set(candidate.tolist())) == 3
    confidence = np.log([0.5] * 3 + [0.25] * 4)
    fraction = np.log([1, 0.5, 0.25, 1, 0.5, 0.5, 0.1])
    plain = np.array([1, 1, 1, 0, 0, 0, 0])
    subject = np.array([1, 1, 0, 1, 0, 1, 1])
    known = np.array([0, 0, 0, 2, 2, 0, 0])  # cid was visited twice
    expected = {
        "confidence": confidence,
        "share": fraction,
        "rank": np.log1p([0, 1, 2, 0, 1, 2, 3]),
        "best": np.log([8.0] * 3 + [10.0] * 4),
        "plain": plain,
        "plain_share": plain * fraction,
        "chain": 1 - plain,
        "chain_confidence": (1 - plain) * confidence,
        "subject": subject,
        "subject_share": subject * fraction,
        "states": [0, 0, 0, 1, 0, 1, 1],
        "states_subject": [0, 0, 0, 1, 0, 1, 1],
        "asked": [0] * 7,
        "known": known > 0,
        "known_often": np.log1p(known) / 5,
        "age": np.log1p([1, 8, 0, 0, 7, 1, 8]) / 5,
    }
    assert list(expected) == list(FEATURES)
    for (name, column), ours in zip(expected.items(), features.T, strict=True):
        np.testing.assert_allclose(ours, column, atol=1e-12, err_msg=name)
    eve, _ = learned().features(Query("q", "whom ?", "eve", "visit"), SEARCHES, hit)
    asked = eve[:, list(FEATURES).index("asked")]
    assert hit.row[asked == 1].tolist() == [3]  # what the corpus states of the subject
    assert not eve[:, list(FEATURES).index("age")].any(), "a query without a date"


def test_the_places_go_to_candidates_by_their_fraction_of_the_evidence() -> None:
    found = learned(confidence=1.0, share=1.0).merge(QUERY, SEARCHES, 10)
    # bob: 0 tells .5 + .125, 1 tells .25 + .025; cid: 2 tells .25, 3 tells .125; 4 tells .125.
    bob, cid, alone = 0.9 / 1.4, 0.375 / 1.4, 0.125 / 1.4
    assert ids(found) == ["0", "2", "4", "1", "3"]
    assert [one.score for one in found] == pytest.approx([bob, cid, alone, bob - 1, cid - 1])
    assert [hit.rule_id for hit in found[0].found_by] == [None, "r1"]
    # Known answers alone: both documents of cid, and cid before all others.
    assert ids(learned(known=3.0).merge(QUERY, SEARCHES, 1)) == ["2"]
    assert learned().merge(QUERY, [search("r", 1.0)], 5) == []
    stranger = learned(confidence=1.0).merge(Query("q", "x", "zoe", "unheard of"), SEARCHES, 10)
    assert len(stranger) == 5
    assert sum(one.score for one in stranger if one.score > 0) == pytest.approx(1.0)
    assert LearnedMerger([], weights=MergeWeights({})).documents == []


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.tuples(*[st.sampled_from("abcd")] * 2, st.sampled_from("rs")), max_size=3),
        min_size=1,
        max_size=8,
    )
)
def test_law_the_candidate_reader_sees_the_same_candidates(
    told: list[list[tuple[str, str, str]]],
) -> None:
    documents = [
        Document(str(n), "", tuple(Fact(s, relation, o) for s, o, relation in facts))
        for n, facts in enumerate(told)
    ]
    query = Query("q", "", "a", "r", prediction=True)
    every = [search("x", 1.0, *((row, 1.0) for row in range(len(documents))))]
    hit = SearchHits.of(every)
    _, candidates = LearnedMerger(documents, weights=MergeWeights({})).features(query, every, hit)
    reader = CandidateReader(known=answers_by_relation(documents), max_candidates=99)
    (completion,) = reader.generate([GenerationRequest(query, tuple(documents))])
    seen = {frozenset(one.document_ids) for one in completion.candidates}
    read = {name for group in seen for name in group}
    groups: dict[int, set[str]] = {}
    for row, candidate in zip(hit.row.tolist(), candidates.tolist(), strict=True):
        if str(row) in read:  # the reader leaves out documents without another entity
            groups.setdefault(candidate, set()).add(str(row))
    assert {frozenset(group) for group in groups.values()} == seen


def test_weights_are_checked_and_kept(tmp_path: Path) -> None:
    place = tmp_path / "weights.json"
    MergeWeights({"share": 2.5}, {"queries": 3}).save(place)
    assert MergeWeights.load(place) == MergeWeights({"share": 2.5}, {"queries": 3})
    place.write_text(json.dumps([1]))
    for make, message in (
        (lambda: MergeWeights({"shares": 1.0}), r"unknown feature 'shares'.*share"),
        (lambda: MergeWeights({"share": "much"}), r"weights\.share.*no finite number"),  # type: ignore[dict-item]
        (lambda: MergeWeights({"share": math.nan}), "no finite number"),
        (lambda: MergeWeights.load(place), "holds no merge weights"),
    ):
        with pytest.raises(ConfigError, match=message):
            make()


# --- the control ---------------------------------------------------------------------------------


def test_the_control_merges_one_search_without_rules(tmp_path: Path) -> None:
    facts = [Fact("ann", "calls", "bob", time) for time in (1, 2, 3)]
    facts += [Fact("ann", "calls", "cid", 1), Fact("dan", "writes to", "eve", 1)]
    documents = [Document(f"d{i}", " ".join(fact[:3]), (fact,)) for i, fact in enumerate(facts)]
    bm25, query = (
        BM25Retriever(documents),
        [Query("q", "ann calls", "ann", "calls", prediction=True)],
    )
    pooled = DiversifiedRetriever(bm25)
    assert ids(bm25.retrieve(query, 2)[0]) == ["d0", "d1"]
    assert ids(pooled.retrieve(query, 10)[0]) == ["d0", "d3", "d1", "d2"]
    [found] = pooled.retrieve(query, 2)
    assert ids(found) == ["d0", "d3"]
    assert [(hit.rule_id, hit.rank) for hit in found[1].found_by] == [(None, 4)]
    assert ids(DiversifiedRetriever(bm25, pool=1).retrieve(query, 1)[0]) == ["d0"]
    timed = DiversifiedRetriever(TimeAwareRetriever(bm25))
    early = Query("q", "ann calls", "ann", "calls", 2, prediction=True)
    assert ids(timed.retrieve([early], 10)[0]) == ["d0", "d3"]


def test_learned_weights_in_both_retrievers(tmp_path: Path) -> None:
    weights = tmp_path / "weights.json"
    MergeWeights({"share": 1.0, "known": 5.0}).save(weights)
    bm25 = BM25Retriever(VISITS)
    rule = Rule(Atom("visit", "?x", "?y"), (Atom("met", "?x", "?y"),))
    selector = HeadRelationSelector(RuleBank([rule]))
    guided = RuleGuidedRetriever(bm25, selector, merge="learned", weights=weights)
    pooled = DiversifiedRetriever(bm25, weights=weights)
    for retriever in (guided, pooled):
        (found,) = retriever.retrieve([QUERY], 3)
        assert "cid" in found[0].document.text and found[0].found_by
    other = RuleGuidedRetriever(bm25, selector, merge="learned", weights=MergeWeights({}))
    assert guided.fingerprint != other.fingerprint
    assert pooled.fingerprint != DiversifiedRetriever(bm25).fingerprint
    with pytest.raises(ConfigError, match="go together"):
        RuleGuidedRetriever(bm25, selector, merge="evidence", weights=weights)
