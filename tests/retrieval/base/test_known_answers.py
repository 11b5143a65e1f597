"""Answers that the corpus states: put first, or left out where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from rulerag.errors import ConfigError
from rulerag.kg.grounding.statements import Statements
from rulerag.retrieval.base.fusion import METHODS, FusedRetriever
from rulerag.retrieval.base.known_answers import known_answers_first
from rulerag.retrieval.guided.merging.control import DiversifiedRetriever
from rulerag.retrieval.guided.merging.learned import MergeWeights
from rulerag.retrieval.guided.provenance import far_ends, may_answer
from rulerag.retrieval.guided.retriever import RuleGuidedRetriever
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.lexical.bm25 import BM25Retriever
from rulerag.retrieval.symbolic.retriever import SymbolicRetriever
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query, ScoredDocument

FACTS = [
    Fact("ann", "citizen of", "Orland"),
    Fact("ann", "born in", "Velm"),
    Fact("ann", "born in", "Brund"),
    Fact("Velm", "city of", "Orland"),
    Fact("Brund", "city of", "Norrland"),
    Fact("ann", "lives in", "Orland"),
    Fact("ann", "lives in", "Sudland"),
]
DOCUMENTS = [Document(f"d{i}", f"{f[0]} {f[1]} {f[2]}.", (f,)) for i, f in enumerate(FACTS)]
QUERY = Query("q", "what does ann citizen of ?", "ann", "citizen of", prediction=True)
QUALITY = RuleQuality(support=8, pca_body_size=10, body_size=20, pca_confidence=0.8)
HEAD = Atom("citizen of", "?x", "?y")
CHAIN = Rule(HEAD, (Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y")), quality=QUALITY)
DIRECT = Rule(HEAD, (Atom("lives in", "?x", "?y"),), quality=QUALITY)
SELECTOR = HeadRelationSelector(RuleBank([CHAIN, DIRECT]))


def ids(found: list[ScoredDocument]) -> set[str]:
    return {scored.document.id for scored in found}


def test_what_is_stated_depends_on_the_time() -> None:
    dated = [Document(f"t{t}", "t", (Fact("ann", "meets", f"p{t}", t),)) for t in range(4)]
    stated = Statements([*dated, *DOCUMENTS])
    asked = Query("q", "t", "ann", "meets", 2)
    assert stated.before(asked) == {"p0", "p1"}
    assert stated.before(replace(asked, timestamp=None)) == {"p0", "p1", "p2", "p3"}
    assert stated.before(QUERY) == {"Orland"}
    assert stated.before(replace(QUERY, subject="nobody")) == frozenset()


def test_a_document_may_answer_unless_all_it_names_is_stated() -> None:
    orland, both = frozenset({"Orland"}), Document("both", "t", tuple(FACTS[3:5]))
    bound = {"?z": ("Velm", "Brund")}

    def leads(document: Document, number: int = 1) -> bool:
        return may_answer(document, CHAIN, number, bound, orland)

    assert [leads(document) for document in DOCUMENTS[3:5]] == [False, True]
    assert leads(both)  # it names Norrland too
    assert leads(DOCUMENTS[1], 0) and leads(DOCUMENTS[1])  # it names no answer
    assert far_ends(CHAIN.body[1], both.facts, "?y", bound) == ["Orland", "Norrland"]
    assert far_ends(CHAIN.body[1], both.facts, "?z", bound) == ["Velm", "Brund"]


@pytest.mark.parametrize("merge", ["rank", "evidence"])
@pytest.mark.parametrize("compose", ["substitute", "both"])
def test_guided_retrieval_leaves_them_out(merge: str, compose: str) -> None:
    found = {}
    for skip in (False, True):
        guided = RuleGuidedRetriever(
            BM25Retriever(DOCUMENTS),
            SELECTOR,
            merge=merge,
            compose=compose,
            skip_stated=skip,
        )
        (documents,) = guided.retrieve([QUERY], 7)
        found[skip] = {(s.document.id, h.atom) for s in documents for h in s.found_by}
    assert {("d3", 1), ("d4", 1), ("d5", 0), ("d6", 0)} <= found[False]
    assert {("d4", 1), ("d6", 0)} <= found[True]
    assert not {("d3", 1), ("d5", 0)} & found[True]


def test_rules_about_others_or_to_a_stated_answer_are_not_searched() -> None:
    body = (Atom("lives in", "?x", "?z"), Atom("city of", "?w", "?z"))
    about_bob = Rule(Atom("citizen of", "bob", "?w"), (Atom("lives in", "?w", "bob"),))
    to_orland = Rule(Atom("citizen of", "?x", "Orland"), body)
    selector = HeadRelationSelector(RuleBank([about_bob, to_orland]))

    def rules(**options: bool) -> set[str | None]:
        guided = RuleGuidedRetriever(BM25Retriever(DOCUMENTS), selector, **options)  # type: ignore[arg-type]
        return {hit.rule_id for s in guided.retrieve([QUERY], 7)[0] for hit in s.found_by}

    assert rules() == {to_orland.id}
    assert rules(skip_stated=True) == {None}  # no rule is left: the plain query


def test_symbolic_retrieval_leaves_them_out() -> None:
    (everything,) = SymbolicRetriever(DOCUMENTS, SELECTOR).retrieve([QUERY], 7)
    assert ids(everything) == {"d1", "d2", "d3", "d4", "d5", "d6"}
    subject = SymbolicRetriever(DOCUMENTS, SELECTOR, skip_stated=True)
    (rest,) = subject.retrieve([QUERY], 7)
    assert ids(rest) == {"d2", "d4", "d6"}
    (union,) = subject.retrieve_union([QUERY], 7)
    assert ids(union) == ids(rest)
    # Nothing of the asked relation is stated about bob, so nothing is left out.
    born = Document("b", "t", (Fact("bob", "lives in", "Orland"),))
    subject = SymbolicRetriever([*DOCUMENTS, born], SELECTOR, skip_stated=True)
    assert ids(subject.retrieve([replace(QUERY, subject="bob")], 7)[0]) == {"b"}


def test_a_retriever_that_does_not_tell_its_documents_is_refused() -> None:
    class Other:
        fingerprint = "other"

        def retrieve(self, queries: list[Query], top_k: int) -> list[list[ScoredDocument]]:
            return [[] for _ in queries]

    with pytest.raises(ConfigError, match="key 'skip_stated'"):
        RuleGuidedRetriever(Other(), SELECTOR, skip_stated=True)  # type: ignore[arg-type]


# --- what is stated comes first ----------------------------------------------------------------

OPEN = replace(QUERY, prediction=False)
CROWD = [
    Document(f"c{n}", f"ann born in Town{n}.", (Fact("ann", "born in", f"Town{n}"),))
    for n in range(300)
]


def _retrievers(documents: list[Document]) -> dict[str, Any]:
    bm25 = BM25Retriever(documents)
    made: dict[str, Any] = {
        merge: RuleGuidedRetriever(bm25, SELECTOR, merge=merge, compose="both")
        for merge in ("rank", "evidence")
    }
    weights = MergeWeights({"confidence": 1.0, "share": 2.0})
    learned = RuleGuidedRetriever(bm25, SELECTOR, merge="learned", weights=weights)
    fused = {method: FusedRetriever([learned, bm25], method=method) for method in METHODS}
    return {
        **made,
        **fused,
        "learned": learned,
        "no rules": RuleGuidedRetriever(bm25, HeadRelationSelector(RuleBank([]))),
        "pooled": DiversifiedRetriever(bm25),
        "symbolic": SymbolicRetriever(documents, SELECTOR),
    }


@pytest.mark.parametrize("name", list(_retrievers(DOCUMENTS)))
def test_what_is_stated_comes_first_in_list_and_union(name: str) -> None:
    retriever = _retrievers([*CROWD, *DOCUMENTS])[name]
    lists = [retriever.retrieve([OPEN], top_k)[0] for top_k in (1, 3, 10)]
    if hasattr(retriever, "retrieve_union"):
        lists += [retriever.retrieve_union([OPEN], top_k)[0] for top_k in (1, 10)]
    for found in lists:
        assert found[0].document.id == "d0"  # ann citizen of Orland
        assert [scored.rank for scored in found] == list(range(1, len(found) + 1))
        assert all(a.score >= b.score for a, b in pairwise(found))
        assert len(ids(found)) == len(found), "no document twice"
    assert [len(found) for found in lists[:2]] == [1, 3]


@pytest.mark.parametrize("name", list(_retrievers(DOCUMENTS)))
def test_the_others_keep_their_order(name: str) -> None:
    retriever = _retrievers(DOCUMENTS)[name]
    asked, foretold = (retriever.retrieve([query], 7)[0] for query in (OPEN, QUERY))
    rest = [scored.document.id for scored in foretold if scored.document.id != "d0"]
    assert [scored.document.id for scored in asked[1:]] == rest
    hits = {scored.document.id: scored.found_by for scored in foretold}
    assert all(s.found_by == hits[s.document.id] for s in asked[1:])
    assert any(hit.rule_id is None for hit in asked[0].found_by), "the question itself led to it"


def test_each_stated_answer_has_one_document_in_front_and_copies_stay_behind() -> None:
    facts = [Fact("ann", "citizen of", place) for place in ("A", "B", "A", "C", "A")]
    stated = [Document(f"s{n}", "t", (fact,)) for n, fact in enumerate(facts)]
    both = Document("both", "t", (Fact("ann", "citizen of", "B"), Fact("ann", "citizen of", "C")))
    ranked = [
        ScoredDocument(document, 9.0 - n, n + 1)
        for n, document in enumerate([DOCUMENTS[1], stated[2], stated[0], both])
    ]
    found = known_answers_first(OPEN, ranked, Statements([*stated, both]))
    assert [s.document.id for s in found] == ["s2", "both", "d1", "s0"]
    assert [s.score for s in found] == [11.0, 10.0, 9.0, 7.0]
    # Without a corpus, what was found is all that is known.
    alone = known_answers_first(OPEN, ranked[:3], Statements(()))
    assert [s.document.id for s in alone] == ["s2", "d1", "s0"]


def test_a_dated_question_is_led_by_what_was_stated_last() -> None:
    lived = [Document(f"t{t}", "t", (Fact("ann", "citizen of", f"p{t}", t),)) for t in (1, 4, 7)]
    corpus = Statements(lived)
    for now, first in ((0, None), (3, "t1"), (4, "t4"), (9, "t7"), (None, "t7")):
        found = known_answers_first(replace(OPEN, timestamp=now), [], corpus)
        assert [s.document.id for s in found] == ([first] if first else [])


def test_what_is_stated_is_skipped_for_predictions_alone() -> None:
    def found(query: Query, *, skip: bool) -> list[list[ScoredDocument]]:
        guided = RuleGuidedRetriever(BM25Retriever(DOCUMENTS), SELECTOR, skip_stated=skip)
        symbolic = SymbolicRetriever(DOCUMENTS, SELECTOR, skip_stated=skip)
        return [retriever.retrieve([query], 7)[0] for retriever in (guided, symbolic)]

    assert found(OPEN, skip=True) == found(OPEN, skip=False)
    assert [documents[0].document.id for documents in found(OPEN, skip=True)] == ["d0", "d0"]
    assert found(QUERY, skip=True) != found(QUERY, skip=False)
