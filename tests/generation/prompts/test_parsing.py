"""Answers in what real models wrote: the words of SmolLM2-135M-Instruct and Gemma 3 270M."""

from __future__ import annotations

import pytest

from rulerag.generation.prompts.template import PromptTemplate
from rulerag.types import GenerationRequest, Query

CRAIG = Query(
    "q1",
    "Time 1946 what is Les Craig affiliated to ?",
    subject="Les_Craig",
    relation="is_affiliated_to",
)


@pytest.mark.parametrize(
    ("wrote", "answer"),
    [
        ("The answer is: Luca Person.", "Luca Person"),
        ("The answer to the question is: Sonny Bono.\n", "Sonny Bono"),
        ("The answer is:\n\nSonny Bono.", "Sonny Bono"),
        ("\n\nThe answer is:\n", ""),
        ('The answer to the question "What does wham genre ?" is:\n', ""),
        ("The document states that the thing is a diamond.", "the thing is a diamond"),
        ("1. Rule One: [Entity 1, Consult, Entity 2]", "Rule One: [Entity 1, Consult, Entity 2]"),
        (
            " Defense / Security Ministry (Azerbaijan).\n",
            "Defense / Security Ministry (Azerbaijan)",
        ),
        # Not announcements: names that begin like one.
        ("The Answer Is Love.", "The Answer Is Love"),
        ("The Answer Magazine.", "The Answer Magazine"),
        ("Objective Party.", "Objective Party"),
        (" Ostra.", "Ostra"),
        ("\n\n Ostra.\nTime 2014 more", "Ostra"),
        ("Answer: Ostra", "Ostra"),
        ("J. R..", "J. R."),
        ("Washington D.C.", "Washington D.C."),
        ("Sammy Davis Jr.", "Sammy Davis Jr."),
        ("Ostra...", "Ostra"),
        ('"Ostra".', "Ostra"),
        ("**Ostra**", "Ostra"),
        (" \n ", ""),
        ("Answer:", ""),
        ("<think>\nMaybe.\n</think>\n\nOstra.", "Ostra"),
        ("<think>\nnever ends", ""),
        ("Maybe Sudavia.\n</think>\n\nOstra.", "Ostra"),  # begun by the chat template
    ],
)
def test_what_models_set_around_an_answer_goes(wrote: str, answer: str) -> None:
    assert PromptTemplate().parse(wrote) == answer


@pytest.mark.parametrize(
    ("wrote", "answer"),
    [
        # The question's statement, finished.
        (
            "The answer is: Les Craig is affiliated to Liberal Party of Australia.",
            "Liberal Party of Australia",
        ),
        (
            "Time 1945 Les Craig is affiliated to Nationalist Party of Australia.",
            "Nationalist Party of Australia",
        ),
        (
            "The document states that James Dunn (Australian politician) is affiliated to "
            "Commonwealth Liberal Party.",
            "Commonwealth Liberal Party",
        ),
        (
            "The answer is: [Les Craig, Nationalist Party of Australia]",
            "Nationalist Party of Australia",
        ),
        # Nothing behind the relation, or nothing before it: no statement.
        ("Les Craig is affiliated to", "Les Craig is affiliated to"),
        ("is affiliated to Les Craig", "is affiliated to Les Craig"),
        ("Commonwealth Liberal Party", "Commonwealth Liberal Party"),
    ],
)
def test_a_restated_question_is_answered_behind_its_relation(wrote: str, answer: str) -> None:
    assert PromptTemplate().parse(wrote, GenerationRequest(CRAIG)) == answer
