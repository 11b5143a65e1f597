"""Each scorer on graphs small enough to count by hand, and what none of them may stumble over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rulerag import Document, Query, RuleBank
from rulerag.candidates import CorpusFacts
from rulerag.candidates.analogy import Analogy, Names
from rulerag.candidates.base import FactScorer
from rulerag.candidates.counts import MostFrequent, MostRecent, RelationPrior
from rulerag.candidates.learned import LearnedScorer
from rulerag.candidates.rules import Rules
from rulerag.candidates.walks import Walks
from rulerag.errors import ConfigError, EmptyDataError
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Fact

SONGS = [
    ("dylan", "genre", "folk"),
    ("baez", "genre", "folk"),
    ("baez", "label", "vanguard"),
    ("davis", "genre", "jazz"),
    ("davis", "label", "columbia"),
    ("coltrane", "genre", "jazz"),
    ("coltrane", "label", "columbia"),
]


def facts_of(rows: Sequence[tuple[str, ...] | tuple[str, str, str, int]]) -> CorpusFacts:
    facts = [Fact(*row) for row in rows]
    return CorpusFacts([Document(f"d{n}", " ".join(f[:3]), (f,)) for n, f in enumerate(facts)])


def ask(subject: str, relation: str, time: int | None = None, *, prediction: bool = True) -> Query:
    return Query("q", f"{relation} of {subject}?", subject, relation, time, prediction=prediction)


def scorers(facts: CorpusFacts) -> list[FactScorer]:
    rule = Rule(
        Atom("label", "?x", "?y"),
        (Atom("label", "?z", "?y"), Atom("genre", "?x", "?z")),
        quality=RuleQuality(confidence=0.5, pca_confidence=0.5),
    )
    bank = RuleBank([] if facts.is_dated else [rule])
    plain = MostRecent, MostFrequent, RelationPrior, Analogy, Names, Walks
    every = [kind(facts) for kind in plain]
    return [*every, Analogy(facts, best=True), Walks(facts, steps=3), Rules(facts, bank)]


def test_an_analogue_votes_with_its_object_and_says_what_is_shared() -> None:
    scored = Analogy(facts_of(SONGS), prior=0.05).score([ask("dylan", "label")])[0]
    # Of three labels that are stated, two are columbia: the prior alone would put it first.
    assert scored.entities == ["vanguard", "columbia"]
    assert scored.score.tolist() == pytest.approx([1 + 0.05 / 3, 0.05 * 2 / 3])
    (reason,) = scored.support(0)
    assert reason.why == "baez, like the subject, has genre folk: label vanguard"
    assert reason.facts == (Fact("baez", "label", "vanguard"), Fact("baez", "genre", "folk"))
    assert reason.document_ids == ("d2", "d1")
    (reason,) = scored.support(1)  # nobody who has it is like the subject
    assert reason.why == "davis label columbia, as others do"


def test_like_names_vote_also_for_a_subject_that_is_not_known() -> None:
    rows = [("club_red_star", "plays", "football"), ("club_blue_star", "plays", "football")]
    rows += [("band_red_shoes", "plays", "jazz"), ("band_blue_notes", "plays", "jazz")]
    facts = facts_of(rows)
    names = Names(facts)
    new = replace(ask("band_9", "plays"), subject_label="The green Notes (band)")
    known, nothing = ask("club_red_star", "plays", prediction=False), ask("xyz", "plays")
    scored, other, none = names.score([new, known, nothing])
    assert scored.entities == ["jazz"]
    (first, second) = scored.support(0)
    why = "band blue notes, like the subject, has 'band' and 'notes' in the name: plays jazz"
    assert (first.why, first.document_ids) == (why, ("d3",))
    assert "has 'band' in the name" in second.why
    # A subject that is known has no vote itself: the other club speaks for football.
    assert other.entities == ["football", "jazz"]
    assert other.support(0)[0].facts == (Fact(*rows[1]),)
    assert none.entities == []
    assert names.over(facts).fingerprint == names.fingerprint != Names(facts, power=1).fingerprint


def test_a_walk_goes_the_way_that_it_says() -> None:
    scored = Walks(facts_of(SONGS), steps=3).score([ask("dylan", "label")])[0]
    # dylan - folk, then dylan or baez by one half, from baez folk or vanguard by one half.
    assert scored.entities == ["vanguard"] and scored.score.tolist() == pytest.approx([0.25])
    (reason,) = scored.support(0)
    assert reason.why == "connected: dylan genre folk; baez genre folk; baez label vanguard"
    assert reason.document_ids == ("d2", "d1", "d0")


def test_a_rule_is_named_with_the_documents_of_its_facts() -> None:
    rows = [("a", "born", "x"), ("x", "in", "c"), ("b", "lives", "c")]
    body = (Atom("born", "?x", "?z"), Atom("in", "?z", "?y"))
    quality = RuleQuality(confidence=0.7, pca_confidence=0.7, standard_confidence=0.7)
    rule = Rule(Atom("lives", "?x", "?y"), body, quality=quality, text="born in")
    scored = Rules(facts_of(rows), RuleBank([rule])).score([ask("a", "lives")])[0]
    assert scored.entities == ["c"] and scored.score.tolist() == pytest.approx([0.7])
    (reason,) = scored.support(0)
    assert (reason.why, reason.document_ids) == ("born in", ("d1", "d0"))


@pytest.mark.parametrize("aggregate", ["noisy-or", "max"])
def test_rules_of_three_body_atoms_are_applied_and_change_no_other_score(aggregate: str) -> None:
    quality = RuleQuality(confidence=0.5, pca_confidence=0.5)
    short = scorers(facts_of(SONGS))[-1]
    assert isinstance(short, Rules)
    walk = (Atom("genre", "?x", "?g"), Atom("genre", "?z", "?g"), Atom("label", "?z", "?y"))
    long = Rule(Atom("signed", "?x", "?y"), walk, quality=quality)
    facts = facts_of([*SONGS, ("parker", "signed", "dial")])
    asked = [ask(name, "label") for name in ("dylan", "baez", "davis", "coltrane", "x")]
    before = Rules(facts, short.bank, aggregate=aggregate).score(asked)
    scorer = Rules(facts, RuleBank([*short.bank, long]), aggregate=aggregate)
    for one, other in zip(before, scorer.score(asked), strict=True):
        assert dict(zip(one.entities, one.score, strict=True)) == pytest.approx(
            dict(zip(other.entities, other.score, strict=True))
        )
    (found,) = scorer.score([ask("dylan", "signed")])
    assert found.entities == ["vanguard"] and found.score.tolist() == pytest.approx([0.5])
    (subject,) = scorer.over(facts.reversed).score([ask("columbia", "^signed")])
    assert set(subject.entities) == {"davis", "coltrane"}


def test_counts_follow_the_time_of_the_question() -> None:
    rows = [("a", "r", "x", 1), ("a", "r", "x", 2), ("a", "r", "y", 3), ("b", "r", "z", 3)]
    facts, asked = facts_of(rows), [ask("a", "r", 4), ask("a", "r", 3)]
    for kind, late in ((MostRecent, "yx"), (MostFrequent, "xy"), (RelationPrior, "xyz")):
        assert [one.entities for one in kind(facts).score(asked)] == [[*late], ["x"]]
    assert MostRecent(facts).score(asked)[0].support(0)[0].document_ids == ("d2",)


def test_a_faded_past_counts_less() -> None:
    rows = [("a", "r", "x", 0), ("a", "r", "y", 10), ("b", "r", "y", 10)]
    scored = Analogy(facts_of(rows), decay=0.1, prior=0, power=1).score([ask("a", "r", 11)])[0]
    assert scored.entities == ["y", "x"]
    # The subject alone votes where nobody is like it as b is, who shares y.
    alone = Analogy(facts_of(rows[:2]), decay=0.1, prior=0).score([ask("a", "r", 11)])[0]
    ratio = alone.score[0] / alone.score[1]
    assert alone.entities == ["y", "x"] and ratio == pytest.approx(math.exp(1.0), rel=1e-5)


def test_what_is_stated_is_no_prediction_and_equal_scores_have_an_order() -> None:
    facts = facts_of([*SONGS, ("dylan", "label", "columbia")])
    for scorer in (Analogy(facts), RelationPrior(facts)):
        assert scorer.score([ask("dylan", "label")])[0].entities == ["vanguard"]
        asked = ask("dylan", "label", prediction=False)
        assert "columbia" in scorer.score([asked])[0].entities
    # By frequency, then by name.
    rows = [("a", "r", "z"), ("b", "r", "y"), ("c", "r", "x"), ("d", "r", "x"), ("e", "s", "e2")]
    scored = Analogy(facts_of(rows), prior=1).score([ask("e", "r")])[0]
    assert scored.entities == ["x", "y", "z"] and scored.score[1] == scored.score[2]


@pytest.mark.parametrize("place", range(9))
def test_what_is_unknown_or_alone_is_no_error(place: int) -> None:
    scorer = scorers(facts_of(SONGS))[place]
    unknown = [ask("nobody", "label"), ask("dylan", "no such relation"), ask("", "")]
    nobody, *nothing = scorer.score(unknown)
    assert [len(one) for one in nothing] == [0, 0]
    if scorer.kind in ("analogy", "relation-prior") and scorer.title != "analogy-best":
        assert nobody.entities == ["columbia", "vanguard"]  # the prior alone
        assert nobody.support(0)[0].facts[0] == Fact("davis", "label", "columbia")
    else:
        assert not len(nobody)
    one_fact = scorers(facts_of([("a", "r", "b"), ("c", "s", "d")]))[place]
    assert one_fact.score([ask("a", "r")])[0].entities == []  # it is stated
    one_entity = scorers(facts_of([("a", "r", "a")]))[place]
    assert one_entity.score([ask("a", "r")])[0].entities == []
    assert one_entity.score([ask("b", "r")])[0].entities in ([], ["a"])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda facts: Analogy(facts, power=-1), ConfigError, "power"),
        (lambda facts: Walks(facts, steps=4), ConfigError, "steps"),
        (lambda facts: LearnedScorer(facts, []), ConfigError, "no scorers to join"),
        (
            lambda _: Rules(facts_of([("a", "r", "x", 1)]), RuleBank([]), aggregate="max"),
            ConfigError,
            "'max' does not go with dated facts",
        ),
        (
            lambda _: CorpusFacts([Document("d", "words alone")]),
            EmptyDataError,
            "no document states a fact",
        ),
    ],
)
def test_a_wrong_setting_or_an_empty_corpus_is_an_error_by_name(
    make: Callable[[CorpusFacts], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make(facts_of(SONGS))
