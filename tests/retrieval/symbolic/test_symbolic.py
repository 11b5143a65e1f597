"""Symbolic retrieval: groundings, order, time, provenance; chains made whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rulerag.kg.grounding import EvidenceModel
from rulerag.retrieval.symbolic import SymbolicRetriever, complete_chains
from rulerag.retrieval.symbolic.chain_completion import answer_atom
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Document, Fact, Query, ScoredDocument
from tests.retrieval.conftest import ids


def rule(head: str, *body: Atom, support: int = 9, size: int = 10) -> Rule:
    quality = RuleQuality(
        support=support,
        body_size=size,
        pca_body_size=size,
        confidence=support / size,
        pca_confidence=support / size,
    )
    return Rule(Atom(head, "?x", "?y"), body, quality=quality)


CALLS = replace(rule("meets", Atom("calls", "?x", "?y"), support=8), temporal=True)
INVITED = replace(rule("meets", Atom("invites", "?y", "?x"), support=5), temporal=True)


class Fixed:
    """Selects the same rules for every query."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        return [list(self.rules) for _ in queries]


def stating(facts: Sequence[Fact]) -> list[Document]:
    return [Document(f"d{i}", " ".join(fact[:3]), (fact,)) for i, fact in enumerate(facts)]


def symbolic(facts: Sequence[Fact], *rules: Rule, **options: Any) -> SymbolicRetriever:
    evidence = EvidenceModel(prior=0)
    return SymbolicRetriever(stating(facts), Fixed(*rules), evidence=evidence, **options)


MEETINGS = [
    Fact("ann", "calls", "bob", 1),
    Fact("ann", "calls", "bob", 4),
    Fact("ann", "calls", "cid", 2),
    Fact("dan", "invites", "ann", 3),
    Fact("ann", "calls", "eve", 9),
    Fact("ann", "likes", "fay", 1),
]
MEETS = Query("q", "Time 9 what does ann meets ?", "ann", "meets", 9, ("bob",))


def test_one_document_per_answer_first_most_recent_first_never_from_the_future() -> None:
    subject = symbolic(MEETINGS, CALLS, INVITED)
    (found,) = subject.retrieve([MEETS], 10)
    # bob is called twice (noisy-or 0.96), cid once (0.8), dan invited (0.5); then bob's older call.
    assert ids(found) == ["d1", "d2", "d3", "d0"]
    assert found[0].score == pytest.approx(0.96)
    assert found[2].rule_ids == (INVITED.id,)
    (hit,) = found[3].found_by
    assert (hit.rule_id, hit.rank, hit.atom) == (CALLS.id, 3, 0)
    assert hit.score == pytest.approx(0.8)
    assert "d4" in ids(subject.retrieve([replace(MEETS, timestamp=10)], 10)[0])
    assert ids(subject.retrieve([MEETS], 2)[0]) == ids(found)[:2]
    assert sorted(ids(subject.retrieve_union([MEETS], 1)[0])) == ["d1", "d3"]  # each rule's best
    # A static and a dated rule with one body are two rules.
    both = CALLS, replace(CALLS, temporal=False)
    (first, *_), *_ = symbolic(MEETINGS, *both).retrieve([MEETS], 1)
    assert set(first.rule_ids) == {one.id for one in both}


def test_equal_groundings_stand_in_the_order_of_their_facts_a_body_seen_twice_behind() -> None:
    facts = [Fact("ann", relation, "bob") for relation in ("invites", "calls", "calls")]
    rules = [rule("meets", Atom(relation, "?x", "?y")) for relation in ("calls", "invites")]
    for more in ([], [replace(rules[0], temporal=True)]):
        (found,) = symbolic(facts, *rules, *more).retrieve([replace(MEETS, timestamp=None)], 5)
        assert ids(found) == ["d0", "d1", "d2"]
        assert [s.score - found[0].score for s in found] == pytest.approx([0, -2, -4])


