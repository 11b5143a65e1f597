"""Answers that the corpus states already: told apart, and left out where that is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerag.errors import ConfigError
from rulerag.retrieval.bm25 import BM25Retriever
from rulerag.retrieval.grounded import far_ends
from rulerag.retrieval.rule_guided import RuleGuidedRetriever
from rulerag.retrieval.rule_selection import HeadRelationSelector
from rulerag.retrieval.stated import StatedAnswers, leads_elsewhere
from rulerag.retrieval.symbolic import SymbolicRetriever
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
QUERY = Query("q", "what does ann citizen of ?", "ann", "citizen of")
QUALITY = RuleQuality(support=8, pca_body_size=10, body_size=20, pca_confidence=0.8)
HEAD = Atom("citizen of", "?x", "?y")
CHAIN = Rule(HEAD, (Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y")), quality=QUALITY)
DIRECT = Rule(HEAD, (Atom("lives in", "?x", "?y"),), quality=QUALITY)
SELECTOR = HeadRelationSelector(RuleBank([CHAIN, DIRECT]))


def ids(found: list[ScoredDocument]) -> set[str]:
    return {scored.document.id for scored in found}


def test_what_is_stated_depends_on_the_time() -> None:
    dated = [Document(f"t{t}", "t", (Fact("ann", "meets", f"p{t}", t),)) for t in range(4)]
    stated = StatedAnswers([*dated, *DOCUMENTS])
    asked = Query("q", "t", "ann", "meets", 2)
    assert stated.of(asked) == {"p0", "p1"}
    assert stated.of(replace(asked, timestamp=None)) == {"p0", "p1", "p2", "p3"}
    assert stated.of(QUERY) == {"Orland"}
    assert stated.of(replace(QUERY, subject="nobody")) == frozenset()


def test_a_document_leads_elsewhere_unless_all_it_names_is_stated() -> None:
    orland, both = frozenset({"Orland"}), Document("both", "t", tuple(FACTS[3:5]))
    bound = {"?z": ("Velm", "Brund")}

    def leads(document: Document, number: int = 1) -> bool:
        return leads_elsewhere(document, CHAIN, number, bound, orland)

    assert [leads(document) for document in DOCUMENTS[3:5]] == [False, True]
    assert leads(both)  # it names Norrland too
    assert leads(DOCUMENTS[1], 0) and leads(DOCUMENTS[1])  # it names no answer
    assert far_ends(CHAIN.body[1], both.facts, "?y", bound) == ["Orland", "Norrland"]
    assert far_ends(CHAIN.body[1], both.facts, "?z", bound) == ["Velm", "Brund"]


@pytest.mark.parametrize("merge", ["rank", "calibrated", "evidence"])
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
