"""Learned merging: candidates, features and order by hand; weights as a file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.errors import ConfigError
from rulerag.generation.candidate_reader import CandidateReader, answers_by_relation
from rulerag.retrieval.base.corpus import Rows
from rulerag.retrieval.guided.merging.control import DiversifiedRetriever
from rulerag.retrieval.guided.merging.hits import RuleSearch, SearchHits
from rulerag.retrieval.guided.merging.learned import FEATURES, LearnedMerger, MergeWeights
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.rules import Atom, Rule, RuleBank
from rulerag.types import Document, Fact, GenerationRequest, Query

QUERY = Query("q", "whom does ann visit ?", "ann", "visit", 10, prediction=True)
DOCUMENTS = [
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


def merger(**weights: float) -> LearnedMerger:
    return LearnedMerger(DOCUMENTS, weights=MergeWeights(weights))


def test_features_and_candidates_of_every_hit() -> None:
    hit = SearchHits.of(SEARCHES)
    features, candidate = merger().features(QUERY, SEARCHES, hit)
    assert hit.search.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert hit.row.tolist() == [0, 1, 4, 2, 3, 0, 1]
    # bob in 0 and 1; cid in 2 and, known as somebody visited, in 3; 4 stands for itself.
    assert candidate[[0, 1, 5, 6]].tolist() == [candidate[0]] * 4
    assert candidate[3] == candidate[4] != candidate[0]
    assert len(set(candidate.tolist())) == 3
    columns: dict[str, Any] = dict(zip(FEATURES, features.T, strict=True))
    confidence = np.log([0.5] * 3 + [0.25] * 4)
    share = np.log([1, 0.5, 0.25, 1, 0.5, 0.5, 0.1])
    plain = np.array([1, 1, 1, 0, 0, 0, 0])
    subject = np.array([1, 1, 0, 1, 0, 1, 1])
    known = np.array([0, 0, 0, 2, 2, 0, 0])  # cid was visited twice
    expected = {
        "confidence": confidence,
        "share": share,
        "rank": np.log1p([0, 1, 2, 0, 1, 2, 3]),
        "best": np.log([8.0] * 3 + [10.0] * 4),
        "plain": plain,
        "plain_share": plain * share,
        "chain": 1 - plain,
        "chain_confidence": (1 - plain) * confidence,
        "subject": subject,
        "subject_share": subject * share,
        "states": [0, 0, 0, 1, 0, 1, 1],
        "states_subject": [0, 0, 0, 1, 0, 1, 1],
        "asked": [0] * 7,
        "known": known > 0,
        "known_often": np.log1p(known) / 5,
        "age": np.log1p([1, 8, 0, 0, 7, 1, 8]) / 5,
    }
    assert list(expected) == list(FEATURES)
    for name, column in expected.items():
        np.testing.assert_allclose(columns[name], column, atol=1e-12, err_msg=name)


def test_what_the_corpus_states_of_the_subject_is_told() -> None:
    eve = Query("q", "whom does eve visit ?", "eve", "visit")
    hit = SearchHits.of(SEARCHES)
    features, _ = merger().features(eve, SEARCHES, hit)
    asked = features[:, list(FEATURES).index("asked")]
    assert hit.row[asked == 1].tolist() == [3]
    assert not features[:, list(FEATURES).index("age")].any(), "a query without a date"


def test_the_places_go_to_candidates_by_their_share_of_the_evidence() -> None:
    found = merger(confidence=1.0, share=1.0).merge(QUERY, SEARCHES, 10)
    # bob: 0 tells .5 + .125, 1 tells .25 + .025; cid: 2 tells .25, 3 tells .125; 4 tells .125.
    bob, cid, alone = 0.9 / 1.4, 0.375 / 1.4, 0.125 / 1.4
    assert [one.document.id for one in found] == ["0", "2", "4", "1", "3"]
    assert [one.score for one in found] == pytest.approx([bob, cid, alone, bob - 1, cid - 1])
    assert [one.rank for one in found] == [1, 2, 3, 4, 5]
    assert [hit.rule_id for hit in found[0].found_by] == [None, "r1"]
    best = merger(confidence=1.0, share=1.0).merge(QUERY, SEARCHES, 2)
    assert [(one.document.id, one.score) for one in best] == [
        (one.document.id, one.score) for one in found[:2]
    ]
    # Known answers alone: both documents of cid, and cid before all others.
    known = merger(known=3.0).merge(QUERY, SEARCHES, 1)
    assert known[0].document.id == "2"


def test_nothing_found_and_what_the_corpus_does_not_know() -> None:
    assert merger().merge(QUERY, [RuleSearch("r", 1.0, np.full(3, -1), np.zeros(3))], 5) == []
    stranger = Query("q", "x", "zoe", "unheard of")
    found = merger(confidence=1.0).merge(stranger, SEARCHES, 10)
    assert len(found) == 5 and math.isclose(sum(f.score for f in found if f.score > 0), 1.0)
    assert LearnedMerger([], weights=MergeWeights({})).documents == []


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
    searches = [RuleSearch("x", 1.0, np.arange(len(documents)), np.ones(len(documents)))]
    hit = SearchHits.of(searches)
    _, candidates = LearnedMerger(documents, weights=MergeWeights({})).features(
        query, searches, hit
    )
    reader = CandidateReader(known=answers_by_relation(documents), max_candidates=99)
    (completion,) = reader.generate([GenerationRequest(query, tuple(documents))])
    seen = {frozenset(one.document_ids) for one in completion.candidates}
    read = {name for group in seen for name in group}
    merged: dict[int, set[str]] = {}
    for row, candidate in zip(hit.row.tolist(), candidates.tolist(), strict=True):
        if str(row) in read:  # the reader leaves out documents without another entity
            merged.setdefault(candidate, set()).add(str(row))
    assert {frozenset(group) for group in merged.values()} == seen


def test_weights_are_checked_and_kept(tmp_path: Path) -> None:
    place = tmp_path / "weights.json"
    MergeWeights({"share": 2.5}, {"queries": 3}).save(place)
    assert MergeWeights.load(place) == MergeWeights({"share": 2.5}, {"queries": 3})
    with pytest.raises(ConfigError, match=r"unknown feature 'shares'.*share"):
        MergeWeights({"shares": 1.0})
    with pytest.raises(ConfigError, match=r"weights\.share.*no finite number"):
        MergeWeights({"share": "much"})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="no finite number"):
        MergeWeights({"share": math.nan})
    place.write_text(json.dumps([1]))
    with pytest.raises(ConfigError, match="holds no merge weights"):
        MergeWeights.load(place)


def test_in_the_retrievers(tmp_path: Path) -> None:
    weights = tmp_path / "weights.json"
    MergeWeights({"share": 1.0, "known": 5.0}).save(weights)
    bm25 = BM25Retriever(DOCUMENTS)
    rule = Rule(Atom("visit", "?x", "?y"), (Atom("met", "?x", "?y"),))
    selector = HeadRelationSelector(RuleBank([rule]))
    guided = RuleGuidedRetriever(bm25, selector, merge="learned", weights=weights)
    (found,) = guided.retrieve([QUERY], 3)
    assert "cid" in found[0].document.text and found[0].found_by
    plain = DiversifiedRetriever(bm25, weights=weights)
    (pooled,) = plain.retrieve([QUERY], 3)
    assert "cid" in pooled[0].document.text
    other = RuleGuidedRetriever(bm25, selector, merge="learned", weights=MergeWeights({}))
    assert len({guided.fingerprint, other.fingerprint}) == 2
    assert plain.fingerprint != DiversifiedRetriever(bm25).fingerprint
    for wrong in ({"merge": "learned"}, {"merge": "evidence", "weights": weights}):
        with pytest.raises(ConfigError, match="go together"):
            RuleGuidedRetriever(bm25, selector, **wrong)
