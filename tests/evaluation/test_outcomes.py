"""How answers end, on documents of a few words."""

from __future__ import annotations

import pytest

from rulerag.evaluation import OUTCOMES, AnswerMatcher, outcome_of
from rulerag.types import Document

DOCUMENTS = [Document("a", "Otto sang in Oslo."), Document("b", "Emil wrote it.")]


@pytest.mark.parametrize(
    ("answer", "accepted", "name", "holding"),
    [
        ("Emil", ("Emil",), "right", (False, True)),
        ("emil", ("Anna", "Emil"), "right", (False, True)),
        ("Anna", ("Anna",), "right", (False, False)),
        ("Otto", ("Emil",), "misled", (False, True)),
        ("Anna", ("Emil",), "ignored", (False, True)),
        ("wrote", ("Emil",), "ignored", (False, True)),  # it stands beside the accepted one alone
        ("", ("Emil",), "ignored", (False, True)),
        ("Otto", ("Anna",), "not retrieved", (False, False)),
        ("Otto", (), "not retrieved", (False, False)),
    ],
)
def test_an_answer_ends_in_one_way(
    answer: str, accepted: tuple[str, ...], name: str, holding: tuple[bool, ...]
) -> None:
    found = outcome_of(answer, accepted, DOCUMENTS, AnswerMatcher())
    assert name in OUTCOMES
    assert (found.name, found.holding, found.retrieved) == (name, holding, any(holding))


def test_a_refusal_is_no_wrong_answer_and_several_answers_are_all() -> None:
    refused = {"refused": "nothing known is meant by 'married'"}
    found = outcome_of("cannot be answered", ("Emil",), DOCUMENTS, AnswerMatcher(), row=refused)
    assert found.name == "refused" and found.retrieved
    row = {"values": ["Otto", "Emil"]}
    both = outcome_of("Otto, Emil", ("emil", "otto"), DOCUMENTS, AnswerMatcher(), row=row)
    assert both.name == "right"
    more = outcome_of("Otto, Emil", ("emil",), DOCUMENTS, AnswerMatcher(), row=row)
    assert more.name != "right"
