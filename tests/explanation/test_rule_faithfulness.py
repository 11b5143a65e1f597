from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rulerag.explanation.provenance import AnswerExplanation, explain_answer
from rulerag.explanation.rule_faithfulness import (
    claimed_rules,
    mean_rule_faithfulness,
    rule_faithfulness,
)
from rulerag.rules import Rule
from rulerag.types import Answer, Candidate, Completion
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
    ("clauses", "found_by", "score", "needed"),
    [
        ([["d1"]], [[A], [B]], 1.0, (A.id,)),
        ([["d2"]], [[A], [B]], 0.0, (B.id,)),
        ([["d1"], ["d2"]], [[A], [B]], 0.5, (A.id, B.id)),
        ([["d1", "d2"]], [[A], [B]], 0.0, (A.id, B.id)),
        ([["d1", "d2"]], [[A], [B, A]], 1.0, (A.id, B.id)),
        ([["d1"]], [[None], [A]], 0.0, ()),
        ([[]], [[A], [B]], None, ()),
        ([], [[A], [B]], None, ()),
    ],
)
def test_the_share_of_minimal_rules_that_the_claim_explains(
    clauses: list[list[str]],
    found_by: list[list[Rule | None]],
    score: float | None,
    needed: tuple[str, ...],
) -> None:
    answer, explanation = explained(clauses, found_by)
    found = rule_faithfulness(explanation, claimed_rules(answer))
    assert (found.claimed, found.needed, found.score) == ((A.id,), needed, score)
    assert rule_faithfulness(explanation, ()).score is None


def test_documents_kept_as_one_count_when_the_claim_found_them_all() -> None:
    for last, score in ((A, 1.0), (B, 0.0)):
        answer, explanation = explained([["d4"]], [[A], [A], [A], [last]], max_sources=2)
        assert explanation.retention == (("the rest",),)
        assert rule_faithfulness(explanation, claimed_rules(answer)).score == score


def test_the_mean_over_answers_leaves_out_what_cannot_be_compared() -> None:
    pairs = [explained([[name]], [[A], [B]]) for name in ("d1", "d2", "d1")]
    pairs.append(explained([[]], [[A], [B]]))
    assert mean_rule_faithfulness(pairs) == (pytest.approx(2 / 3), 3)
    assert mean_rule_faithfulness([]) == (None, 0)
