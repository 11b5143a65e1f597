"""Which end a question asks for, and what kind of thing: by how it is built."""

from __future__ import annotations

import pytest

from rulerag.linking.direction import subject_asked
from rulerag.linking.roles import asked_for


@pytest.mark.parametrize(
    ("question", "label", "subject"),
    [
        ("Which team did Anna play for?", "plays for", False),
        ("Who does Anna work for?", "works for", False),
        ("Who works for Anna?", "works for", True),
        ("Who was hired by Anna?", "hired by", True),
        ("What is the capital of Anna?", "capital", False),
        ("What is the capital of Anna?", "capital of", True),
        ("What is the place of birth of Anna?", "place of birth", False),
        ("By whom was Anna consulted?", "consult", True),
        ("Of whom is Anna the employer?", "employer", True),
    ],
)
def test_the_end_that_is_asked_for(question: str, label: str, subject: bool) -> None:
    start = question.index("Anna")
    probability, sure = subject_asked(question, (start, start + len("Anna")), label)
    assert (probability > 0.5) is subject and 0 < probability < 1
    assert sure


@pytest.mark.parametrize(
    ("question", "noun", "who"),
    [
        ("which sports team did \0 play for", "team", False),
        ("what company produced \0 ?", "company", False),
        ("who directed \0 ?", "", True),
        ("whose wife is \0 ?", "", True),
        ("who or what is \0 ?", "", False),
        ("where was \0 born ?", "", False),
        ("\0 ?", "", False),
    ],
)
def test_the_kind_of_thing_that_is_asked_for(question: str, noun: str, who: bool) -> None:
    asked = asked_for(question)
    assert (asked.noun or "", asked.who) == (noun, who)
