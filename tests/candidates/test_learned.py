"""Scorers that are joined: what is learned, who fails, and which documents are shown."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from rulerag import BM25Retriever, Document, GenerationRequest, Query
from rulerag.candidates import CorpusFacts
from rulerag.candidates.analogy import Analogy
from rulerag.candidates.base import RememberedScorer
from rulerag.candidates.counts import MostFrequent, RelationPrior
from rulerag.candidates.learned import LearnedScorer
from rulerag.candidates.retrieved import Retrieved
from rulerag.candidates.scored import ScoredReader, ScoredRetriever
from rulerag.candidates.walks import Walks
from rulerag.errors import ConfigError
from rulerag.protocols import ScoredCandidates
from rulerag.types import Fact


def town_facts() -> list[Fact]:
    """People of two towns: who works in a town's office lives in the town, most like the tea."""
    random = np.random.default_rng(0)
    facts = []
    for number in range(80):
        person, town = f"person{number}", number % 2
        facts.append(Fact(person, "office", f"office{town}"))
        facts.append(Fact(person, "town", f"town{town}"))
        facts.append(Fact(person, "drink", "tea" if random.random() < 0.8 else "milk"))
    return facts


def corpus(facts: Sequence[Fact]) -> list[Document]:
    return [
        Document(f"d{n}", f"{fact.subject} {fact.relation} {fact.object}.", (fact,))
        for n, fact in enumerate(facts)
    ]


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return corpus([*town_facts(), Fact("ann", "office", "office1"), Fact("bob", "likes", "jazz")])


@pytest.fixture(scope="module")
def facts(documents: list[Document]) -> CorpusFacts:
    return CorpusFacts(documents)


ANN = Query("q", "what does ann town ?", "ann", "town", prediction=True)


class Broken:
    """A scorer that cannot score."""

    title, fingerprint = "broken", "broken"

    def __init__(self, facts: CorpusFacts) -> None:
        self.names = facts.names

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        raise RuntimeError("no scores today")

    def over(self, facts: CorpusFacts) -> Broken:
        return Broken(facts)


def test_the_scorer_that_knows_gets_the_weight(facts: CorpusFacts) -> None:
    learned = LearnedScorer(facts, [RelationPrior(facts), Analogy(facts)])
    (scored,) = learned.score([ANN])
    assert scored.entities == ["town1", "town0"]
    assert scored.score.sum() == pytest.approx(1) and scored.score[0] > 0.7
    weights = learned.weights()
    assert weights["analogy-2"] > weights["relation-prior"]
    assert scored.support(0)[0].scorer == "analogy-2"
    # Deterministic, and what is learned has a loss below that of a coin.
    again = LearnedScorer(facts, [RelationPrior(facts), Analogy(facts)])
    assert again.score([ANN])[0].score.tolist() == scored.score.tolist()
    assert learned.learned.questions > 5 and learned.learned.loss < np.log(2)


def test_hidden_pairs_leave_no_other_fact_of_them() -> None:
    both = [fact for fact in town_facts() if fact.relation == "town"]
    twice = CorpusFacts(corpus([f for x in both for f in (x, x._replace(relation="home"))]))
    for hide, left in (("fact", True), ("pair", False)):
        hidden = LearnedScorer(twice, [Walks(twice)], hide=hide)._hidden_facts()
        ends = [(f.subject, f.object) for f in twice.table]
        known = {pair for pair, is_hidden in zip(ends, hidden, strict=True) if not is_hidden}
        assert any(ends[row] in known for row in np.flatnonzero(hidden).tolist()) is left


def test_weights_come_from_questions_of_the_dataset_where_there_are_some(
    documents: list[Document], facts: CorpusFacts
) -> None:
    """The corpus says that offices tell towns; these questions say that the prior does."""
    shown = LearnedScorer(facts, [RelationPrior(facts), Analogy(facts)]).weights()
    new = [Document(f"n{n}", "", (Fact(f"new{n}", "office", "office1"),)) for n in range(40)]
    more = CorpusFacts([*documents, *new])
    examples = [
        Query(f"e{n}", "?", f"new{n}", "town", answers=("town0",), prediction=True)
        for n in range(40)
    ]
    learned = LearnedScorer(more, [RelationPrior(more), Analogy(more)], examples=examples)
    weights = learned.weights()
    assert weights["analogy-2"] < 0 < shown["analogy-2"]
    assert learned.learned.questions == 40
    assert learned.score([examples[0]])[0].entities[0] == "town0"
    other = LearnedScorer(more, learned.scorers)
    assert other.fingerprint != learned.fingerprint


