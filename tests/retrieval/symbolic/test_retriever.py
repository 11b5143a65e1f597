"""The symbolic retriever: groundings, order, time, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pytest import LogCaptureFixture

from rulerag.errors import ConfigError, EmptyDataError
from rulerag.kg.grounding.evidence import EvidenceModel
from rulerag.retrieval.guided.selection import HeadRelationSelector
from rulerag.retrieval.symbolic.retriever import SymbolicRetriever
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query, ScoredDocument


def rule(body: str, *, support: int, size: int, inverse: bool = False) -> Rule:
    ends = ("?y", "?x") if inverse else ("?x", "?y")
    quality = RuleQuality(support=support, body_size=size, confidence=support / size)
    return Rule(Atom("meets", "?x", "?y"), (Atom(body, *ends),), temporal=True, quality=quality)


CALLS = rule("calls", support=8, size=10)
INVITED = rule("invites", support=5, size=10, inverse=True)


class Fixed:
    """Selects the same rules for every query."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def select(self, queries: Sequence[Query]) -> list[list[Rule]]:
        return [list(self.rules) for _ in queries]


FACTS = [
    Fact("ann", "calls", "bob", 1),
    Fact("ann", "calls", "bob", 4),
    Fact("ann", "calls", "cid", 2),
    Fact("dan", "invites", "ann", 3),
    Fact("ann", "calls", "eve", 9),
    Fact("ann", "likes", "fay", 1),
]
DOCUMENTS = [
    Document(f"d{i}", f"Time {f.timestamp} {f.subject} {f.relation} {f.object}.", (f,))
    for i, f in enumerate(FACTS)
]
QUERY = Query("q", "Time 9 what does ann meets ?", "ann", "meets", 9, ("bob",))


def retriever(**options: object) -> SymbolicRetriever:
    evidence = EvidenceModel(prior=0)
    return SymbolicRetriever(DOCUMENTS, Fixed(CALLS, INVITED), evidence=evidence, **options)  # type: ignore[arg-type]


def ids(documents: Sequence[object]) -> list[str]:
    return [scored.document.id for scored in documents]  # type: ignore[attr-defined]


def test_one_document_per_answer_first_most_recent_first() -> None:
    (found,) = retriever().retrieve([QUERY], 10)
    # bob is called twice (noisy-or 0.96), cid once (0.8), dan invited (0.5); then bob's older call.
    assert ids(found) == ["d1", "d2", "d3", "d0"]
    assert [scored.rank for scored in found] == [1, 2, 3, 4]
    assert found[0].score == pytest.approx(0.96)
    scores = [scored.score for scored in found]
    assert scores == sorted(scores, reverse=True)


def test_never_a_fact_from_the_query_time_or_later() -> None:
    (found,) = retriever().retrieve([QUERY], 10)
    assert all((scored.document.timestamp or 0) < 9 for scored in found)
    (late,) = retriever().retrieve([Query("q", "t", "ann", "meets", 10)], 10)
    assert "d4" in ids(late)


def test_every_document_names_the_rule_that_found_it() -> None:
    (found,) = retriever().retrieve([QUERY], 10)
    by_id = {scored.document.id: scored for scored in found}
    assert by_id["d3"].rule_ids == (INVITED.id,)
    (hit,) = by_id["d0"].found_by
    assert (hit.rule_id, hit.rank, hit.atom) == (CALLS.id, 3, 0)
    assert hit.score == pytest.approx(0.8)


def test_top_k_is_a_prefix_and_the_union_holds_each_rules_best() -> None:
    subject = retriever()
    (long,) = subject.retrieve([QUERY], 10)
    (short,) = subject.retrieve([QUERY], 2)
    assert ids(short) == ids(long)[:2]
    (union,) = subject.retrieve_union([QUERY], 1)
    assert sorted(ids(union)) == ["d1", "d3"]


def test_chains_return_every_document_of_the_grounding_with_its_atom() -> None:
    facts = [Fact("ann", "born in", "Velm"), Fact("Velm", "city of", "Orland")]
    documents = [Document(f"d{i}", " ".join(f[:3]), (f,)) for i, f in enumerate(facts)]
    chain = Rule(
        Atom("citizen of", "?x", "?y"),
        (Atom("born in", "?x", "?z"), Atom("city of", "?z", "?y")),
        quality=RuleQuality(support=9, pca_body_size=10, pca_confidence=0.9),
    )
    (found,) = SymbolicRetriever(documents, Fixed(chain)).retrieve(
        [Query("q", "what does ann citizen of ?", "ann", "citizen of")], 10
    )
    assert {(s.document.id, s.found_by[0].atom) for s in found} == {("d0", 0), ("d1", 1)}