BORN = [Fact("ann", "born in", "Velm"), Fact("Velm", "city of", "Orland")]
LIVES = [Fact("ann", "friend of", f"f{i}") for i in range(3)]
LIVES += [Fact(f"f{i}", "lives in", "Norrland") for i in range(3)]
CITIZEN = Query("q", "what does ann citizen of ?", "ann", "citizen of")


def chain(first: str, second: str, support: int) -> Rule:
    body = Atom(first, "?x", "?z"), Atom(second, "?z", "?y")
    return rule("citizen of", *body, support=support)


BIRTHS, FRIENDS = chain("born in", "city of", 6), chain("friend of", "lives in", 3)


@pytest.mark.parametrize(
    ("whole_chains", "first"),
    [(0, ["d5", "d1", "d2", "d0"]), (1, ["d2", "d5", "d1"]), (2, ["d2", "d5", "d0", "d1"])],
)
def test_a_chain_counts_once_and_the_first_answers_get_theirs_whole(
    whole_chains: int, first: list[str]
) -> None:
    # Three friends in Norrland outweigh one birth in Orland: 1 - 0.7**3 = 0.657 against 0.6.
    subject = symbolic([*BORN, *LIVES], BIRTHS, FRIENDS, whole_chains=whole_chains)
    (found,) = subject.retrieve([CITIZEN], 10)
    assert ids(found)[: len(first)] == first
    assert set(ids(found)) == {f"d{i}" for i in range(8)}
    assert found[0].score == pytest.approx(1 - 0.7**3)
    told = {s.document.id: {hit.atom for hit in s.found_by} for s in found}
    assert [told[name] for name in ("d0", "d1", "d2", "d5")] == [{0}, {1}, {0}, {1}]


def test_the_union_of_undated_facts_names_each_rules_best_answers() -> None:
    # Three friends live in Norrland and one in Sudland: two answers, not two ways to the first.
    facts = [*LIVES, Fact("ann", "friend of", "f9"), Fact("f9", "lives in", "Sudland")]
    subject = symbolic(facts, FRIENDS)
    (union,) = subject.retrieve_union([CITIZEN], 2)
    assert set(ids(union)) == {"d0", "d3", "d6", "d7"}
    ranks = {h.rank for s in union for h in s.found_by if s.document.id in ("d3", "d7")}
    assert ranks == {1, 2}
    for top_k in (1, 2, 3):
        (best,), (whole,) = (
            subject.retrieve([CITIZEN], top_k),
            subject.retrieve_union([CITIZEN], top_k),
        )
        assert set(ids(best)) <= set(ids(whole))


def test_constants_and_bodies_of_three_atoms_are_executed() -> None:
    constant = Rule(Atom("citizen of", "?x", "Orland"), (Atom("born in", "?x", "Velm"),))
    subject = symbolic([*BORN, Fact("bob", "born in", "Velm")], constant)
    found = subject.retrieve([CITIZEN, replace(CITIZEN, subject="bob")], 5)
    assert [ids(one) for one in found] == [["d0"], ["d2"]]
    facts = [Fact("ann", "part of", "A"), Fact("A", "led by", "bob"), Fact("bob", "citizen", "O")]
    body = (Atom("citizen", "?w", "?y"), Atom("part of", "?x", "?z"), Atom("led by", "?z", "?w"))
    (found,) = symbolic(facts, rule("citizen of", *body)).retrieve([CITIZEN], 5)
    told = {s.document.id: [hit.atom for hit in s.found_by] for s in found}
    assert told == {"d2": [0], "d0": [1], "d1": [2]}


