"""Whether the mined rule that an answer claims found the documents that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rulerag.explanation.explaining import Explanation, explain_answer
from rulerag.explanation.faithfulness.answers import (
    claimed_rules,
    mean_rule_faithfulness,
    rule_faithfulness,
)
from rulerag.rules import Rule
from rulerag.types import Answer, Candidate, Completion
from tests.fakes import PlantedGenerator, planted_answer, planted_rule

A, B = planted_rule("a"), planted_rule("b")


def explained(
    clauses: Sequence[Sequence[str]],
    found_by: Sequence[Sequence[Rule | None]] = ((A,), (B,)),
    accepted: tuple[str, ...] = (),
    **options: Any,
) -> tuple[Answer, Explanation]:
    answer = planted_answer("France", found_by, rules=(A, B))
    answer = replace(answer, query=replace(answer.query, answers=accepted))
    generator = PlantedGenerator.dnf(clauses, yes="France", no="Spain")
    return answer, explain_answer(answer, generator, **options).explanation


def test_the_claim_is_the_candidates_or_the_first_guiding_rule() -> None:
    answer, _ = explained([["d1"]])
    named = Completion("France", candidates=(Candidate("France", 1.0, ("d2",), (B.id,)),))
    assert claimed_rules(answer) == (A.id,)
    assert claimed_rules(replace(answer, completion=named)) == (B.id,)
    assert claimed_rules(replace(answer, rules=())) == ()


@pytest.mark.parametrize(
    ("clauses", "found_by", "options", "score"),
    [
        ([["d1"]], [[A], [B]], {}, 1.0),
        ([["d2"]], [[A], [B]], {}, 0.0),
        ([["d1"], ["d2"]], [[A], [B]], {}, 0.5),
        ([["d1", "d2"]], [[A], [B]], {}, 0.0),
        ([["d1", "d2"]], [[A], [B, A]], {}, 1.0),
        ([["d1"]], [[None], [A]], {}, 0.0),
        ([[]], [[A], [B]], {}, None),
        ([], [[A], [B]], {}, None),
        # Rules without a test are not compared.
        ([["d1"]], [[A]] * 30, {"budget": 20}, None),
        ([["d1"]], [[A]] * 30, {"budget": 500}, 1.0),
    ],
)
def test_the_share_of_minimal_rules_that_the_claim_explains(
    clauses: list[list[str]],
    found_by: list[list[Rule | None]],
    options: dict[str, Any],
    score: float | None,
) -> None:
    answer, explanation = explained(clauses, found_by, **options)
    assert rule_faithfulness(explanation, claimed_rules(answer)) == score
    assert rule_faithfulness(explanation, ()) is None


def test_the_mean_leaves_out_what_cannot_be_compared_and_stands_beside_wrong_answers() -> None:
    pairs = [explained([[name]]) for name in ("d1", "d2", "d1")]
    mean = mean_rule_faithfulness([*pairs, explained([[]])])
    assert (mean.mean, mean.compared) == (pytest.approx(2 / 3), 3)
    nothing = mean_rule_faithfulness([])
    assert (nothing.mean, nothing.compared) == (None, 0) and "no answer" in str(nothing)
    pairs = [explained([["d1"]], accepted=one) for one in (("France",), ("Italy",), ())]
    assert str(mean_rule_faithfulness(pairs)).startswith(
        "rule faithfulness 100.0 % of 3 answers (1 right, 1 wrong, 1 without an accepted answer"
    )