BORN = [Fact("ann", "born in", "Velm"), Fact("Velm", "city of", "Orland")]
LIVES = [Fact("ann", "friend of", f"f{i}") for i in range(3)]
LIVES += [Fact(f"f{i}", "lives in", "Norrland") for i in range(3)]
CHAINS = [Document(f"d{i}", " ".join(fact[:3]), (fact,)) for i, fact in enumerate([*BORN, *LIVES])]
CITIZEN = Query("q", "what does ann citizen of ?", "ann", "citizen of")


CITIZENS = Atom("citizen of", "?x", "?y")


def chain(first: str, second: str, support: int) -> Rule:
    quality = RuleQuality(
        support=support, pca_body_size=10, body_size=10, pca_confidence=support / 10
    )
    body = (Atom(first, "?x", "?z"), Atom(second, "?z", "?y"))
    return Rule(Atom("citizen of", "?x", "?y"), body, quality=quality)


def chained(**options: object) -> list[ScoredDocument]:
    rules = Fixed(chain("born in", "city of", 6), chain("friend of", "lives in", 3))
    evidence = EvidenceModel(prior=0)
    subject = SymbolicRetriever(CHAINS, rules, evidence=evidence, **options)  # type: ignore[arg-type]
    return subject.retrieve([CITIZEN], 10)[0]


def test_a_chain_counts_once_and_its_answer_is_named_first() -> None:
    # Three friends in Norrland outweigh one birth in Orland: 1 - 0.7**3 = 0.657 against 0.6.
    found = chained(whole_chains=0)
    assert ids(found[:2]) == ["d5", "d1"]
    assert [s.score for s in found[:2]] == pytest.approx([1 - 0.7**3, 0.6])
    # Then the other ends of these chains, then what else says the same.
    assert ids(found[2:4]) == ["d2", "d0"] and set(ids(found)) == {f"d{i}" for i in range(8)}
    scores = [scored.score for scored in found]
    assert scores == sorted(scores, reverse=True)
    assert {hit.atom for s in found for hit in s.found_by if s.document.id in ("d0", "d2")} == {0}


def test_the_first_answers_get_their_chains_whole() -> None:
    assert ids(chained(whole_chains=1)[:3]) == ["d2", "d5", "d1"]
    assert ids(chained(whole_chains=2)[:4]) == ["d2", "d5", "d0", "d1"]
    with pytest.raises(ConfigError, match="whole_chains"):
        chained(whole_chains=-1)


def test_the_union_keeps_whole_groundings() -> None:
    rules = Fixed(chain("friend of", "lives in", 3))
    (union,) = SymbolicRetriever(CHAINS, rules).retrieve_union([CITIZEN], 1)
    assert ids(union) == ["d2", "d5"]


def test_the_union_of_undated_facts_names_each_rules_best_answers() -> None:
    # Three friends live in Norrland and one in Sudland: two answers, not two ways to the first.
    facts = [*LIVES, Fact("ann", "friend of", "f9"), Fact("f9", "lives in", "Sudland")]
    documents = [Document(f"d{i}", " ".join(f[:3]), (f,)) for i, f in enumerate(facts)]
    subject = SymbolicRetriever(documents, Fixed(chain("friend of", "lives in", 3)))
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


def test_constants_in_rules_are_executed() -> None:
    rule = Rule(
        Atom("citizen of", "?x", "Orland"),
        (Atom("born in", "?x", "Velm"),),
        quality=RuleQuality(support=9, pca_body_size=10, pca_confidence=0.9),
    )
    documents = [*CHAINS, Document("d9", "bob born in Velm", (Fact("bob", "born in", "Velm"),))]
    subject = SymbolicRetriever(documents, Fixed(rule))
    other = replace(CITIZEN, subject="bob")
    assert [ids(found) for found in subject.retrieve([CITIZEN, other], 5)] == [["d0"], ["d9"]]