def test_a_hub_beyond_the_bound_is_counted_not_written_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Twenty friends in each of twenty clubs, all in one town.
    facts = [Fact("ann", "member of", f"c{i}") for i in range(20)]
    facts += [Fact(f"f{j}", "member of", f"c{i}") for i in range(20) for j in range(20)]
    facts += [Fact(f"f{j}", "lives in", "Norrland") for j in range(20)]
    body = (
        Atom("member of", "?x", "?z"),
        Atom("member of", "?w", "?z"),
        Atom("lives in", "?w", "?y"),
    )
    hub = rule("citizen of", *body, support=1, size=5000)
    scores = {}
    for bound in (500_000, 450, 250):
        subject = symbolic(facts, hub, max_rows=bound, whole_chains=0)
        ((found,),) = subject.retrieve([CITIZEN], 1)
        scores[bound] = found.score
        assert found.document.facts[0].object == "Norrland"
    assert scores[500_000] == scores[450] > scores[250] > 0
    assert sum("left out" in record.message for record in caplog.records) == 1


def test_rules_that_cannot_be_executed_find_nothing_and_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = rule("citizen of", Atom("born in", "?x", "?y"), Atom("lives in", "?z", "?w"))
    unknown = rule("citizen of", Atom("born in", "?x", "?z"), Atom("never seen", "?z", "?y"))
    caplog.set_level("INFO")
    subject = symbolic([*BORN, *LIVES], apart, unknown)
    assert subject.retrieve([CITIZEN, replace(CITIZEN, subject="nobody")], 5) == [[], []]
    assert symbolic(BORN).retrieve([CITIZEN], 10) == [[]]
    told = " ".join(record.message for record in caplog.records)
    assert "nothing leads from ?x to the body atom 2" in told
    assert told.count("no fact has the relation 'never seen'") == 1


# --- chain completion ----------------------------------------------------------------------------

CHAIN, DIRECT = BIRTHS, rule("citizen of", Atom("lives in", "?x", "?y"))
BY_NAME = {
    "velm": Fact("Velm", "city of", "Orland"),
    "noise": Fact("bob", "born in", "Brund"),
    "brund": Fact("Brund", "city of", "Norrland"),
    "home": Fact("ann", "lives in", "Elsewhere"),
    "born": Fact("ann", "born in", "Velm"),
    "again": Fact("ann", "born in", "Brund"),
    "known": Fact("ann", "saw", "Velm"),
}


def listed(names: str) -> list[ScoredDocument]:
    documents = [Document(name, name, (BY_NAME[name],)) for name in names.split()]
    return [ScoredDocument(d, 1 / rank, rank) for rank, d in enumerate(documents, start=1)]


@pytest.mark.parametrize(
    ("found", "count", "rules", "expected"),
    [
        ("noise velm home brund born again", 1, [CHAIN], "noise velm born home brund again"),
        ("noise velm home brund born again", 2, [CHAIN], "noise velm born home brund again"),
        ("noise brund velm home born again", 2, [CHAIN], "noise brund again velm born home"),
        ("born velm home", 1, [CHAIN], "born velm home"),
        ("velm brund", 3, [CHAIN], "velm brund"),
        ("noise velm home born", 0, [CHAIN], "noise velm home born"),
        ("noise velm home born", 3, [DIRECT], "noise velm home born"),
        ("noise velm home born", 3, [], "noise velm home born"),
        # Who lives in Orland needs no city: a rule of one atom names it by itself.
        (
            "noise velm home born",
            1,
            [CHAIN, Rule(CHAIN.head, (Atom("city of", "Velm", "?y"),))],
            "noise velm home born",
        ),
        # The nearest of several ways is taken.
        (
            "velm noise home known born",
            1,
            [CHAIN, chain("saw", "city of", 3)],
            "velm known noise home born",
        ),
    ],
)
def test_what_leads_to_an_answer_stands_behind_it(
    found: str, count: int, rules: list[Rule], expected: str
) -> None:
    whole = complete_chains(CITIZEN, rules, listed(found), count)
    assert " ".join(ids(whole)) == expected
    if found == expected:
        assert whole == listed(found)


def test_the_atom_that_names_the_answer() -> None:
    assert answer_atom(CHAIN) == 1
    assert answer_atom(Rule(CHAIN.head, CHAIN.body[::-1])) == 0
    assert answer_atom(Rule(Atom("h", "?x", "c"), CHAIN.body)) == 1