def test_a_scorer_that_fails_is_named_and_the_others_answer(
    facts: CorpusFacts, caplog: pytest.LogCaptureFixture
) -> None:
    learned = LearnedScorer(facts, [Broken(facts), Analogy(facts)])
    with caplog.at_level(logging.WARNING):
        (scored,) = learned.score([ANN])
    assert scored.entities[0] == "town1"
    assert "the scorer broken fails and is left out: RuntimeError: no scores today" in caplog.text
    with pytest.raises(RuntimeError, match="no scores today"):
        LearnedScorer(facts, [Broken(facts)]).score([ANN])


def test_where_nothing_can_be_learned_all_count_alike() -> None:
    tiny = CorpusFacts(corpus([Fact("a", "r", "x"), Fact("b", "r", "y")]))
    learned = LearnedScorer(tiny, [RelationPrior(tiny), Analogy(tiny)])
    asked = Query("q", "?", "c", "r", prediction=True)
    # All is equal: the first in the order of names comes first.
    assert learned.score([asked])[0].entities == ["x", "y"]
    assert learned.learned.questions == 0
    with pytest.raises(ConfigError, match="no scorers to join"):
        LearnedScorer(tiny, [])


def test_of_dated_facts_the_latest_are_asked() -> None:
    rows = [Fact(f"p{n % 7}", "meets", f"p{(n + 1) % 7}", n) for n in range(200)]
    dated = CorpusFacts(corpus(rows))
    learned = LearnedScorer(dated, [MostFrequent(dated), RelationPrior(dated)])
    assert dated.times[learned._hidden_facts()].min() >= 189
    asked = Query("q", "?", "p3", "meets", 300, prediction=True)
    assert learned.score([asked])[0].entities[0] == "p4"
    assert learned.learned.questions >= 10 and learned.learned.loss < 0.5


def test_trees_learn_from_facts_what_no_score_says() -> None:
    """Of a subject's two objects the one comes back that was there first; scores say nothing."""
    random = np.random.default_rng(0)
    pairs = [random.permutation(8)[:2].tolist() for _ in range(450)]
    facts = CorpusFacts(
        corpus(
            [
                Fact(f"s{n}", "has", f"o{o}", t)
                for n, pair in enumerate(pairs)
                for t, o in enumerate(pair)
            ]
        )
    )
    asked = [
        Query(f"q{n}", "?", f"s{n}", "has", 3, answers=(f"o{pair[0]}",), prediction=True)
        for n, pair in enumerate(pairs)
    ]

    def right(scorer: LearnedScorer) -> float:
        found = scorer.score(asked[400:])
        good = [one.entities[0] in q.answers for one, q in zip(found, asked[400:], strict=True)]
        return float(np.mean(good))

    few = LearnedScorer(facts, [RelationPrior(facts)], examples=asked[:200])
    assert few.learned.trees is None and right(few) < 0.4
    many = LearnedScorer(facts, [RelationPrior(facts)], examples=asked[:400])
    assert many.learned.trees is not None and right(many) > 0.95
    again = LearnedScorer(facts, [RelationPrior(facts)], examples=asked[:400])
    (one,), (other,) = many.score(asked[:1]), again.score(asked[:1])
    assert one.score.tolist() == other.score.tolist() and one.score.sum() == pytest.approx(1)
    assert one.support(0)[0].scorer == "relation-prior"


def test_trees_order_the_likeliest_and_the_others_stay_behind() -> None:
    rows = [Fact(f"s{n}", "has", f"o{n % 60:02}", n % 5) for n in range(900)]
    facts = CorpusFacts(corpus(rows))
    asked = [
        Query(f"q{n}", "?", f"s{n}", "has", 6, answers=(f"o{n % 60:02}",), prediction=True)
        for n in range(400)
    ]
    learned = LearnedScorer(facts, [RelationPrior(facts), MostFrequent(facts)], examples=asked)
    (found,) = learned.score([asked[0]])
    assert learned.learned.trees is not None
    assert found.entities[0] == "o00" and len(set(found.entities)) == 60
    assert (np.diff(found.score) <= 0).all()
    # One that fails is missing to the trees, and the rest still answers.
    broken = [Broken(facts), MostFrequent(facts)]
    (found,) = LearnedScorer(facts, broken, examples=asked).score([asked[0]])
    assert found.entities[0] == "o00"
    # A question without candidates has none among those that have some.
    unknown = replace(asked[0], relation="no such relation")
    none, some = learned.score([unknown, asked[1]])
    assert none.entities == [] and some.entities[0] == "o01"


