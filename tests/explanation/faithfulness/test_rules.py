from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rulerag.explanation.faithfulness.rules import (
    claimed_rules,
    mean_rule_faithfulness,
    rule_faithfulness,
)
from rulerag.explanation.report import AnswerExplanation, explain_answer
from rulerag.rules import Rule
from rulerag.types import Answer, Candidate, Completion, GenerationRequest
from tests.fakes import PlantedGenerator, planted_answer, planted_rule

A, B = planted_rule("a"), planted_rule("b")


def explained(
    clauses: Sequence[Sequence[str]], found_by: Sequence[Sequence[Rule | None]], **options: int
) -> tuple[Answer, AnswerExplanation]:
    answer = planted_answer("France", found_by, rules=(A, B))
    generator = PlantedGenerator.dnf(clauses, yes="France", no="Spain")
    return answer, explain_answer(answer, generator, **options)


def test_the_claim_is_the_candidates_or_the_first_guiding_rule() -> None:
    answer, _ = explained([["d1"]], [[A], [B]])
    assert claimed_rules(answer) == (A.id,)
    named = Completion("France", candidates=(Candidate("France", 1.0, ("d2",), (B.id,)),))
    assert claimed_rules(replace(answer, completion=named)) == (B.id,)
    assert claimed_rules(replace(answer, rules=())) == ()


@pytest.mark.parametrize(
    ("clauses", "found_by", "score"),
    [
        ([["d1"]], [[A], [B]], 1.0),
        ([["d2"]], [[A], [B]], 0.0),
        ([["d1"], ["d2"]], [[A], [B]], 0.5),
        ([["d1", "d2"]], [[A], [B]], 0.0),
        ([["d1", "d2"]], [[A], [B, A]], 1.0),
        ([["d1"]], [[None], [A]], 0.0),
        ([[]], [[A], [B]], None),
        ([], [[A], [B]], None),
    ],
)
def test_the_share_of_minimal_rules_that_the_claim_explains(
    clauses: list[list[str]],
    found_by: list[list[Rule | None]],
    score: float | None,
) -> None:
    answer, explanation = explained(clauses, found_by)
    assert rule_faithfulness(explanation, claimed_rules(answer)) == score
    assert rule_faithfulness(explanation, ()) is None


def test_documents_kept_as_one_count_when_the_claim_found_them_all() -> None:
    for last, score in ((A, 1.0), (B, 0.0)):
        answer, explanation = explained([["d4"]], [[A], [A], [A], [last]], max_sources=2)
        assert explanation.retention == (("the rest",),)
        assert rule_faithfulness(explanation, claimed_rules(answer)) == score


def test_sentences_count_for_the_documents_they_stand_in() -> None:
    texts = ["First. Yes.", "Second."]
    answer = planted_answer("France", [[A], [B]], rules=(A, B), texts=texts)

    class Reader:
        fingerprint = "reads"

        def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
            left = [" ".join(d.text for d in request.documents) for request in requests]
            return [Completion("France" if "Yes." in text else "Spain") for text in left]

    told = explain_answer(answer, Reader(), unit="sentence")
    assert told.retention == (("D1.2",),)
    assert rule_faithfulness(told, claimed_rules(answer)) == 1.0


def test_rules_without_a_test_are_not_compared() -> None:
    answer, told = explained([["d1"]], [[A]] * 30, validity=0.95, max_probes=20)  # type: ignore[arg-type]
    assert told.retention == (("D1",),)
    assert rule_faithfulness(told, claimed_rules(answer)) is None


def test_the_mean_over_answers_leaves_out_what_cannot_be_compared() -> None:
    pairs = [explained([[name]], [[A], [B]]) for name in ("d1", "d2", "d1")]
    pairs.append(explained([[]], [[A], [B]]))
    found = mean_rule_faithfulness(pairs)
    assert (found.mean, found.compared) == (pytest.approx(2 / 3), 3)
    nothing = mean_rule_faithfulness([])
    assert (nothing.mean, nothing.compared) == (None, 0) and "no answer" in str(nothing)


def test_the_mean_stands_beside_how_many_answers_are_wrong() -> None:
    pairs = []
    for accepted in (("France",), ("Italy",), ()):
        answer, _ = explained([["d1"]], [[A], [B]])
        answer = replace(answer, query=replace(answer.query, answers=accepted))
        told = explain_answer(answer, PlantedGenerator.dnf([["d1"]], yes="France", no="Spain"))
        pairs.append((answer, told))
    assert str(mean_rule_faithfulness(pairs)).startswith(
        "rule faithfulness 100.0 % of 3 answers (1 right, 1 wrong, 1 without an accepted answer"
    )
    assert "100.0 % of 1 answer (1 wrong): " in str(mean_rule_faithfulness(pairs[1:2]))
