"""Answers of our own pipelines explained: the way from mined rule to document to minimal set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rulerag
from rulerag.errors import (
    ConfigError,
    DataFormatError,
    ExplanationError,
    SamplingError,
)
from rulerag.explanation.explaining import Why, explain_answer, explanation_lines
from rulerag.explanation.probing import AnswerCache, VotingGenerator
from rulerag.explanation.probing.predicates import abstains, contains
from rulerag.rules import Rule
from rulerag.types import Answer, Completion, GenerationRequest, Query, Support
from tests.fakes import PlantedGenerator, planted_answer, planted_rule

A, B, C, D = (planted_rule(name) for name in "abcd")


def explained(
    clauses: Sequence[Sequence[str]],
    found_by: Sequence[Sequence[Rule | None]],
    *,
    rules: Sequence[Rule] = (A, B, C, D),
    no: str = "Spain",
    **options: Any,
) -> Why:
    generator = PlantedGenerator.dnf(clauses, yes="France", no=no)
    return explain_answer(planted_answer("France", found_by, rules=rules), generator, **options)


def why_of(why: Why) -> list[str]:
    """The lines behind the heading ``Why``, without the cost."""
    lines = explanation_lines(why.explanation)
    return [line.strip() for line in lines[lines.index("Why") + 1 : -1]]


def test_the_record_holds_the_way_from_rule_to_document_to_answer() -> None:
    why = explained([["d2"], ["d5"]], [[A], [C], [A], [], [C]])
    (claim,), record = why.claims, why.explanation
    assert claim.retention == (frozenset({1}), frozenset({4})) and claim.omission == ({1, 4},)
    assert all(one.certificate.always for one in (*claim.retention, *claim.omission))
    assert [one.id for one in record.supporting] == ["d2", "d5"]
    assert [one.alias for one in record.supporting_rules] == ["R3"]
    assert record.query_id and record.empty == "Spain" and record.documents[0].rules == (A.id,)
    assert why.num_calls == 32 and record.complete
    row = json.loads(json.dumps(why.to_json()))
    assert Why.from_json(row).explanation == record
    assert row["supporting_documents"] == ["d2", "d5"] and row["supporting_rules"] == [C.id]
    assert row["documents"][0]["found_by"][0] == {
        "rule": A.id, "rank": 1, "score": 9.0, "atom": None,
    }  # fmt: skip
    for key in ("documents", "question", "text"):
        with pytest.raises(DataFormatError, match=f"key '{key}'"):
            Why.from_json({name: row[name] for name in row if name != key})
    row["claims"][0]["retention"][0]["certificate"]["bound"] = "high"
    with pytest.raises(DataFormatError, match="key 'bound'"):
        Why.from_json(row)


@pytest.mark.parametrize(
    ("clauses", "found_by", "options", "lines"),
    [
        (
            [["d2"]], [[A], [A, None], [B]], {},
            ["“France”", "rests on “Text 2.” [2], found by rule R1.",
             "becomes “Spain” without [2]."],
        ),
        (
            [["d1", "d2"]], [[A], [B]], {},
            ["“France”", "rests on “Text 1.” [1] and “Text 2.” [2] together, found by rules R1 and "
             "R2.", "becomes “Spain” without [1] or without [2]."],
        ),
        (
            [["d1"]], [[A, B, C, D]], {},
            ["“France”", "rests on “Text 1.” [1], found by rules R1, R2, R3 and one more.",
             "becomes “Spain” without [1]."],
        ),
        (
            [[]], [[A], [B]], {},
            ["“France”", "rests on no document: it is said without any of them, too (known to the "
             "model, or made up)."],
        ),
        (
            [["d1"]], [[B]], {"predicate": contains("france")},
            ["The output contains 'france':", "rests on “Text 1.” [1], found by rule R2.",
             "becomes “Spain” without [1]."],
        ),
        (
            [["d1"]], [[A]], {"predicate": abstains(), "no": ""},
            ["The generator abstains:", "no small set of documents was found that is enough for "
             "it."],
        ),
    ],
)  # fmt: skip
def test_what_is_said(
    clauses: Sequence[Sequence[str]],
    found_by: Sequence[Sequence[Rule | None]],
    options: dict[str, Any],
    lines: list[str],
) -> None:
    assert why_of(explained(clauses, found_by, **options))[: len(lines)] == lines


def test_the_terminal_form_holds_rules_documents_and_reasons() -> None:
    text = str(explained([["d2"]], [[A], [A, None], [B]], rules=[A, B, C]))
    assert "found [1] (rank 1, score 9), [2] (rank 2, score 8)" in text
    assert "  R3 found none of these documents" in text
    assert " *[2]  Text 2.  [R1 rank 2, score 8; query rank 2, score 8]" in text
    assert "  [1]  Text 1." in text
    answer = planted_answer("France", [[None], [A]], rules=[A])
    reason = Support("analogy", "Ann, like the subject, has genre folk", (), ("d9",))
    first, second = answer.documents
    answer = replace(answer, documents=(replace(first, support=(reason,)), second))
    why = explain_answer(answer, PlantedGenerator.dnf([["d1"]], yes="France", no="Spain"))
    assert (
        "rests on “Text 1.” [1], chosen by the scorer analogy: Ann, like the subject, has "
        "genre folk." in why_of(why)
    )
    right = replace(answer, query=replace(answer.query, answers=("Spain",)))
    wrong = explain_answer(right, PlantedGenerator.dnf([["d1"]], yes="France", no="Spain"))
    assert wrong.explanation.right is False
    assert "Answer    France  (wrong; accepted: Spain)" in str(wrong)
    assert "becomes “Spain” (right) without [1]." in why_of(wrong)


def test_many_documents_are_searched_and_tested() -> None:
    found_by: list[list[Rule | None]] = [[A] if i == 6 else [B] for i in range(40)]
    why = explained([["d7", "d31"]], found_by, seed=2)
    (claim,) = why.claims
    assert claim.retention == (frozenset({6, 30}),) and claim.omission == ({6}, {30})
    assert claim.retention[0].certificate.kind == "certified" and why.num_calls < 100
    assert "found by rules R1 and R2" in str(why) and "Certain" not in str(why)
    few = explained([["d7"]], [[A]] * 40, budget=8)
    assert not few.explanation.complete and "Stopped early: the budget of 8 calls" in str(few)


def test_documents_of_a_rule_and_sentences_are_kept_or_removed_as_one() -> None:
    why = explained([["d2"]], [[A], [B], [B], [A]], level="rule")
    (one,) = why.claims[0].sources
    assert why.documents[one].title == B.id and why.documents[one].label == "[2-3]"
    assert [why.finer().documents[n].id for n in why.finer().claims[0].sources] == ["d2"]

    class Reader:
        fingerprint = "reader"

        def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
            texts = [" ".join(d.text for d in request.documents) for request in requests]
            return [Completion("France" if "France" in text else "none") for text in texts]

    texts = ["It rained. It stopped.", "Both countries talked. France was the host. Then all left."]
    answer = planted_answer("France", [[A], [B]], rules=(A, B), texts=texts)
    why = explain_answer(answer, Reader(), level="sentence")
    assert [why.documents[n].label for n in why.claims[0].sources] == ["[2.2]"]
    assert "[2.2], found by rule R2" in str(why)


def test_settings_are_checked_and_answers_kept(tmp_path: Path) -> None:
    generator = PlantedGenerator.dnf([["d1"]], yes="France", no="Spain")
    answer = planted_answer("France", [[A], [B]])
    for options, match in (
        ({"value": "log-probability", "attribution": ("linear",)}, "no log-probability of a text"),
        ({"generator": None}, "an answer is explained by what gave it"),
        ({"atribution": ("linear",)}, "key 'atribution': .*did you mean 'attribution'"),
    ):
        with pytest.raises(ConfigError, match=match):
            rulerag.explain(answer, **{"generator": generator, **options})
    assert generator.requests == []
    nothing = Answer(Query("q9", "?"), Completion("x"))
    with pytest.raises(ExplanationError, match="'q9' rests on no document"):
        explain_answer(nothing, generator)
    cache = AnswerCache(tmp_path / "answers.sqlite")
    first = explain_answer(answer, generator, cache=cache)
    count = len(generator.requests)
    again = explain_answer(answer, generator, cache=cache)
    assert again.claims == first.claims and len(generator.requests) == count


def test_a_generator_by_chance_is_refused_where_it_shows_itself() -> None:
    turns = iter(range(1000))

    class Chance(PlantedGenerator):
        def __init__(self) -> None:
            super().__init__(lambda ids: f"France {next(turns)}")

    answer = planted_answer("France", [[A], [B]])
    chance = Chance()
    with pytest.raises(SamplingError, match=r"says 'France .' and then 'France .' to the same"):
        explain_answer(answer, chance)
    assert len(chance.requests) == 3, "the whole prompt twice, and none of it"
    assert explain_answer(answer, VotingGenerator(Chance(), 3)).claims, "a vote may change"

    class Says(PlantedGenerator):
        temperature = 0.7

    with pytest.raises(SamplingError, match=r"temperature 0\.7"):
        explain_answer(answer, Says(lambda ids: "France"))
    steady = PlantedGenerator(lambda ids: "Spain")
    why = explain_answer(answer, steady)
    assert not why.claims[0].retention, "another build since then: no set gives that answer"


def test_a_pipeline_and_an_engine_are_explained_too() -> None:
    answer = planted_answer("France", [[A], [B]])

    class RuleRAGPipeline:
        generator = PlantedGenerator.dnf([["d2"]], yes="France", no="Spain")

        def answer(self, queries: Sequence[Query]) -> list[Answer]:
            return [replace(answer, query=query) for query in queries]

    RuleRAGPipeline.__module__ = "rulerag.pipeline"
    why = rulerag.explain(RuleRAGPipeline(), "Where?")
    assert why.claims[0].sources == (1,) and why.explanation.question == "Where?"
    engine = rulerag.ProbeEngine.from_function(
        lambda batch: ["yes" if 3 in kept else "no" for kept in batch], num_sources=30
    )
    why = rulerag.explain(engine, predicate=lambda output: output == "yes")
    assert why.claims[0].retention == (frozenset({3}),) and why.documents[3].title == "source 3"