def test_places_go_to_candidates_and_say_why(documents: list[Document], facts: CorpusFacts) -> None:
    text = BM25Retriever(documents)
    retriever = ScoredRetriever(documents, text, Analogy(facts))
    (plain,), (found,) = text.retrieve([ANN], 3), retriever.retrieve([ANN], 3)
    assert [s.rank for s in found] == [1, 2, 3] and len({s.document.id for s in found}) == 3
    assert [s.document.facts[0].object for s in found[:2]] == ["town1", "town0"]
    assert found[0].support[0].why.endswith("like the subject, has office office1: town town1")
    assert found[2].document.id in [s.document.id for s in plain] and not found[2].support
    assert found[0].score > found[1].score > found[2].score
    # A question that documents answer gets what they state first.
    stated = replace(ANN, subject="person1", prediction=False)
    (first, *_) = retriever.retrieve([stated], 3)[0]
    assert first.document.facts == (Fact("person1", "town", "town1"),)
    # Without candidates the list is that of the wrapped retriever.
    unknown = replace(ANN, relation="no such relation")
    ids = [[s.document.id for s in one.retrieve([unknown], 3)[0]] for one in (text, retriever)]
    assert ids[0] == ids[1]


def test_what_no_document_shows_is_no_answer(documents: list[Document], facts: CorpusFacts) -> None:
    reader = ScoredReader(scorer=Analogy(facts), labels={"town0": "Old Town"})
    by_object = {fact.object: document for document in documents for fact in document.facts}
    shown = (by_object["town0"], by_object["town1"])
    best, second, nothing = reader.generate(
        [
            GenerationRequest(ANN, shown),
            GenerationRequest(ANN, shown[:1]),
            GenerationRequest(ANN, (by_object["jazz"],)),
        ]
    )
    assert [best.text, second.text, nothing.text] == ["town1", "Old Town", ""]
    assert [c.text for c in best.candidates] == ["town1", "Old Town"]
    assert best.candidates[0].document_ids == (shown[1].id,)
    stated = replace(ANN, subject=shown[0].facts[0].subject, prediction=False)
    assert reader.generate([GenerationRequest(stated, shown)])[0].text == "Old Town"


def test_text_names_candidates_and_hidden_documents_name_none(
    documents: list[Document], facts: CorpusFacts
) -> None:
    scorer = Retrieved(facts, BM25Retriever(documents), depth=5)
    likes = Query("q", "what does someone likes ?", "ann", "likes", prediction=True)
    (scored,) = scorer.score([likes])
    assert scored.entities[0] == "jazz"
    assert scored.support(0)[0].facts == (Fact("bob", "likes", "jazz"),)
    kept = np.arange(len(facts)) != len(facts) - 1
    assert "jazz" not in scorer.over(facts.select(kept)).score([likes])[0].entities


def test_documents_from_the_time_of_the_question_name_no_candidate() -> None:
    rows = [Fact("ann", "meets", f"p{day}", day) for day in range(5)]
    dated = CorpusFacts(corpus(rows))
    scorer = Retrieved(dated, BM25Retriever(dated.documents), depth=5)
    asked = [Query("q", "who meets ann ?", "ann", "meets", day, prediction=True) for day in (0, 3)]
    early, late = scorer.score(asked)
    assert early.entities == [] and sorted(late.entities) == ["p0", "p1", "p2"]


def test_what_was_scored_is_remembered_for_so_many_questions(facts: CorpusFacts) -> None:
    class Counting(Analogy):
        asked = 0

        def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
            self.asked += len(queries)
            return super().score(queries)

    scorer = Counting(facts)
    kept = RememberedScorer(scorer, most=2)
    three = [replace(ANN, subject=f"person{n}", prediction=False) for n in range(3)]
    first = kept.score([*three[:2], replace(three[0], id="again")])
    assert scorer.asked == 2 and first[2] is first[0]
    assert kept.score(three[:1])[0] is first[0] and scorer.asked == 2
    kept.score(three)  # the third pushes the others out
    assert scorer.asked == 3
    kept.score(three[2:])
    assert scorer.asked == 3
    kept.score(three[:2])
    assert scorer.asked == 5
