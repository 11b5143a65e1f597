"""Time-aware retrieval: nothing from the future, exact orders, pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulerag.errors import ConfigError, RetrievalError
from rulerag.protocols import Retriever
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.types import Document, Fact, Query, RuleHit, ScoredDocument


def document(name: str, *times: int | None) -> Document:
    return Document(name, name, tuple(Fact("ann", "met", name, time) for time in times))


def ids(results: Sequence[ScoredDocument]) -> list[str]:
    return [scored.document.id for scored in results]


OLD, MID, NOW, LATE = (document(n, t) for n, t in [("old", 1), ("mid", 5), ("now", 7), ("late", 9)])
SPAN = document("span", 2, 8)  # tells of two times: its time is the later
PLAIN, BARE = document("plain", None), Document("bare", "no facts")
FOUND = [(document_, 2.0) for document_ in (OLD, LATE, MID, SPAN, PLAIN, NOW, BARE)]
AT_7 = Query("q", "q", timestamp=7)


@pytest.fixture
def fixed(listed: Any) -> Any:
    return listed({"q": FOUND})


def test_it_fits_the_seam(fixed: Any) -> None:
    assert isinstance(TimeAwareRetriever(fixed), Retriever)


def test_ties_go_to_the_most_recent_and_the_future_is_dropped(fixed: Any) -> None:
    [found] = TimeAwareRetriever(fixed).retrieve([AT_7], 10)
    assert ids(found) == ["mid", "old", "plain", "bare"]
    assert [scored.rank for scored in found] == [1, 2, 3, 4]
    assert found[0].found_by == (RuleHit(None, 3, 2.0),)  # the wrapped search's rank
    [lenient] = TimeAwareRetriever(fixed, strict=False).retrieve([AT_7], 10)
    assert ids(lenient) == ["now", "mid", "old", "plain", "bare"]


def test_decay_by_hand(listed: Any) -> None:
    inner = listed({"q": [(OLD, 3.0), (PLAIN, 1.0), (MID, 1.0), (BARE, -1.0), (OLD, -1.0)]})
    retriever = TimeAwareRetriever(inner, order="decay", decay=0.5, time_unit=2)
    [found] = retriever.retrieve([AT_7], 10)
    # Ages: old (7 - 1) / 2 = 3, mid (7 - 5) / 2 = 1; undated 0.
    assert ids(found) == ["plain", "old", "mid", "bare", "old"]
    kept = math.exp(-1.5)
    expected = [1.0, 3 * kept, math.exp(-0.5), -1.0, -1 / kept]
    assert [scored.score for scored in found] == pytest.approx(expected)


def test_undated_queries_pass_through_unchanged(fixed: Any) -> None:
    queries = [AT_7, Query("u", "q"), Query("n", "nothing", timestamp=3)]
    found = TimeAwareRetriever(fixed).retrieve(queries, 3)
    assert found[1] == fixed.retrieve([queries[1]], 3)[0]
    assert ids(found[0]) == ["mid", "old", "plain"]
    assert found[2] == []
    assert TimeAwareRetriever(fixed).retrieve([], 3) == []


def test_repeated_facts_can_be_kept_once(listed: Any) -> None:
    facts = [Fact("ann", "met", end, t) for end, t in [("bob", 1), ("bob", 2), ("cid", 1)]]
    documents = [Document(f"d{i}", "met", (f,)) for i, f in enumerate(facts)]
    inner = listed({"q": [(d, 1.0) for d in [*documents, BARE, Document("bare2", "no facts")]]})
    [every] = TimeAwareRetriever(inner).retrieve([AT_7], 10)
    assert ids(every) == ["d1", "d0", "d2", "bare", "bare2"]
    [once] = TimeAwareRetriever(inner, distinct_facts=True).retrieve([AT_7], 10)
    assert ids(once) == ["d1", "d2", "bare", "bare2"]


def test_the_pool_deepens_only_where_it_must(listed: Any) -> None:
    ties = [(document(f"t{i:03d}", i), 1.0) for i in range(200)]
    clear = [(document(f"c{i:03d}", 1), 300.0 - i) for i in range(200)]
    inner = listed({"ties": ties, "clear": clear})
    queries = [Query("a", "ties", timestamp=500), Query("b", "clear", timestamp=500)]
    found = TimeAwareRetriever(inner, pool=10).retrieve(queries, 2)
    assert ids(found[0]) == ["t199", "t198"]
    assert ids(found[1]) == ["c000", "c001"]
    # 10, 40, 160 and 640 documents for the ties; the clear winner is asked once.
    assert [[q.id for q in batch] for batch in inner.batches] == [["a", "b"], ["a"], ["a"], ["a"]]


def test_the_pool_has_an_end(listed: Any) -> None:
    inner = listed({"q": [(document(f"t{i:03d}", i), 1.0) for i in range(200)]})
    retriever = TimeAwareRetriever(inner, pool=10, max_pool=20)
    assert ids(retriever.retrieve([Query("q", "q", timestamp=500)], 2)[0]) == ["t019", "t018"]
    assert len(inner.batches) == 2
    assert len(retriever.retrieve([Query("q", "q", timestamp=500)], 50)[0]) == 50


facts = st.lists(
    st.builds(
        Fact,
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["met", "saw"]),
        st.sampled_from(["cid", "dan", "eve"]),
        st.none() | st.integers(0, 12),
    ),
    min_size=1,
    max_size=40,
)


@given(
    facts=facts,
    now=st.integers(0, 12),
    top_k=st.integers(1, 6),
    order=st.sampled_from(["recent", "decay"]),
    strict=st.booleans(),
    pool=st.integers(1, 5),
)
def test_any_pool_gives_the_order_of_the_whole_corpus(
    facts: list[Fact],
    now: int,
    top_k: int,
    order: str,
    strict: bool,
    pool: int,
    documents_of: Callable[[Sequence[Fact]], list[Document]],
) -> None:
    documents = documents_of(facts)
    inner = BM25Retriever(documents, dates="drop", threads=1)
    query = Query("q", "what does ann met ?", timestamp=now)
    options: dict[str, Any] = {"order": order, "decay": 0.1, "strict": strict}
    [found] = TimeAwareRetriever(inner, pool=pool, **options).retrieve([query], top_k)
    whole = []
    for place, scored in enumerate(inner.retrieve([query], len(documents))[0]):
        time = scored.document.timestamp
        if time is not None and (time > now or (strict and time == now)):
            continue
        kept = math.exp(-0.1 * (now - time)) if order == "decay" and time is not None else 1.0
        recency = math.inf if time is None else -time
        whole.append((-scored.score * kept, recency, place, scored.document.id))
    assert [scored.document.id for scored in found] == [key[-1] for key in sorted(whole)[:top_k]]
    # Rows and records are two doors to one thing.
    rows = TimeAwareRetriever(inner, **options).search([query], len(documents)).rows[0]
    assert [documents[row].id for row in rows if row >= 0] == [key[-1] for key in sorted(whole)]


def test_rows_are_not_starved_by_the_future() -> None:
    later = [document(f"late{i}", 9 + i) for i in range(300)]
    documents = [Document(d.id, "met", d.facts) for d in [*later, OLD, MID, PLAIN]]
    retriever = TimeAwareRetriever(BM25Retriever(documents))
    queries = [Query("a", "met", timestamp=7), Query("b", "met"), Query("c", "nobody", timestamp=7)]
    rows, scores = retriever.search(queries, 2)
    assert rows.tolist() == [[301, 300], [0, 1], [-1, -1]]
    assert scores[0, 0] == scores[1, 0] > scores[2, 0] == 0


def test_rows_only_where_the_wrapped_retriever_has_them(fixed: Any) -> None:
    with pytest.raises(RetrievalError, match="rows"):
        TimeAwareRetriever(fixed).search([AT_7], 3)


def test_the_fingerprint_names_every_setting(fixed: Any) -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"strict": False},
        {"pool": 5},
        {"max_pool": 400},
        {"distinct_facts": True},
        {"order": "decay"},
        {"order": "decay", "decay": 0.5},
        {"order": "decay", "time_unit": 24},
    ]
    fingerprints = {TimeAwareRetriever(fixed, **options).fingerprint for options in settings}
    assert len(fingerprints) == len(settings)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"order": "newest"}, "order"),
        ({"decay": -1.0}, "decay"),
        ({"time_unit": 0}, "time_unit"),
        ({"pool": 0}, "pool"),
        ({"pool": 9, "max_pool": 8}, "max_pool"),
    ],
)
def test_options_out_of_range(fixed: Any, options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        TimeAwareRetriever(fixed, **options)
    with pytest.raises(ConfigError, match="top_k"):
        TimeAwareRetriever(fixed).retrieve([AT_7], 0)
