"""A language model writes a query, and is believed only where it is held to what is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest

from rulerag.cli import main
from rulerag.linking import QueryWriter, QuestionLinker
from rulerag.ruleqa import RuleQADataset
from rulerag.types import Completion, GenerationRequest

PAYS = "Who pays Anna Meyer?"
RIGHT = {
    "form": "entities",
    "wanted": "?x",
    "atoms": [["Anna Meyer", "works for", "?x"]],
    "words": {"pays": "works for"},
}


class Writer:
    """A model that says one thing."""

    fingerprint = "writer"

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.asked: list[str] = []

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        self.asked += [one.query.text for one in requests]
        return [Completion(self.reply) for _ in requests]


def test_a_query_is_written(people: RuleQADataset) -> None:
    model = Writer(f"Sure! {json.dumps(RIGHT)} That is it.")
    plain = QuestionLinker(people)
    assert "'pays'" in plain.link([PAYS])[0].refusal
    linker = plain.with_language_model(model)
    (found,) = linker.link([PAYS])
    assert found.words == "Anna Meyer works for ?" and not found.refusal
    assert "words: pays" in model.asked[0] and "works for" in model.asked[0]
    assert linker.fingerprint != plain.fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        {"form": "guess"},
        {"form": ["entities"]},
        {"words": {"pays": ["works for"]}},
        {"excluded": 1},
        {"atoms": [["Anna Meyer", "pays", "?x"]]},  # no such relation
        {"atoms": [["Dora Lenz", "works for", "?x"]]},  # another name
        {"words": {}},  # a word without an account
        {"words": {"pays": "lives in"}},  # of a relation that is not asked
        {"wanted": "?y"},
        {
            "atoms": [["Anna Meyer", "protests against", "?x"]],
            "words": {"pays": "protests against"},
        },
    ],
)
def test_what_breaks_a_rule_is_refused(people: RuleQADataset, changed: dict[str, object]) -> None:
    model = Writer(json.dumps(RIGHT | changed))
    (found,) = QuestionLinker(people, language_model=model).link([PAYS])
    assert "'pays'" in found.refusal and found.meaning is None


@pytest.mark.parametrize("reply", ["", "I do not know.", "{", "[1]"])
def test_what_is_no_json_is_refused(people: RuleQADataset, reply: str) -> None:
    assert QuestionLinker(people, language_model=Writer(reply)).link([PAYS])[0].refusal


def test_a_model_is_asked_only_where_words_do_not_explain(people: RuleQADataset) -> None:
    model = Writer(json.dumps(RIGHT))
    linker = QuestionLinker(people, language_model=model)
    linker.link(["Who does Anna Meyer work for?", "what does Anna Meyer works for ?", "Who?"])
    assert not model.asked


def test_a_model_may_write_three_facts() -> None:
    names = ("Anna Meyer", "?x", "?y", "?z")
    atoms = [[one, "is headquartered in", two] for one, two in pairwise(names)]
    reply = json.dumps(RIGHT | {"atoms": atoms, "words": {"pays": "is headquartered in"}})
    assert QueryWriter.PROMPT["max_new_tokens"] >= len(reply) / 2  # tokens of two letters


def test_a_model_needs_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["answer", "Who is it?", "--language-model", "smollm2-135m-instruct"])
    assert "what a question about a dataset means" in capsys.readouterr().err
