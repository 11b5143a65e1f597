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
from rulerag.candidates.scored import ScoredReader, ScoredRetriever
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


class Broken(RelationPrior):
    """A scorer that cannot score."""

    title = "broken"

    def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
        raise RuntimeError("no scores today")


def examples(number: int, kind: str, answer: str, *more: object) -> list[Query]:
    """Questions about the first subjects of a kind, with their answers."""
    return [
        Query(f"q{n}", "?", f"{kind}{n}", *more, answers=(answer.format(n),), prediction=True)
        for n in range(number)
    ]


def test_the_scorer_that_knows_gets_the_weight(facts: CorpusFacts) -> None:
    learned, again = (LearnedScorer(facts, [RelationPrior(facts), Analogy(facts)]) for _ in "ab")
    (scored,) = learned.score([ANN])
    assert scored.entities == ["town1", "town0"]
    assert scored.score.sum() == pytest.approx(1) and scored.score[0] > 0.7
    prior, analogy = learned.learned.weight[:2]
    assert analogy > prior and scored.support(0)[0].scorer == "analogy-2"
    # Deterministic, and what is learned has a loss below that of a coin.
    assert again.score([ANN])[0].score.tolist() == scored.score.tolist()
    assert learned.learned.questions > 5 and learned.learned.loss < np.log(2)


def test_weights_come_from_questions_of_the_dataset_where_there_are_some(
    documents: list[Document], facts: CorpusFacts
) -> None:
    """The corpus says that offices tell towns; these questions say that the prior does."""
    new = [Document(f"n{n}", "", (Fact(f"new{n}", "office", "office1"),)) for n in range(40)]
    more = CorpusFacts([*documents, *new])
    asked = examples(40, "new", "town0", "town")
    learned = LearnedScorer(more, [RelationPrior(more), Analogy(more)], examples=asked)
    shown = LearnedScorer(facts, [RelationPrior(facts), Analogy(facts)])
    assert learned.learned.weight[1] < 0 < shown.learned.weight[1]
    assert learned.learned.questions == 40
    assert learned.score([asked[0]])[0].entities[0] == "town0"
    assert LearnedScorer(more, learned.scorers).fingerprint != learned.fingerprint


def test_few_questions_move_weights_little() -> None:
    """The same answers, asked of thirty subjects and of hundreds: thirty may be chance."""
    rows = [Fact(f"s{n}", "has", f"o{n % 3}") for n in range(900)]
    rows += [Fact(f"s{n}", "is", f"k{n % 3}") for n in range(900)]
    facts = CorpusFacts(corpus([*rows, *(Fact(f"new{n}", "is", f"k{n % 3}") for n in range(280))]))
    asked = [
        replace(q, answers=(f"o{n % 3}",)) for n, q in enumerate(examples(280, "new", "", "has"))
    ]
    sizes = []
    for many in (30, 280):
        joined = LearnedScorer(facts, [RelationPrior(facts), Analogy(facts)], examples=asked[:many])
        assert joined.learned.questions == many
        sizes.append(joined.learned.weight[1])
        assert [one.entities[0] for one in joined.score(asked)] == [q.answers[0] for q in asked]
    assert 0 < sizes[0] < sizes[1]


