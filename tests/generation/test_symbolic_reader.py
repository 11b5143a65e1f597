"""The symbolic reader: what it reads, how it scores, when it abstains."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.kg.evidence import EvidenceModel
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Document, Fact, GenerationRequest, Query


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
    (half,) = SymbolicReader().generate([request(facts[:1], chain)])
    assert half.text == ""


def test_no_documents_no_answer() -> None:
    (completion,) = SymbolicReader().generate([request([])])
    assert (completion.text, completion.candidates) == ("", ())
    assert SymbolicReader().generate([]) == []


def test_bad_input_and_fingerprints() -> None:
    with pytest.raises(ConfigError, match="rank_discount"):
        SymbolicReader(rank_discount=-1)
    with pytest.raises(ConfigError, match="direct_confidence"):
        SymbolicReader(direct_confidence=0)
    assert SymbolicReader().fingerprint != SymbolicReader(rank_discount=1).fingerprint
