"""Time-aware retrieval: nothing from the future, exact orders, pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from rulerag.errors import RetrievalError
from rulerag.retrieval.base import TimeAwareRetriever
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.types import Document, Fact, Query, RuleHit
from tests.retrieval.conftest import Listed, ids


def document(name: str, *times: int | None) -> Document:
    return Document(name, name, tuple(Fact("ann", "met", name, time) for time in times))


OLD, MID, NOW, LATE = (document(n, t) for n, t in [("old", 1), ("mid", 5), ("now", 7), ("late", 9)])
SPAN = document("span", 2, 8)  # tells of two times: its time is the later
PLAIN, BARE = document("plain", None), Document("bare", "no facts")
FIXED = Listed({"q": [(d, 2.0) for d in (OLD, LATE, MID, SPAN, PLAIN, NOW, BARE)]})
AT_7 = Query("q", "q", timestamp=7)


def test_ties_go_to_the_most_recent_and_the_future_is_dropped() -> None:
    [found] = TimeAwareRetriever(FIXED).retrieve([AT_7], 10)
    assert ids(found) == ["mid", "old", "plain", "bare"]
    assert found[0].found_by == (RuleHit(None, 3, 2.0),)  # the wrapped search's rank
    [lenient] = TimeAwareRetriever(FIXED, strict=False).retrieve([AT_7], 10)
    assert ids(lenient) == ["now", "mid", "old", "plain", "bare"]
    undated = Query("u", "q")
    several = TimeAwareRetriever(FIXED).retrieve([AT_7, undated, Query("n", "?", timestamp=3)], 3)
    assert several == [found[:3], FIXED.retrieve([undated], 3)[0], []]
    with pytest.raises(RetrievalError, match="Listed cannot answer in rows"):
        TimeAwareRetriever(FIXED).search([AT_7], 3)


def test_repeated_facts_can_be_given_once() -> None:
    facts = [Fact("ann", "met", end, t) for end, t in [("bob", 1), ("bob", 2), ("cid", 1)]]
    documents = [Document(f"d{i}", "met", (f,)) for i, f in enumerate(facts)]
    inner = Listed({"q": [(d, 1.0) for d in [*documents, BARE]]})
    every, once = (
        TimeAwareRetriever(inner, distinct_facts=distinct).retrieve([AT_7], 10)[0]
        for distinct in (False, True)
    )
    assert (ids(every), ids(once)) == (["d1", "d0", "d2", "bare"], ["d1", "d2", "bare"])


def test_the_pool_deepens_only_where_it_must_and_has_an_end() -> None:
    ties = [(document(f"t{i:03d}", i), 1.0) for i in range(200)]
    clear = [(document(f"c{i:03d}", 1), 300.0 - i) for i in range(200)]
    inner = Listed({"ties": ties, "clear": clear})
    queries = [Query("a", "ties", timestamp=500), Query("b", "clear", timestamp=500)]
    found = TimeAwareRetriever(inner, pool=10).retrieve(queries, 2)
    assert [ids(one) for one in found] == [["t199", "t198"], ["c000", "c001"]]
    # 10, 40, 160 and 640 documents for the ties; the clear winner is asked once.
    assert [[q.id for q in batch] for batch in inner.batches] == [["a", "b"], ["a"], ["a"], ["a"]]
    bounded = TimeAwareRetriever(inner, pool=10, max_pool=20)
    assert ids(bounded.retrieve(queries[:1], 2)[0]) == ["t019", "t018"]
    assert len(bounded.retrieve(queries[:1], 50)[0]) == 50


@settings(max_examples=40)
@given(
    facts=st.lists(
        st.builds(
            Fact,
            st.sampled_from(["ann", "bob"]),
            st.sampled_from(["met", "saw"]),
            st.sampled_from(["cid", "dan", "eve"]),
            st.none() | st.integers(0, 12),
        ),
        min_size=1,
        max_size=40,
    ),
    now=st.integers(0, 12),
    top_k=st.integers(1, 6),
    strict=st.booleans(),
    pool=st.integers(1, 5),
)
def test_any_pool_gives_the_order_of_the_whole_corpus(
    facts: list[Fact],
    now: int,
    top_k: int,
    strict: bool,
    pool: int,
    documents_of: Callable[[Sequence[Fact]], list[Document]],
) -> None:
    documents = documents_of(facts)
    inner = BM25Retriever(documents, dates="drop", threads=1)
    query = Query("q", "what does ann met ?", timestamp=now)
    aware = TimeAwareRetriever(inner, pool=pool, strict=strict)
    whole = []
    for place, scored in enumerate(inner.retrieve([query], len(documents))[0]):
        time = scored.document.timestamp
        if time is None or time < now or (time == now and not strict):
            recency = math.inf if time is None else -time
            whole.append((-scored.score, recency, place, scored.document.id))
    expected = [key[-1] for key in sorted(whole)]
    assert ids(aware.retrieve([query], top_k)[0]) == expected[:top_k]
    rows = aware.search([query], len(documents)).rows[0]
    assert [documents[row].id for row in rows if row >= 0] == expected


def test_rows_are_not_starved_by_the_future() -> None:
    later = [document(f"late{i}", 9 + i) for i in range(300)]
    documents = [Document(d.id, "met", d.facts) for d in [*later, OLD, MID, PLAIN]]
    queries = [Query("a", "met", timestamp=7), Query("b", "met"), Query("c", "nobody", timestamp=7)]
    rows, scores = TimeAwareRetriever(BM25Retriever(documents)).search(queries, 2)
    assert rows.tolist() == [[301, 300], [0, 1], [-1, -1]]
    assert scores[0, 0] == scores[1, 0] > scores[2, 0] == 0