def test_a_scorer_that_fails_is_named_and_the_others_answer(
    facts: CorpusFacts, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        (scored,) = LearnedScorer(facts, [Broken(facts), Analogy(facts)]).score([ANN])
    assert scored.entities[0] == "town1"
    assert "the scorer broken fails and is left out: RuntimeError: no scores today" in caplog.text
    with pytest.raises(RuntimeError, match="no scores today"):
        LearnedScorer(facts, [Broken(facts)]).score([ANN])


def test_where_nothing_can_be_learned_all_count_alike() -> None:
    tiny = CorpusFacts(corpus([Fact("a", "r", "x"), Fact("b", "r", "y")]))
    learned = LearnedScorer(tiny, [RelationPrior(tiny), Analogy(tiny)])
    # All is equal: the first in the order of names comes first.
    asked = Query("q", "?", "c", "r", prediction=True)
    assert learned.score([asked])[0].entities == ["x", "y"]
    assert learned.learned.questions == 0


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
    rows = [
        Fact(f"s{n}", "has", f"o{o}", t) for n, pair in enumerate(pairs) for t, o in enumerate(pair)
    ]
    facts = CorpusFacts(corpus(rows))
    asked = [
        replace(q, answers=(f"o{pair[0]}",))
        for q, pair in zip(examples(450, "s", "", "has", 3), pairs, strict=True)
    ]

    def right(scorer: LearnedScorer) -> float:
        found = scorer.score(asked[400:])
        good = [one.entities[0] in q.answers for one, q in zip(found, asked[400:], strict=True)]
        return float(np.mean(good))

    few, many, again = (
        LearnedScorer(facts, [RelationPrior(facts)], examples=asked[:number])
        for number in (200, 400, 400)
    )
    assert few.learned.trees is None and right(few) < 0.4
    assert many.learned.trees is not None and right(many) > 0.95
    (one,), (other,) = many.score(asked[:1]), again.score(asked[:1])
    assert one.score.tolist() == other.score.tolist() and one.score.sum() == pytest.approx(1)
    assert one.support(0)[0].scorer == "relation-prior"


def test_trees_order_the_likeliest_and_the_others_stay_behind() -> None:
    rows = [Fact(f"s{n}", "has", f"o{n % 60:02}", n % 5) for n in range(900)]
    facts = CorpusFacts(corpus(rows))
    asked = [
        replace(q, answers=(f"o{n % 60:02}",))
        for n, q in enumerate(examples(400, "s", "", "has", 6))
    ]
    learned = LearnedScorer(facts, [RelationPrior(facts), MostFrequent(facts)], examples=asked)
    # A question without candidates has none among those that have some.
    unknown = replace(asked[0], relation="no such relation")
    found, none, some = learned.score([asked[0], unknown, asked[1]])
    assert learned.learned.trees is not None
    assert found.entities[0] == "o00" and len(set(found.entities)) == 60
    assert (np.diff(found.score) <= 0).all()
    assert none.entities == [] and some.entities[0] == "o01"
    # One that fails is missing to the trees, and the rest still answers.
    joined = [Broken(facts), RelationPrior(facts), MostFrequent(facts)]
    broken = LearnedScorer(facts, joined, examples=asked)
    assert broken.score([asked[0]])[0].entities[0] == "o00"
    assert broken.learned.trees is not None


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
    assert retriever.retrieve([stated], 3)[0][0].document.facts[0].object == "town1"
    # Without candidates the list is that of the wrapped retriever.
    unknown = replace(ANN, relation="no such relation")
    ids = [[s.document.id for s in one.retrieve([unknown], 3)[0]] for one in (text, retriever)]
    assert ids[0] == ids[1]


def test_what_no_document_shows_is_no_answer(documents: list[Document], facts: CorpusFacts) -> None:
    reader = ScoredReader(scorer=Analogy(facts), labels={"town0": "Old Town"})
    by_object = {fact.object: document for document in documents for fact in document.facts}
    shown = (by_object["town0"], by_object["town1"])
    stated = replace(ANN, subject=shown[0].facts[0].subject, prediction=False)
    best, second, nothing, known = reader.generate(
        [
            GenerationRequest(ANN, shown),
            GenerationRequest(ANN, shown[:1]),
            GenerationRequest(ANN, (by_object["jazz"],)),
            GenerationRequest(stated, shown),
        ]
    )
    texts = [best.text, second.text, nothing.text, known.text]
    assert texts == ["town1", "Old Town", "", "Old Town"]
    assert [c.text for c in best.candidates] == ["town1", "Old Town"]
    assert best.candidates[0].document_ids == (shown[1].id,)


def test_what_was_scored_is_remembered_for_so_many_questions(facts: CorpusFacts) -> None:
    class Counting(Analogy):
        asked = 0

        def score(self, queries: Sequence[Query]) -> list[ScoredCandidates]:
            self.asked += len(queries)
            return super().score(queries)

    scorer = Counting(facts)
    remembered = RememberedScorer(scorer, most=2)
    three = [replace(ANN, subject=f"person{n}", prediction=False) for n in range(3)]
    first = remembered.score([*three[:2], replace(three[0], id="again")])
    assert scorer.asked == 2 and first[2] is first[0] is remembered.score(three[:1])[0]
    # The third pushes the others out.
    for queries, number in ((three, 3), (three[2:], 3), (three[:2], 5)):
        remembered.score(queries)
        assert scorer.asked == number
