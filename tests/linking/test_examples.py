"""What a linker learns from questions whose meaning is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulerag.errors import DataError, DataFormatError
from rulerag.linking import LinkedExample, QuestionLinker, read_examples
from rulerag.linking.roles import Roles
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Fact

EXAMPLES = (
    LinkedExample("who pays Carl Otto ?", "Carl Otto", "works_for"),
    LinkedExample("from whom does Carl Otto get money ?", "Carl Otto", "works_for"),
)


def test_other_words_are_learned(linker: QuestionLinker, people: RuleQADataset) -> None:
    question = "who pays Anna Meyer ?"
    (before,) = linker.link([question])
    assert "'pays'" in before.refusal
    (after,) = QuestionLinker(people, examples=EXAMPLES).link([question])
    assert after.readings[0].query.subject == "Anna_Meyer"
    assert after.readings[0].relation == "works_for"


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
        ({"relation": "^nothing"}, "there is no relation 'nothing'"),
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
