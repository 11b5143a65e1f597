"""The symbolic reader: what it reads, how it scores, when it abstains."""

from __future__ import annotations

import pytest

from rulerag.errors import ConfigError
from rulerag.generation.symbolic_reader import SymbolicReader
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Completion, Document, Fact, GenerationRequest, Query


def rule(*body: Atom, confidence: float = 0.5) -> Rule:
    quality = RuleQuality(confidence=confidence)
    return Rule(Atom("meets", "?x", "?y"), body, temporal=len(body) == 1, quality=quality)


def calls(confidence: float = 0.5) -> Rule:
    return rule(Atom("calls", "?x", "?y"), confidence=confidence)


CHAIN = rule(Atom("works for", "?x", "?z"), Atom("led by", "?z", "?y"))
WORKS, LED = Fact("ann", "works for", "Acme"), Fact("Acme", "led by", "bob")
LONG = rule(Atom("led by", "?w", "?y"), Atom("works for", "?x", "?z"), Atom("part of", "?z", "?w"))
GROUP = [WORKS, Fact("Acme", "part of", "Group"), Fact("Group", "led by", "bob")]


def read(
    facts: list[Fact],
    *rules: Rule,
    prediction: bool = True,
    now: int = 10,
    reader: SymbolicReader | None = None,
) -> Completion:
    """What is read from one document a fact."""
    documents = tuple(Document(f"d{i}", str(f), (f,)) for i, f in enumerate(facts))
    query = Query("q", "?", "ann", "meets", now, prediction=prediction)
    (completion,) = (reader or SymbolicReader()).generate(
        [GenerationRequest(query, documents, rules)]
    )
    return completion


def called(*people: tuple[str, int]) -> list[Fact]:
    return [Fact("ann", "calls", name, time) for name, time in people]


def test_the_most_confident_rule_decides_and_the_candidate_names_its_evidence() -> None:
    facts = [*called(("bob_b", 1)), Fact("cid", "invites", "ann", 2)]
    sure, invited = calls(0.9), rule(Atom("invites", "?y", "?x"), confidence=0.4)
    completion = read(facts, invited, sure, reader=SymbolicReader(labels={"bob_b": "Bob B"}))
    assert completion.text == "Bob B"
    best, second = completion.candidates
    assert (best.document_ids, best.rule_ids) == (("d0",), (sure.id,))
    assert (second.text, second.document_ids, second.rule_ids) == ("cid", ("d1",), (invited.id,))
    assert completion.score == best.score == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("facts", "rules", "reader", "answer", "score"),
    [
        (called(("bob", 1), ("bob", 2), ("cid", 3)), (calls(),), None, "bob", 0.75),  # it adds up
        (called(("bob", 1), ("cid", 3)), (calls(),), None, "cid", 0.5),  # the more recent fact
        (called(("bob", 1), ("cid", 3)), (calls(),), SymbolicReader(rank_discount=1), "bob", 0.5),
        (called(("bob", 10), ("cid", 11)), (calls(),), None, "", None),  # of the query's time on
        ([*called(("bob", 1)), Fact("ann", "meets", "cid", 1)], (), None, "cid", 0.5),  # directly
        ([WORKS], (CHAIN,), None, "", None),  # half a chain
        (called(("bob", 1)), (rule(calls().body[0], Atom("a", "?z", "?w")),), None, "", None),
        ([], (calls(),), None, "", None),
    ],
)
def test_what_is_read(
    facts: list[Fact],
    rules: tuple[Rule, ...],
    reader: SymbolicReader | None,
    answer: str,
    score: float | None,
) -> None:
    completion = read(facts, *rules, reader=reader)
    assert (completion.text, completion.score) == (answer, score and pytest.approx(score))
    assert bool(completion.candidates) is bool(answer)
    assert rules or completion.candidates[0].grounded == (("d1", None, 0),)


def test_chains_say_which_document_grounds_which_atom() -> None:
    (both,) = read([WORKS, LED], CHAIN).candidates
    assert (both.text, both.document_ids) == ("bob", ("d0", "d1"))
    assert both.grounded == (("d0", CHAIN.id, 0), ("d1", CHAIN.id, 1))
    (long,) = read([*GROUP, Fact("Acme", "led by", "cid")], LONG).candidates
    assert long.text == "bob"
    assert set(long.grounded) == {("d2", LONG.id, 0), ("d0", LONG.id, 1), ("d1", LONG.id, 2)}
    for missing in GROUP:
        assert read([fact for fact in GROUP if fact != missing], LONG).text == ""
    one = GenerationRequest(
        Query("q", "?", "ann", "meets"), (Document("d", "t", (WORKS, LED)),), (CHAIN,)
    )
    (alone,) = SymbolicReader().generate([one])[0].candidates
    assert alone.grounded == (("d", CHAIN.id, 0), ("d", CHAIN.id, 1))


def test_a_stated_answer_comes_before_what_rules_lead_to_however_strong() -> None:
    facts = [*called(*(("bob", t) for t in range(40))), Fact("ann", "meets", "cid", 2)]
    sure = calls(0.99)
    assert read(facts, sure).text == "bob"
    stated, ruled = read(facts, sure, prediction=False).candidates
    assert (stated.text, stated.grounded) == ("cid", (("d40", None, 0),))
    assert (stated.document_ids, stated.rule_ids) == (("d40",), ())
    assert stated.score == pytest.approx(1.0, abs=1e-5) and ruled.rule_ids == (sure.id,)
    # Of stated answers the one that rules support comes first.
    facts = [Fact("ann", "meets", "cid", 9), Fact("ann", "meets", "bob", 9), *called(("bob", 1))]
    found = read(facts, calls(0.3), prediction=False).candidates
    assert [candidate.text for candidate in found] == ["bob", "cid"]
    assert {grounded.rule_id for grounded in found[0].grounded} == {None, calls().id}
    facts = [Fact("ann", "meets", name, t) for name, t in (("bob", 3), ("cid", 7), ("dee", 12))]
    for now, text in {2: "", 3: "bob", 6: "bob", 9: "cid", 12: "dee"}.items():
        assert read(facts, prediction=False, now=now).text == text


def test_bad_input_and_fingerprints() -> None:
    with pytest.raises(ConfigError, match="rank_discount"):
        SymbolicReader(rank_discount=-1)
    assert SymbolicReader().fingerprint != SymbolicReader(rank_discount=1).fingerprint
    assert SymbolicReader().generate([]) == []
