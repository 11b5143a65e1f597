"""Which end a question asks for, and what kind of thing: by how it is built."""

from __future__ import annotations

import pytest

from rulerag.linking.direction import subject_asked
from rulerag.linking.question import QuestionWords


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
    ("question", "noun"),
    [
        ("which sports team did Borg play for", "team"),
        ("what company produced Borg ?", "company"),
        ("who directed Borg ?", ""),
        ("who or what is Borg ?", ""),
        ("where was Borg born ?", ""),
        ("what supplies Borg ?", ""),
        ("the films of Borg are in which languages ?", "languages"),
        ("Borg ?", ""),
    ],
)
def test_the_kind_of_thing_that_is_asked_for(question: str, noun: str) -> None:
    words = QuestionWords(question)
    name = next(n for n, token in enumerate(words.tokens) if token.word == "borg")
    token = words.asked_noun(0, len(words), {name})
    assert (words.word(token) if token is not None else "") == noun
