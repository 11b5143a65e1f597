"""The English of explanations: what each kind of answer function gets, word for word."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import rulerag

LEAVE = [
    {"title": "Handbook 2023", "text": "Employees get 25 days of annual leave a year."},
    {"title": "HR update 2024", "text": "From April on annual leave is raised to 28 days."},
    {"title": "Intranet", "text": "Q: How many days? A: Employees get 25 days."},
    {"title": "Canteen", "text": "Monday: lentil soup."},
]
DRUGS = [
    {"title": "Warfarin", "text": "Ibuprofen with warfarin raises the risk of bleeding."},
    {"title": "Forum", "text": "I take both and it is perfectly fine."},
    {"title": "Ibuprofen", "text": "Warfarin raises the risk of bleeding."},
    {"title": "Nothing", "text": "  "},
]
INCIDENT = [
    "The connection pool of the database was exhausted on 3 May at 14:02.",
    "2.31 was deployed at 13:58 and sets the pool size to 5.",
    "Alice rolled 2.31 back at 14:39, after which there were no errors any more.",
]


def texts(documents: Sequence[Any]) -> list[str]:
    return [one if isinstance(one, str) else one["text"] for one in documents]


def newest(question: str, documents: Sequence[Any]) -> str:
    whole = " ".join(texts(documents))
    days = next((n for n in ("28", "25") if n in whole), None)
    return f"You get {days} days." if days else ""


def cautious(question: str, documents: Sequence[Any]) -> str:
    whole = " ".join(texts(documents))
    risks = whole.count("risk of bleeding")
    if "fine" in whole and risks < 2:
        return "You can take both."
    return "You must not take both: bleeding." if risks else "Please ask your pharmacist."


def several(question: str, documents: Sequence[Any]) -> str:
    whole = " ".join(texts(documents))
    said = []
    if "exhausted" in whole:
        said.append("The connection pool was exhausted.")
    if "deployed" in whole:
        said.append("Version 2.31 had set the pool size to 5.")
    if "rolled" in whole and said:
        said.append("A rollback at 14:39 ended it.")
    return " ".join(said) or "The documents do not say why."


def known(question: str, documents: Sequence[Any]) -> str:
    return "Paris is the capital of France."


def first(question: str, documents: Sequence[Any]) -> str:
    return next((text for text in texts(documents) if text.strip()), "I cannot answer that.")


def two_of_three(question: str, documents: Sequence[Any]) -> str:
    count = sum("days" in text for text in texts(documents))
    return "Leave is counted in days." if count >= 2 else "There is not enough information."


SPENT = "Asked twice with all documents, it gave the same answer; {} calls, 0.0 s."
TOLD: list[tuple[Callable[..., Any], Sequence[Any], str]] = [
    (
        newest,
        LEAVE[:2],
        """“You get 28 days.”
  rests on “HR update 2024” [2].
  becomes “You get 25 days.” without [2].
Certain: all 4 combinations of the two documents were tried.
"""
        + SPENT.format(5),
    ),
    (
        newest,
        LEAVE[1:2],
        """“You get 28 days.”
  rests on “HR update 2024” [1].
  becomes an empty answer without [1].
Certain: it was asked with the document and without it.
"""
        + SPENT.format(3),
    ),
    (
        cautious,
        DRUGS,
        """Document [4] is empty and was not looked at.
“You must not take both: bleeding.”
  rests on “Warfarin” [1] and “Ibuprofen” [3] together.
  becomes “You can take both.” without [1] and [3].
  speaks against it: “Forum” [2]; with [1] alone or with [3] alone it is said, and with [2] """
        """added it becomes “You can take both.”
Certain: all 8 combinations of the three documents were tried.
""" + SPENT.format(9),
    ),
    (
        several,
        INCIDENT,
        """“The connection pool was exhausted.”
  rests on “The connection pool of the database was…” [1].
  is left out without [1].
“Version 2.31 had set the pool size to 5.”
  rests on “2.31 was deployed at 13:58 and sets the pool…” [2].
  is left out without [2].
“A rollback at 14:39 ended it.”
  rests on “The connection pool of the database was…” [1] and “Alice rolled 2.31 back at 14:39, """
        """after which…” [3] together.
  is left out without [3]; becomes “The documents do not say why.” without [1] and “2.31 was """
        """deployed at 13:58 and sets the pool…” [2].
  also enough: [2] and [3] together.
