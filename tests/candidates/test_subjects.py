"""Questions for the subject of a relation: the same scorers over facts with swapped ends."""

from __future__ import annotations

import pytest

from rulerag import Document, Query, RuleBank
from rulerag.candidates import CorpusFacts
from rulerag.candidates.analogy import Analogy
from rulerag.candidates.base import RememberedScorer
from rulerag.candidates.counts import RelationPrior
from rulerag.candidates.learned import LearnedScorer
from rulerag.candidates.rules import Rules
from rulerag.candidates.scored import ScoredRetriever
from rulerag.candidates.walks import Walks
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
BEN = Query("f", "?", "ben", "works_for", answers=("borsig",), prediction=True)


@pytest.fixture
def facts() -> CorpusFacts:
    return CorpusFacts(DOCUMENTS)


def who(entity: str, relation: str = "works_for") -> Query:
    """Who works for it? A prediction: what is stated is no answer."""
    return Query("q", f"who {relation} {entity}?", entity, f"^{relation}", prediction=True)


def test_rules_lead_to_both_ends_and_reasons_are_facts_of_the_corpus(facts: CorpusFacts) -> None:
    scorer = RememberedScorer(Rules(facts, RuleBank([HIRED])))
    first, second, third = scorer.score([who("borsig"), BEN, who("borsig")])
    assert (first.entities, second.entities) == (["ben"], ["borsig"]) and third is first
    (reason,) = first.support(0)
    assert reason.why == HIRED.text
    assert reason.facts == (Fact("borsig", "hires", "ben"),) and reason.document_ids == ("d1",)
    walked = RememberedScorer(Walks(facts, steps=2)).score([who("dora", "hires")])[0]
    assert walked.entities == ["cobalt"]
    assert walked.support(0)[0].why == "connected: dora meets eva; cobalt hires eva"
    prior = RememberedScorer(RelationPrior(facts)).score([who("borsig")])[0]
    assert prior.support(prior.entities.index("dora"))[0].why == "is one that dora works for"
    alike = RememberedScorer(Analogy(facts)).score([who("cobalt", "hires")])[0].support(0)[0]
    assert alike.facts[0].relation == "hires" and set(alike.facts) <= {Fact(*row) for row in ROWS}


def test_joined_scorers_learn_each_direction_for_itself(facts: CorpusFacts) -> None:
    parts = [Rules(facts, RuleBank([HIRED])), RelationPrior(facts)]
    joined = LearnedScorer(facts, parts, examples=[BEN] * 40)
    # Examples ask for objects: they are none where subjects are asked for.
    assert joined.over(facts.reversed).examples == ()
    assert joined.over(facts.select([0, 1, 2, 3])).examples == joined.examples
    assert RememberedScorer(joined).score([who("borsig")])[0].entities[0] == "ben"


class Dora:
    """A retriever that finds the document that states the asked relation."""

    fingerprint = "dora"

    def retrieve(self, queries: list[Query], top_k: int) -> list[list[ScoredDocument]]:
        return [[ScoredDocument(DOCUMENTS[5], 1.0, 1)][:top_k] for _ in queries]


def test_places_go_to_subjects(facts: CorpusFacts) -> None:
    retriever = ScoredRetriever(DOCUMENTS, Dora(), RelationPrior(facts))  # type: ignore[arg-type]
    (found,) = retriever.retrieve([who("acme")], 3)
    # Dora's document states the relation with her; the others have no document but their facts'.
    named = {scored.document.id: scored.support[0].why for scored in found}
    assert named["d5"] == "is one that dora works for" and set(named) == {"d3", "d4", "d5"}
