"""A small dataset of people and firms, with dates."""

from __future__ import annotations

import pytest

from rulerag.linking import QuestionLinker
from rulerag.ruleqa import DatasetInfo, RuleQADataset
from rulerag.rules import Atom, Rule, RuleBank, RuleQuality
from rulerag.types import Document, Fact, Query

FACTS = (
    Fact("Anna_Meyer", "works_for", "Borsig", 1),
    Fact("Anna_Meyer", "hired_by", "Borsig", 0),
    Fact("Carl_Otto", "works_for", "Borsig", 2),
    Fact("Carl_Otto", "lives_in", "Berlin", 2),
    Fact("Citizen_(India)", "protests_against", "Borsig", 2),
    Fact("Citizen_(Peru)", "protests_against", "Borsig", 3),
    Fact("Borsig", "is_located_in", "Berlin", 3),
    Fact("Dora_Lenz", "hired_by", "Siemens", 3),
)
LABELS = {
    "entities": {name: name.replace("_", " ") for f in FACTS for name in (f.subject, f.object)},
    "relations": {f.relation: f.relation.replace("_", " ") for f in FACTS},
}
HIRED = Rule(
    Atom("works_for", "?x", "?y"),
    (Atom("hired_by", "?x", "?y"),),
    temporal=True,
    quality=RuleQuality(support=8, body_size=10, confidence=0.8),
)
LIVES = Rule(
    Atom("lives_in", "?x", "?y"),
    (Atom("works_for", "?x", "?z"), Atom("is_located_in", "?z", "?y")),
    temporal=True,
    quality=RuleQuality(support=5, body_size=10, confidence=0.5),
)


@pytest.fixture(scope="session")
def people() -> RuleQADataset:
    documents = [Document(f"d{n}", " ".join(map(str, f[:3])), (f,)) for n, f in enumerate(FACTS)]
    return RuleQADataset(
        corpus=documents,
        queries={"test": [Query("q", "what does Dora Lenz works for ?", "Dora_Lenz", "works_for")]},
        rules=RuleBank([HIRED, LIVES]),
        labels=LABELS,
        info=DatasetInfo("people", calendar={"unit": "day", "origin": "2020-01-01", "step": 1}),
        prediction=True,
    )


@pytest.fixture(scope="session")
def linker(people: RuleQADataset) -> QuestionLinker:
    return QuestionLinker(people)
