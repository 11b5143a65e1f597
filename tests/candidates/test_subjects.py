"""Questions for the subject of a relation: the same scorers over facts with swapped ends."""

from __future__ import annotations

import pytest

from rulerag import Document, Query, RuleBank
from rulerag.candidates import CorpusFacts
from rulerag.candidates.analogy import Analogy
from rulerag.candidates.base import FactScorer, RememberedScorer
from rulerag.candidates.counts import RelationPrior
from rulerag.candidates.learned import LearnedScorer
from rulerag.candidates.rules import Rules
from rulerag.candidates.scored import ScoredRetriever
from rulerag.candidates.walks import Walks
from rulerag.kg.grounding import Statements
from rulerag.rules import Atom, Rule, RuleQuality
from rulerag.types import Fact, ScoredDocument

ROWS = [
    ("borsig", "hires", "ann"),
    ("borsig", "hires", "ben"),
    ("cobalt", "hires", "eva"),
    ("ann", "works_for", "borsig"),
    ("eva", "works_for", "cobalt"),
    ("dora", "works_for", "dune"),
    ("dora", "meets", "eva"),
]
DOCUMENTS = [Document(f"d{n}", " ".join(row), (Fact(*row),)) for n, row in enumerate(ROWS)]
HIRED = Rule(
    Atom("works_for", "?x", "?y"),
    (Atom("hires", "?y", "?x"),),
    quality=RuleQuality(confidence=0.6, pca_confidence=0.6),
)


@pytest.fixture
def facts() -> CorpusFacts:
    return CorpusFacts(DOCUMENTS)


def who(entity: str, relation: str = "works_for") -> Query:
    """Who works for it? A prediction: what is stated is no answer."""
    return Query("q", f"who {relation} {entity}?", entity, f"^{relation}", prediction=True)


def test_a_rule_leads_to_subjects_too(facts: CorpusFacts) -> None:
    scored = RememberedScorer(Rules(facts, RuleBank([HIRED]))).score([who("borsig")])[0]
    assert scored.entities == ["ben"]
    (reason,) = scored.support(0)
    # Words, facts and documents are those of the corpus, not of facts with swapped ends.
    assert reason.why == HIRED.text
    assert reason.facts == (Fact("borsig", "hires", "ben"),) and reason.document_ids == ("d1",)


def test_reasons_say_facts_as_they_are_stated(facts: CorpusFacts) -> None:
    walked = RememberedScorer(Walks(facts, steps=2)).score([who("dora", "hires")])[0]
    assert walked.entities == ["cobalt"]
    assert walked.support(0)[0].why == "connected: dora meets eva; cobalt hires eva"
    prior = RememberedScorer(RelationPrior(facts)).score([who("borsig")])[0]
    assert prior.support(prior.entities.index("dora"))[0].why == "is one that dora works for"
    alike = RememberedScorer(Analogy(facts)).score([who("cobalt", "hires")])[0]
    told = alike.support(0)[0]
    assert told.facts[0].relation == "hires" and set(told.facts) <= {Fact(*row) for row in ROWS}


def test_questions_of_both_directions_in_one_call(facts: CorpusFacts) -> None:
    forward = Query("f", "?", "ben", "works_for", prediction=True)
    scorer = RememberedScorer(Rules(facts, RuleBank([HIRED])))
    first, second, third = scorer.score([who("borsig"), forward, who("borsig")])
    assert (first.entities, second.entities) == (["ben"], ["borsig"]) and third is first


def test_joined_scorers_learn_each_direction_for_itself(facts: CorpusFacts) -> None:
    parts: list[FactScorer] = [Rules(facts, RuleBank([HIRED])), RelationPrior(facts)]
    asked = Query("e", "?", "ben", "works_for", answers=("borsig",), prediction=True)
    joined = LearnedScorer(facts, parts, examples=[asked] * 40)
    # Examples ask for objects: they are none where subjects are asked for.
    assert joined.over(facts.reversed).examples == ()
    assert joined.over(facts.select([0, 1, 2, 3])).examples == joined.examples
    scored = RememberedScorer(joined).score([who("borsig")])[0]
    assert scored.entities[0] == "ben"


class Nothing:
    """A retriever that finds the document that states the asked relation."""

    fingerprint = "nothing"

    def retrieve(self, queries: list[Query], top_k: int) -> list[list[ScoredDocument]]:
        del top_k
        return [[ScoredDocument(DOCUMENTS[5], 1.0, 1)] for _ in queries]


def test_places_go_to_subjects(facts: CorpusFacts) -> None:
    retriever = ScoredRetriever(DOCUMENTS, Nothing(), RelationPrior(facts))  # type: ignore[arg-type]
    (found,) = retriever.retrieve([who("acme")], 3)
    # Dora's document states the relation with her; the others have no document but their facts'.
    named = {scored.document.id: scored.support[0].why for scored in found}
    assert named["d5"] == "is one that dora works for" and set(named) == {"d3", "d4", "d5"}


def test_what_is_stated_of_a_subject() -> None:
    corpus = Statements(DOCUMENTS)
    asked = Query("q", "who hires ann?", "ann", "^hires")
    assert [one.object for one in corpus.of(asked)] == ["borsig"]
    assert corpus.is_functional(asked)
    assert not corpus.of(who("borsig"))
    assert not corpus.is_functional(Query("q", "who works for it?", "dune", "^hired"))