def test_bodies_of_three_atoms_are_executed_and_told() -> None:
    facts = [Fact("ann", "part of", "A"), Fact("A", "led by", "bob"), Fact("bob", "citizen", "O")]
    documents = [Document(f"d{i}", " ".join(f[:3]), (f,)) for i, f in enumerate(facts)]
    body = (Atom("citizen", "?w", "?y"), Atom("part of", "?x", "?z"), Atom("led by", "?z", "?w"))
    long = Rule(Atom("citizen of", "?x", "?y"), body, quality=RuleQuality(pca_confidence=0.5))
    (found,) = SymbolicRetriever(documents, Fixed(long)).retrieve([CITIZEN], 5)
    told = {s.document.id: [(h.rule_id, h.atom) for h in s.found_by] for s in found}
    assert told == {"d2": [(long.id, 0)], "d0": [(long.id, 1)], "d1": [(long.id, 2)]}


def test_a_hub_beyond_the_bound_is_counted_not_written_out(caplog: LogCaptureFixture) -> None:
    # Forty friends in each of forty clubs, all in one town.
    facts = [Fact("ann", "member of", f"c{i}") for i in range(40)]
    facts += [Fact(f"f{j}", "member of", f"c{i}") for i in range(40) for j in range(40)]
    facts += [Fact(f"f{j}", "lives in", "Norrland") for j in range(40)]
    documents = [Document(f"d{i}", " ".join(f[:3]), (f,)) for i, f in enumerate(facts)]
    body = (
        Atom("member of", "?x", "?z"),
        Atom("member of", "?w", "?z"),
        Atom("lives in", "?w", "?y"),
    )
    quality = RuleQuality(support=1, pca_body_size=5000, body_size=5000)
    rules = Fixed(Rule(Atom("citizen of", "?x", "?y"), body, quality=quality))
    scores = {}
    for bound in (500_000, 1700, 1000):
        subject = SymbolicRetriever(documents, rules, max_rows=bound, whole_chains=0)
        (found,) = subject.retrieve([CITIZEN], 1)
        scores[bound] = found[0].score
        assert found[0].document.facts[0].object == "Norrland"
    assert scores[500_000] == scores[1700] > scores[1000] > 0
    assert sum("left out" in record.message for record in caplog.records) == 1


def test_rules_that_cannot_be_executed_find_nothing_and_are_told(
    caplog: LogCaptureFixture,
) -> None:
    apart = Rule(CITIZENS, (Atom("born in", "?x", "?y"), Atom("lives in", "?z", "?w")))
    unknown = Rule(CITIZENS, (Atom("born in", "?x", "?z"), Atom("never seen", "?z", "?y")))
    caplog.set_level("INFO")
    subject = SymbolicRetriever(CHAINS, Fixed(apart, unknown))
    assert subject.retrieve([CITIZEN, CITIZEN], 5) == [[], []]
    told = " ".join(record.message for record in caplog.records)
    assert "nothing leads from ?x to the body atom 2" in told
    assert told.count("no fact has the relation 'never seen'") == 1


def test_the_same_body_twice_counts_twice() -> None:
    """A static and a dated rule with one body are two rules."""
    both = [CALLS, replace(CALLS, temporal=not CALLS.temporal)]
    subject = SymbolicRetriever(DOCUMENTS, Fixed(*both), evidence=EvidenceModel(prior=0))
    (found,) = subject.retrieve([QUERY], 1)
    assert set(found[0].rule_ids) == {rule.id for rule in both}


def test_nothing_to_find() -> None:
    subject = retriever()
    assert subject.retrieve([], 10) == []
    assert subject.retrieve([Query("q", "t", "nobody", "meets", 9)], 10) == [[]]
    assert SymbolicRetriever(DOCUMENTS, Fixed()).retrieve([QUERY], 10) == [[]]


def test_bad_input() -> None:
    with pytest.raises(EmptyDataError, match="no document states a fact"):
        SymbolicRetriever([Document("d", "text")], Fixed())
    with pytest.raises(ConfigError, match="max_rows"):
        retriever(max_rows=0)
    with pytest.raises(ConfigError, match="top_k"):
        retriever().retrieve([QUERY], 0)


def test_fingerprint_tells_settings_apart() -> None:
    assert retriever().fingerprint == retriever().fingerprint
    assert retriever().fingerprint != retriever(whole_chains=0).fingerprint
    corpus, others = [replace(DOCUMENTS[0], text="other words"), *DOCUMENTS[1:]], RuleBank([CALLS])
    made = [
        SymbolicRetriever(documents, HeadRelationSelector(rules)).fingerprint
        for documents, rules in ((DOCUMENTS, RuleBank()), (corpus, RuleBank()), (DOCUMENTS, others))
    ]
    assert len(set(made)) == 3, "the texts and the rules change what is found"
