"""Chains made whole: which documents move up, and which stay."""

from __future__ import annotations

from rulerag.retrieval.symbolic.chain_completion import answer_atom, complete_chains
from rulerag.rules import Atom, Rule
from rulerag.types import Document, Fact, Query, ScoredDocument

QUERY = Query("q", "what does ann citizen of ?", "ann", "citizen of")
HEAD = Atom("citizen of", "?x", "?y")
CHAIN = Rule(HEAD, (Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y")))
DIRECT = Rule(HEAD, (Atom("lives in", "?x", "?y"),))
FACTS = {
    "velm": Fact("Velm", "city of", "Orland"),
    "noise": Fact("bob", "born in", "Brund"),
    "brund": Fact("Brund", "city of", "Norrland"),
    "home": Fact("ann", "lives in", "Elsewhere"),
    "born": Fact("ann", "born in", "Velm"),
    "again": Fact("ann", "born in", "Brund"),
}


def listed(*names: str) -> list[ScoredDocument]:
    documents = [Document(name, name, (FACTS[name],)) for name in names]
    return [ScoredDocument(d, 1 / rank, rank) for rank, d in enumerate(documents, start=1)]


def ids(found: list[ScoredDocument]) -> list[str]:
    return [scored.document.id for scored in found]


def test_what_leads_to_an_answer_stands_behind_it() -> None:
    found = listed("noise", "velm", "home", "brund", "born", "again")
    whole = complete_chains(QUERY, [CHAIN], found, 1)
    assert ids(whole) == ["noise", "velm", "born", "home", "brund", "again"]
    assert [scored.rank for scored in whole] == [1, 2, 3, 4, 5, 6]
    assert [scored.score for scored in whole] == [1, 1 / 2, 1 / 2, 1 / 3, 1 / 4, 1 / 6]
    both = complete_chains(QUERY, [CHAIN], found, 2)
    assert ids(both) == ids(whole)
    far = listed("noise", "brund", "velm", "home", "born", "again")
    assert ids(complete_chains(QUERY, [CHAIN], far, 2))[:5] == [
        *("noise", "brund", "again", "velm", "born")
    ]


def test_nothing_moves_without_need() -> None:
    found = listed("noise", "velm", "home", "brund", "born")
    assert complete_chains(QUERY, [CHAIN], found, 0) == found
    assert complete_chains(QUERY, [DIRECT], found, 3) == found
    assert complete_chains(QUERY, [], found, 3) == found
    assert complete_chains(QUERY, [CHAIN], listed("velm", "brund"), 3) == listed("velm", "brund")
    in_order = listed("born", "velm", "home")
    assert ids(complete_chains(QUERY, [CHAIN], in_order, 1)) == ["born", "velm", "home"]
    # Who lives in Orland needs no city: the rule of one atom names it by itself.
    alone = Rule(HEAD, (Atom("city of", "Velm", "?y"),))
    assert complete_chains(QUERY, [CHAIN, alone], found, 1) == found


def test_the_nearest_of_several_ways_is_taken() -> None:
    known = Document("known", "t", (Fact("ann", "saw", "Velm"),))
    saw = Rule(HEAD, (Atom("saw", "?x", "?z"), Atom("city of", "?z", "?y")))
    found = [*listed("velm", "noise", "home"), ScoredDocument(known, 0.1, 4)]
    found += [ScoredDocument(Document("born", "t", (FACTS["born"],)), 0.05, 5)]
    for rules in ([CHAIN, saw], [saw, CHAIN]):
        assert ids(complete_chains(QUERY, rules, found, 1))[:2] == ["velm", "known"]


def test_the_atom_that_names_the_answer() -> None:
    assert answer_atom(CHAIN) == 1
    assert answer_atom(Rule(HEAD, CHAIN.body[::-1])) == 0
    assert answer_atom(Rule(Atom("h", "?x", "c"), CHAIN.body)) == 1
