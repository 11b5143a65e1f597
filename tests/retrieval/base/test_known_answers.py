"""Answers that the corpus states: put first, or left out where that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rulerag.kg.grounding import Statements
from rulerag.retrieval.base import FusedRetriever, known_answers_first
from rulerag.retrieval.base.fusion import METHODS
from rulerag.retrieval.guided import HeadRelationSelector, RuleGuidedRetriever
from rulerag.retrieval.guided.merging import DiversifiedRetriever, MergeWeights
from rulerag.retrieval.guided.provenance import far_ends, may_answer
from rulerag.retrieval.lexical import BM25Retriever
from rulerag.retrieval.symbolic import SymbolicRetriever
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query, ScoredDocument
from tests.retrieval.conftest import ids

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
PREDICTION = Query("q", "what does ann citizen of ?", "ann", "citizen of", prediction=True)
OPEN = replace(PREDICTION, prediction=False)
QUALITY = RuleQuality(support=8, pca_body_size=10, body_size=20, pca_confidence=0.8)
HEAD = Atom("citizen of", "?x", "?y")
CHAIN = Rule(HEAD, (Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y")), quality=QUALITY)
DIRECT = Rule(HEAD, (Atom("lives in", "?x", "?y"),), quality=QUALITY)
SELECTOR = HeadRelationSelector(RuleBank([CHAIN, DIRECT]))
BM25 = BM25Retriever(DOCUMENTS)


# --- left out ------------------------------------------------------------------------------------


def test_what_is_stated_depends_on_the_time_and_what_a_document_names() -> None:
    dated = [Document(f"t{t}", "t", (Fact("ann", "meets", f"p{t}", t),)) for t in range(4)]
    stated = Statements([*dated, *DOCUMENTS])
    asked = Query("q", "t", "ann", "meets", 2)
    assert stated.before(asked) == {"p0", "p1"}
    assert stated.before(replace(asked, timestamp=None)) == {"p0", "p1", "p2", "p3"}
    assert stated.before(replace(PREDICTION, subject="nobody")) == frozenset()
    both, bound = Document("both", "t", tuple(FACTS[3:5])), {"?z": ("Velm", "Brund")}

    def leads(document: Document, number: int = 1) -> bool:
        return may_answer(document, CHAIN, number, bound, frozenset({"Orland"}))

    assert [leads(one) for one in (*DOCUMENTS[3:5], both)] == [False, True, True]
    assert leads(DOCUMENTS[1], 0) and leads(DOCUMENTS[1])  # it names no answer
    assert far_ends(CHAIN.body[1], both.facts, "?y", bound) == ["Orland", "Norrland"]


@pytest.mark.parametrize("merge", ["rank", "evidence"])
@pytest.mark.parametrize("compose", ["substitute", "both"])
def test_guided_retrieval_leaves_known_answers_out(merge: str, compose: str) -> None:
    found = {}
    for skip in (False, True):
        guided = RuleGuidedRetriever(BM25, SELECTOR, merge=merge, compose=compose, skip_stated=skip)
        (documents,) = guided.retrieve([PREDICTION], 7)
        found[skip] = {(s.document.id, h.atom) for s in documents for h in s.found_by}
    assert {("d3", 1), ("d4", 1), ("d5", 0), ("d6", 0)} <= found[False]
    assert {("d4", 1), ("d6", 0)} <= found[True]
    assert not {("d3", 1), ("d5", 0)} & found[True]


def test_rules_about_others_or_to_a_stated_answer_are_not_searched() -> None:
    body = (Atom("lives in", "?x", "?z"), Atom("city of", "?w", "?z"))
    about_bob = Rule(Atom("citizen of", "bob", "?w"), (Atom("lives in", "?w", "bob"),))
    to_orland = Rule(Atom("citizen of", "?x", "Orland"), body)
    selector = HeadRelationSelector(RuleBank([about_bob, to_orland]))

    def rules(skip: bool) -> set[str | None]:
        guided = RuleGuidedRetriever(BM25, selector, skip_stated=skip)
        return {hit.rule_id for s in guided.retrieve([PREDICTION], 7)[0] for hit in s.found_by}

    assert rules(False) == {to_orland.id}
    assert rules(True) == {None}  # no rule is left: the plain query


def test_symbolic_retrieval_leaves_them_out() -> None:
    whole, subject = (
        SymbolicRetriever(DOCUMENTS, SELECTOR, skip_stated=skip) for skip in (False, True)
    )
    assert set(ids(whole.retrieve([PREDICTION], 7)[0])) == {"d1", "d2", "d3", "d4", "d5", "d6"}
    for found in (subject.retrieve([PREDICTION], 7), subject.retrieve_union([PREDICTION], 7)):
        assert set(ids(found[0])) == {"d2", "d4", "d6"}
    # Nothing of the asked relation is stated about bob, so nothing is left out.
    born = Document("b", "t", (Fact("bob", "lives in", "Orland"),))
    subject = SymbolicRetriever([*DOCUMENTS, born], SELECTOR, skip_stated=True)
    assert ids(subject.retrieve([replace(PREDICTION, subject="bob")], 7)[0]) == ["b"]


def test_what_is_stated_is_skipped_for_predictions_alone() -> None:
    def found(query: Query, *, skip: bool) -> list[list[ScoredDocument]]:
        guided = RuleGuidedRetriever(BM25, SELECTOR, skip_stated=skip)
        symbolic = SymbolicRetriever(DOCUMENTS, SELECTOR, skip_stated=skip)
        return [retriever.retrieve([query], 7)[0] for retriever in (guided, symbolic)]

    assert found(OPEN, skip=True) == found(OPEN, skip=False)
    assert found(PREDICTION, skip=True) != found(PREDICTION, skip=False)


# --- put first -----------------------------------------------------------------------------------

CROWD = [
    Document(f"c{n}", f"ann born in Town{n}.", (Fact("ann", "born in", f"Town{n}"),))
    for n in range(300)
]


def retrievers(documents: list[Document]) -> dict[str, Any]:
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


MANY, FEW = retrievers([*CROWD, *DOCUMENTS]), retrievers(DOCUMENTS)


@pytest.mark.parametrize("name", list(FEW))
def test_what_is_stated_comes_first_and_the_others_keep_their_order(name: str) -> None:
    many, few = MANY[name], FEW[name]
    lists = [many.retrieve([OPEN], top_k)[0] for top_k in (1, 3, 10)]
    assert [len(found) for found in lists[:2]] == [1, 3]
    if hasattr(many, "retrieve_union"):
        lists += [many.retrieve_union([OPEN], top_k)[0] for top_k in (1, 10)]
    assert all(ids(found)[0] == "d0" for found in lists)  # ann citizen of Orland
    asked, foretold = (few.retrieve([query], 7)[0] for query in (OPEN, PREDICTION))
    assert ids(asked)[1:] == [name for name in ids(foretold) if name != "d0"]
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
    assert ids(found) == ["s2", "both", "d1", "s0"]
    assert [s.score for s in found] == [11.0, 10.0, 9.0, 7.0]
    # Without a corpus, what was found is all that is known.
    assert ids(known_answers_first(OPEN, ranked[:3], Statements(()))) == ["s2", "d1", "s0"]


def test_a_dated_question_is_led_by_what_was_stated_last() -> None:
    lived = [Document(f"t{t}", "t", (Fact("ann", "citizen of", f"p{t}", t),)) for t in (1, 4, 7)]
    for now, first in ((0, []), (3, ["t1"]), (4, ["t4"]), (9, ["t7"]), (None, ["t7"])):
        asked = replace(OPEN, timestamp=now)
        assert ids(known_answers_first(asked, [], Statements(lived))) == first