Certain: all 8 combinations of the three documents were tried.
""" + SPENT.format(9),
    ),
    (
        known,
        LEAVE[:1],
        """“Paris is the capital of France.”
  rests on no document: it is said without any of them, too (known to the model, or made up).
Certain: it was asked with the document and without it.
"""
        + SPENT.format(3),
    ),
    (
        lambda question, documents: "I don't know. Hope this helps!",
        LEAVE[:1],
        """“I don't know. Hope this helps!”
  rests on no document: without any of them there is no answer, either.
Certain: it was asked with the document and without it.
"""
        + SPENT.format(3),
    ),
    (
        two_of_three,
        LEAVE[:3],
        """“Leave is counted in days.”
  rests on “Handbook 2023” [1] and “HR update 2024” [2] together.
  becomes “There is not enough information.” without [1] and [2] or without [1] and “Intranet” """
        """[3]; one other set of documents takes it away, too.
  also enough: any two of [1], [2] and [3].
Certain: all 8 combinations of the three documents were tried.
""" + SPENT.format(9),
    ),
]


@pytest.mark.parametrize(("function", "documents", "expected"), TOLD)
def test_what_is_said(
    function: Callable[..., Any], documents: Sequence[Any], expected: str
) -> None:
    why = rulerag.explain(function, "What is it?", documents)
    told = str(why)
    assert ("[no source]" in why.cited) == why.claims[0].unsupported
    assert re.sub(r"\d+\.\d s\.", "0.0 s.", told) == expected


SYSTEMS = (newest, cautious, several, known, first, two_of_three)
SETS = (LEAVE, DRUGS, INCIDENT, [*LEAVE, *DRUGS[:3], *INCIDENT], [INCIDENT[0]] * 3, [])


@pytest.mark.parametrize("function", SYSTEMS, ids=lambda one: one.__name__)
def test_every_system_is_told_in_whole_sentences(function: Callable[..., Any]) -> None:
    for documents in SETS:
        why = rulerag.explain(function, "What is it?", documents, budget=150)
        told = str(why)
        lines = told.splitlines()
        for line in lines[len(why.explanation.notes) :]:
            assert line.endswith((".", "”")), line
            assert not re.search(r"\.\.|”\.”|,,| ,|  \w.*  |\bno documents\b|\b1 documents", line)
        spoken = [line for line in lines if line.startswith("  ")]
        by_claim = [list(group) for key, group in itertools.groupby(lines, lambda a: a[:2] == "  ")]
        assert all(len(set(group)) == len(group) for group in by_claim), "nothing is said twice"
        for label in set(re.findall(r"\[\d+\]", "\n".join(spoken))):
            assert f"” {label}" in told, f"{label} is never named"
        for claim in why.claims:
            for one in claim.omission:
                assert one.output is None or claim.text not in one.output, "it is gone without them"


def test_documents_of_one_title_are_told_apart() -> None:
    pages = [
        {"source": "report.pdf", "text": f"Page {n}: {text}"} for n, text in enumerate(INCIDENT)
    ]
    told = str(rulerag.explain(several, "Why?", pages))
    assert (
        "“report.pdf: Page 0: The connection pool" in told and "“report.pdf: Page 1: 2.31" in told
    )


def test_money_and_noise_are_said() -> None:
    why = rulerag.explain(newest, "How many?", LEAVE, price=(1_000.0, 0.0), repeats=4)
    assert "Asked four times with all documents, it gave the same answer; 19 calls, about" in str(
        why
    )
    characters = sum(len(text) for text in texts(LEAVE)) * (8 + 3) + 19 * len("How many?")
    assert why.explanation.money == pytest.approx(characters / 4 * 1_000 / 1e6, rel=0.01)
    assert why.explanation.repeats == ("You get 28 days.",) * 3
    with pytest.raises(rulerag.RuleRAGError, match="below 0"):
        rulerag.explain(newest, "How many?", LEAVE, price=(-1.0, 0.0))


def test_several_claims_that_vary_are_counted() -> None:
    turns = itertools.count()

    def answer(question: str, documents: Sequence[Any]) -> str:
        return several(question, documents if next(turns) % 2 == 0 else documents[1:])

    why = rulerag.explain(answer, "Why?", INCIDENT, repeats=4, workers=1)
    note = str(why).splitlines()[0]
    assert note.startswith(
        "The answers vary: asked four times with all documents, one of the three"
    )
    assert note.endswith("Nothing that follows is more certain than that.")
