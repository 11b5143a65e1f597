"""The symbolic reader: what it reads, how it scores, when it abstains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerag.errors import ConfigError
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.kg.grounding.evidence import EvidenceModel
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import (
    Completion,
    Document,
    Fact,
    GenerationRequest,
    GroundedAtom,
    Query,
)


def rule(body: str, confidence: float, *, inverse: bool = False) -> Rule:
    ends = ("?y", "?x") if inverse else ("?x", "?y")
    quality = RuleQuality(confidence=confidence)
    return Rule(Atom("meets", "?x", "?y"), (Atom(body, *ends),), temporal=True, quality=quality)


def request(facts: list[Fact], *rules: Rule, relation: str = "meets") -> GenerationRequest:
    documents = tuple(Document(f"d{i}", str(f), (f,)) for i, f in enumerate(facts))
    return GenerationRequest(Query("q", "?", "ann", relation, 10), documents, rules)


def test_the_most_confident_rule_decides_and_the_candidate_names_its_evidence() -> None:
    reader = SymbolicReader(labels={"bob_b": "Bob B"})
    facts = [Fact("ann", "calls", "bob_b", 1), Fact("cid", "invites", "ann", 2)]
    calls, invited = rule("calls", 0.9), rule("invites", 0.4, inverse=True)
    (completion,) = reader.generate([request(facts, invited, calls)])
    assert completion.text == "Bob B"
    best, second = completion.candidates
    assert (best.document_ids, best.rule_ids) == (("d0",), (calls.id,))
    assert (second.text, second.document_ids, second.rule_ids) == ("cid", ("d1",), (invited.id,))
    assert completion.score == best.score == pytest.approx(0.9)


def test_evidence_adds_up() -> None:
    facts = [Fact("ann", "calls", "bob", t) for t in (1, 2)] + [Fact("ann", "calls", "cid", 3)]
    (completion,) = SymbolicReader().generate([request(facts, rule("calls", 0.5))])
    assert completion.text == "bob"
    assert completion.score == pytest.approx(0.75)


def test_ties_go_to_the_more_recent_fact() -> None:
    facts = [Fact("ann", "calls", "bob", 1), Fact("ann", "calls", "cid", 3)]
    (completion,) = SymbolicReader().generate([request(facts, rule("calls", 0.5))])
    assert completion.text == "cid"


def test_rank_discount_prefers_earlier_documents() -> None:
    facts = [Fact("ann", "calls", "bob", 1), Fact("ann", "calls", "cid", 3)]
    reader = SymbolicReader(rank_discount=1.0, evidence=EvidenceModel(decay=0.0))
    (completion,) = reader.generate([request(facts, rule("calls", 0.5))])
    assert completion.text == "bob"


def test_facts_from_the_query_time_on_are_not_read() -> None:
    facts = [Fact("ann", "calls", "bob", 10), Fact("ann", "calls", "cid", 11)]
    (completion,) = SymbolicReader().generate([request(facts, rule("calls", 0.5))])
    assert completion.text == ""


def test_without_rules_it_reads_the_asked_relation() -> None:
    facts = [Fact("ann", "calls", "bob", 1), Fact("ann", "meets", "cid", 1)]
    (completion,) = SymbolicReader().generate([request(facts)])
    assert completion.text == "cid"
    assert completion.candidates[0].rule_ids == ()


def test_chains_need_all_their_documents() -> None:
    chain = Rule(
        Atom("meets", "?x", "?y"),
        (Atom("works for", "?x", "?z"), Atom("led by", "?z", "?y")),
        quality=RuleQuality(pca_confidence=0.7),
    )
    facts = [Fact("ann", "works for", "Acme", 1), Fact("Acme", "led by", "bob", 2)]
    (both,) = SymbolicReader().generate([request(facts, chain)])
    assert (both.text, both.candidates[0].document_ids) == ("bob", ("d0", "d1"))
    assert both.candidates[0].grounded == (("d0", chain.id, 0), ("d1", chain.id, 1))
    (half,) = SymbolicReader().generate([request(facts[:1], chain)])
    assert half.text == ""


def test_chains_of_three_atoms_and_what_grounds_them() -> None:
    body = (Atom("led by", "?w", "?y"), Atom("works for", "?x", "?z"), Atom("part of", "?z", "?w"))
    chain = Rule(Atom("meets", "?x", "?y"), body, quality=RuleQuality(pca_confidence=0.7))
    facts = [
        Fact("ann", "works for", "Acme"),
        Fact("Acme", "part of", "Group"),
        Fact("Group", "led by", "bob"),
        Fact("Acme", "led by", "cid"),
    ]
    (completion,) = SymbolicReader().generate([request(facts, chain)])
    assert completion.text == "bob" and len(completion.candidates) == 1
    assert set(completion.candidates[0].grounded) == {
        ("d2", chain.id, 0),
        ("d0", chain.id, 1),
        ("d1", chain.id, 2),
    }
    for missing in range(3):
        rest = [fact for number, fact in enumerate(facts) if number != missing]
        (none,) = SymbolicReader().generate([request(rest, chain)])
        assert none.text == ""


def test_one_document_may_ground_several_atoms_of_several_rules() -> None:
    facts = (Fact("ann", "works for", "Acme"), Fact("Acme", "led by", "bob"))
    chain = Rule(
        Atom("meets", "?x", "?y"),
        (Atom("works for", "?x", "?z"), Atom("led by", "?z", "?y")),
        quality=RuleQuality(pca_confidence=0.7),
    )
    asked = GenerationRequest(
        Query("q", "?", "ann", "meets"), (Document("d", "t", facts),), (chain,)
    )
    (completion,) = SymbolicReader().generate([asked])
    assert completion.candidates[0].document_ids == ("d",)
    assert completion.candidates[0].grounded == (("d", chain.id, 0), ("d", chain.id, 1))


def test_a_rule_that_is_not_connected_is_not_read() -> None:
    apart = Rule(
        Atom("meets", "?x", "?y"),
        (Atom("calls", "?x", "?y"), Atom("likes", "?z", "?w")),
        quality=RuleQuality(pca_confidence=0.9),
    )
    facts = [Fact("ann", "calls", "bob", 1), Fact("cid", "likes", "dan", 1)]
    (completion,) = SymbolicReader().generate([request(facts, apart)])
    assert completion.text == ""


def test_direct_reading_names_the_document_and_no_rule() -> None:
    (completion,) = SymbolicReader().generate([request([Fact("ann", "meets", "cid", 1)])])
    assert completion.candidates[0].grounded == (("d0", None, 0),)


def test_no_documents_no_answer() -> None:
    (completion,) = SymbolicReader().generate([request([])])
    assert (completion.text, completion.candidates) == ("", ())
    assert SymbolicReader().generate([]) == []


def test_bad_input_and_fingerprints() -> None:
    with pytest.raises(ConfigError, match="rank_discount"):
        SymbolicReader(rank_discount=-1)
    assert SymbolicReader().fingerprint != SymbolicReader(rank_discount=1).fingerprint


# --- what is stated ----------------------------------------------------------------------------


def asked(facts: list[Fact], *rules: Rule, prediction: bool = False, now: int = 10) -> Completion:
    one = request(facts, *rules)
    query = replace(one.query, prediction=prediction, timestamp=now)
    return SymbolicReader(rank_discount=1.0).generate([replace(one, query=query)])[0]


def test_a_stated_answer_comes_before_what_rules_lead_to_however_strong() -> None:
    facts = [Fact("ann", "calls", "bob", t) for t in range(40)] + [Fact("ann", "meets", "cid", 2)]
    calls = rule("calls", 0.99)
    told, foretold = asked(facts, calls), asked(facts, calls, prediction=True)
    assert (told.text, foretold.text) == ("cid", "bob")
    stated, ruled = told.candidates
    assert stated.grounded == (GroundedAtom("d40", None, 0),)
    assert (stated.document_ids, stated.rule_ids) == (("d40",), ())
    assert stated.score == pytest.approx(1.0, abs=1e-5) and ruled.rule_ids == (calls.id,)
    # Without rules a prediction reads facts of the relation as one more rule, as it did.
    alone = asked([Fact("ann", "meets", "cid", 2)], prediction=True)
    assert alone.score == pytest.approx(0.5)


def test_of_stated_answers_the_one_that_rules_support_comes_first() -> None:
    facts = [Fact("ann", "meets", "cid", 9), Fact("ann", "meets", "bob", 9)]
    assert asked(facts).text == "cid"
    completion = asked([*facts, Fact("ann", "calls", "bob", 1)], rule("calls", 0.3))
    assert [c.text for c in completion.candidates] == ["bob", "cid"]
    assert {g.rule_id for g in completion.candidates[0].grounded} == {None, rule("calls", 0.3).id}


def test_what_was_stated_last_is_what_is_stated() -> None:
    facts = [Fact("ann", "meets", name, t) for name, t in (("bob", 3), ("cid", 7), ("dee", 12))]
    found = {now: asked(facts, now=now).text for now in (2, 3, 6, 9, 12)}
    assert found == {2: "", 3: "bob", 6: "bob", 9: "cid", 12: "dee"}
