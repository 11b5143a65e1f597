"""What a linker learns from questions whose meaning is given."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rulerag.assembly import make_pipeline, preset
from rulerag.composition import Config
from rulerag.errors import DataError, DataFormatError
from rulerag.linking import LinkedExample, QuestionLinker, hops, read_examples
from rulerag.linking.roles import Roles
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Fact

EXAMPLES = (
    LinkedExample("who pays Carl Otto ?", "Carl Otto", "works_for"),
    LinkedExample("from whom does Carl Otto get money ?", "Anna Meyer", "works_for"),
    LinkedExample(
        "where does the firm of Carl Otto sit ?", "Carl Otto", "works_for / is_located_in"
    ),
    LinkedExample("in which town is Carl Otto's firm ?", "Carl Otto", "works_for / is_located_in"),
    LinkedExample("who are the colleagues of Carl Otto ?", "Carl Otto", "works_for / ^works_for"),
)


@pytest.fixture(scope="module")
def taught(people: RuleQADataset) -> QuestionLinker:
    return QuestionLinker(people, examples=EXAMPLES)


def test_other_words_are_learned(linker: QuestionLinker, taught: QuestionLinker) -> None:
    question = "who pays Anna Meyer ?"
    (before,), (after,) = linker.link([question]), taught.link([question])
    assert before.relations()["works_for"] < 0.5
    assert after.relations()["works_for"] > 0.9
    assert after.readings[0].query.subject == "Anna_Meyer"
    texts = ["where does Carl Otto live ?", "who protests against Borsig ?"]
    texts += ["where does the firm of Anna Meyer sit ?"]
    found = [one.readings[0].query for one in taught.link(texts)]
    assert [one.relation for one in found[:2]] == ["lives_in", "^protests_against"]
    assert hops(found[2].relation) == ["works_for", "is_located_in"]


def test_a_path_is_answered_and_never_by_who_it_starts_from(
    people: RuleQADataset, taught: QuestionLinker, tmp_path: Path
) -> None:
    stated = RuleQADataset(
        corpus=people.corpus, queries={"test": []}, labels=people.labels, prediction=False
    )
    undated = [
        replace(one, facts=tuple(Fact(*fact[:3]) for fact in one.facts)) for one in stated.corpus
    ]
    dataset = RuleQADataset(corpus=undated, queries={"test": []}, labels=people.labels)
    dataset.save(tmp_path / "people")
    values = preset(tmp_path / "people").to_dict()
    values["selector"] = {"type": "linked", "selector": values["selector"]}
    pipeline = make_pipeline(Config(values), RuleQADataset.load(tmp_path / "people"))
    linker = QuestionLinker(dataset, examples=EXAMPLES)
    asked = ["where does the firm of Anna Meyer sit ?", "who are the colleagues of Anna Meyer ?"]
    town, colleague = pipeline.answer([one.query() for one in linker.link(asked)])
    assert town.text == "Berlin"
    assert colleague.text == "Carl Otto"
    assert [rule.miner for rule in town.rules] == ["path"]
    assert [atom.relation for atom in town.rules[0].body] == ["works_for", "is_located_in"]


def test_a_path_with_a_relation_that_rules_may_fill(people: RuleQADataset) -> None:
    linker = QuestionLinker(people, examples=EXAMPLES)
    from rulerag.linking import LinkedSelector
    from rulerag.retrieval.guided import HeadRelationSelector

    selector = LinkedSelector(HeadRelationSelector(people.rules), linker)
    (found,) = linker.link(["where does the firm of Dora Lenz sit ?"])
    (rules,) = selector.select([found.query()])
    bodies = [[atom.relation for atom in rule.body] for rule in rules]
    assert bodies[0] == ["works_for", "is_located_in"]
    assert ["hired_by", "is_located_in"] in bodies  # HIRED in place of works_for
    assert rules[0].ranking_confidence > rules[1].ranking_confidence


def test_roles() -> None:
    roles = Roles(
        [
            Fact("a", "directed", "f"),
            Fact("a", "lives_in", "t"),
            Fact("b", "directed", "g"),
            Fact("c", "lives_in", "t"),
        ]
    )
    fits, rest = roles.fits("b")
    assert fits["directed"] == 1.0  # a fact says so
    assert 0 < fits["lives_in"] < 1  # one of the two who direct lives somewhere
    assert "^directed" not in fits  # nobody who directs is directed
    assert rest == 1 / 4  # of others who direct, two seen and one not
    assert roles.fits("nobody") == ({}, 1.0)


def write(file: Path, *lines: dict[str, object]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def test_examples_of_a_folder(people: RuleQADataset, tmp_path: Path) -> None:
    line = {"question": "who pays Carl Otto ?", "mention": "Carl Otto", "relation": "works_for"}
    write(tmp_path / "questions-linked.jsonl", line)
    assert QuestionLinker.of_folder(tmp_path, people).examples == (EXAMPLES[0],)
    assert QuestionLinker.of_folder(tmp_path / "other", people).examples == ()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mention": "Anna"}, "'Anna' does not stand in the question"),
        ({"relation": "works_fr"}, "did you mean 'works_for'"),
        ({"relation": "works_for / nothing"}, "there is no relation 'nothing'"),
        ({"question": 3}, "key 'question': expected a text"),
    ],
)
def test_a_wrong_example_is_named(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    right = {"question": "who pays Carl Otto ?", "mention": "Carl Otto", "relation": "works_for"}
    file = write(tmp_path / "examples.jsonl", right, right | changed)
    with pytest.raises(DataFormatError, match=r"examples\.jsonl.*line 2") as error:
        read_examples(file, ["works_for", "is_located_in"])
    assert said in str(error.value)
    with pytest.raises(DataError, match=r"none\.jsonl"):
        read_examples(tmp_path / "none.jsonl", ["works_for"])
