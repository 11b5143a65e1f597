"""The pooled control: one deep search, its places shared out by entity pair."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.retrieval.base.fusion import FusedRetriever
from rulerag.retrieval.base.time_aware import TimeAwareRetriever
from rulerag.retrieval.guided.merging.control import DiversifiedRetriever
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.types import Document, Fact, Query

FACTS = [
    Fact("ann", "calls", "bob", 1),
    Fact("ann", "calls", "bob", 2),
    Fact("ann", "calls", "bob", 3),
    Fact("ann", "calls", "cid", 1),
    Fact("dan", "writes to", "eve", 1),
]
DOCUMENTS = [
    Document(f"d{i}", f"{f.subject} {f.relation} {f.object}", (f,)) for i, f in enumerate(FACTS)
]
QUERY = Query("q", "ann calls", "ann", "calls", prediction=True)


def ids(retriever: object, top_k: int) -> list[str]:
    (found,) = retriever.retrieve([QUERY], top_k)  # type: ignore[attr-defined]
    assert [scored.rank for scored in found] == list(range(1, len(found) + 1))
    return [scored.document.id for scored in found]


def test_every_pair_gets_a_place_before_any_gets_a_second() -> None:
    bm25 = BM25Retriever(DOCUMENTS)
    assert ids(bm25, 2) == ["d0", "d1"]
    assert ids(DiversifiedRetriever(bm25), 2) == ["d0", "d3"]
    assert ids(DiversifiedRetriever(bm25), 10) == ["d0", "d3", "d1", "d2"]


def test_hits_are_those_of_the_plain_search() -> None:
    (found,) = DiversifiedRetriever(BM25Retriever(DOCUMENTS)).retrieve([QUERY], 2)
    (hit,) = found[1].found_by
    assert (hit.rule_id, hit.rank) == (None, 4)


def test_a_pool_of_one_is_the_first_document() -> None:
    assert ids(DiversifiedRetriever(BM25Retriever(DOCUMENTS), pool=1), 1) == ["d0"]


def test_bad_input() -> None:
    bm25 = BM25Retriever(DOCUMENTS)
    with pytest.raises(ConfigError, match="pool"):
        DiversifiedRetriever(bm25, pool=0)
    with pytest.raises(ConfigError, match="power"):
        DiversifiedRetriever(bm25, power=0)
    with pytest.raises(ConfigError, match="rows"):
        DiversifiedRetriever(object())  # type: ignore[arg-type]
    wrapped = TimeAwareRetriever(FusedRetriever([bm25]))
    for retriever in (wrapped, TimeAwareRetriever(wrapped)):
        with pytest.raises(ConfigError, match="TimeAwareRetriever cannot answer in rows"):
            DiversifiedRetriever(retriever)
    with pytest.raises(ConfigError, match="top_k"):
        DiversifiedRetriever(bm25).retrieve([QUERY], 0)
    assert DiversifiedRetriever(bm25).fingerprint != DiversifiedRetriever(bm25, pool=5).fingerprint
