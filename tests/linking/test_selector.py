"""Rules of every relation that a question may ask for, weighed by how likely it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rulerag.assembly import make_pipeline
from rulerag.composition import Config
from rulerag.errors import ConfigError
from rulerag.kg.grounding import EvidenceModel
from rulerag.linking import INVERSE, LinkedSelector, QuestionLinker
from rulerag.retrieval.guided import HeadRelationSelector
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Query
from tests.linking.conftest import HIRED, LIVES

QUERY = Query("q", "what does Anna Meyer works for ?", "Anna_Meyer", "works_for", 4)


@pytest.fixture
def selector(people: RuleQADataset, linker: QuestionLinker) -> LinkedSelector:
    return LinkedSelector(HeadRelationSelector(people.rules), linker)


def test_rules_are_weighed_by_the_relations(selector: LinkedSelector) -> None:
    both = replace(QUERY, relations=(("works_for", 0.25), ("lives_in", 0.7), ("hired_by", 0.04)))
    (rules,) = selector.select([both])
    assert [rule.id for rule in rules] == [LIVES.id, HIRED.id]
    assert [rule.ranking_confidence for rule in rules] == pytest.approx([0.35, 0.2])
    assert [rule.text for rule in rules] == [LIVES.text, HIRED.text]
    # Evidence is made of counts, and is weighed alike.
    assert EvidenceModel(prior=0).confidence(rules[1]) == pytest.approx(0.2)


def test_relations_that_are_unlikely_are_not_followed(selector: LinkedSelector) -> None:
    one = replace(QUERY, relations=(("works_for", 0.9), ("lives_in", 0.04)))
    assert selector.select([one]) == [[HIRED]]
    assert selector.select([one])[0][0] is HIRED


def test_an_unlikely_meaning_with_rules_does_not_decide_alone(selector: LinkedSelector) -> None:
    meant = (("protests_against", 0.9), ("works_for", 0.1))
    query = Query("q", "?", "Citizen_(India)", "protests_against", 4, relations=meant)
    (rules,) = selector.select([query])
    stated, hired = rules
    assert stated.head == stated.body[0] and stated.head.relation == "protests_against"
    assert stated.ranking_confidence == pytest.approx(0.9)
    assert hired.id == HIRED.id
    # Where no meaning has rules, the question is searched as it is.
    none = replace(query, relations=(("protests_against", 0.9), ("is_located_in", 0.1)))
    assert selector.select([none]) == [[]]


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
    ("settings", "key"),
    [({"max_relations": 0}, "max_relations"), ({"min_probability": 2}, "min_p")],
)
def test_settings_out_of_range(
    people: RuleQADataset, linker: QuestionLinker, settings: dict[str, int], key: str
) -> None:
    with pytest.raises(ConfigError, match=key):
        LinkedSelector(HeadRelationSelector(people.rules), linker, **settings)


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
