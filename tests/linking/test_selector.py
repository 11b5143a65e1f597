"""Rules of what a question in one's own words asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerag.assembly import make_pipeline
from rulerag.composition import Config
from rulerag.linking import INVERSE, LinkedSelector, QuestionLinker
from rulerag.retrieval.guided import HeadRelationSelector
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query
from tests.linking.conftest import HIRED

QUERY = Query("q", "what does Anna Meyer works for ?", "Anna_Meyer", "works_for", 4)


@pytest.fixture
def selector(people: RuleQADataset, linker: QuestionLinker) -> LinkedSelector:
    return LinkedSelector(HeadRelationSelector(people.rules), linker)


def test_a_question_without_a_relation_is_linked(selector: LinkedSelector) -> None:
    (rules,) = selector.select([Query("q", "Who does Anna Meyer work for?")])
    assert HIRED.id in {rule.id for rule in rules}
    assert selector.select([Query("q", "Who knows Zxqwv?")]) == [[]]


def test_the_inverse_of_a_relation_has_its_rules_turned_round(selector: LinkedSelector) -> None:
    (rules,) = selector.select([replace(QUERY, subject="Borsig", relation=INVERSE + "works_for")])
    defined, hired = rules
    assert (defined.head.relation, defined.body[0].relation) == ("^works_for", "works_for")
    assert (defined.head.subject, defined.head.object) == ("?y", "?x")
    assert (hired.head.subject, hired.head.object) == ("?y", "?x") and hired.body == HIRED.body
    assert hired.ranking_confidence == HIRED.ranking_confidence


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Who will Dora Lenz work for?", "Siemens"),
        ("Who will work for Siemens?", "Dora Lenz"),
        ("Where does Anna Meyer live?", "Berlin"),
    ],
)
def test_questions_are_answered_from_both_ends(
    people: RuleQADataset, linker: QuestionLinker, text: str, answer: str
) -> None:
    config = Config(
        {
            "selector": {"type": "linked", "selector": {"type": "head"}},
            "retriever": {"type": "symbolic"},
            "generator": {"type": "symbolic"},
        }
    )
    (told,) = make_pipeline(config, people).answer([linker.link([text])[0].query()])
    assert told.text == answer
