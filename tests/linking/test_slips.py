"""Names with slips of the pen."""

from __future__ import annotations

import pytest

from rulerag.linking import MentionFinder
from rulerag.linking.words.slips import slips

NAMES = ("Iran", "Bean Cars", "Cars", "Head of Government (Nigeria)", "Government (Nigeria)")
NAMES += ("Citizen (Zambia)", "Citizen (Namibia)", "basketball", "basket", "two men", "wto")
FINDER = MentionFinder({name: (name,) for name in NAMES}, ["owns", "plays sport", "ran for"])


@pytest.mark.parametrize(
    ("text", "entity"),
    [
        ("What does Irn own?", "Iran"),  # three letters are left
        ("Who has ran there?", "Iran"),  # a known word, and nothing else is a name
        ("What could own Ban Cars?", "Bean Cars"),  # the rest is a name too
        ("What does Had of Government (Nigeria) own?", "Head of Government (Nigeria)"),
        ("Who owns Citizen (Zamiba)?", "Citizen (Zambia)"),  # two swapped letters, or two slips
        ("Who plays basketbal?", "basketball"),
        ("Who plays basket ball?", "basketball"),  # parted
        ("What do twomen own?", "two men"),  # joined
        ("What do wto men own?", "two men"),  # swapped letters that make another name
        ("What does Government (Nigeria) own?", "Government (Nigeria)"),  # no slip
    ],
)
def test_a_name_with_a_slip(text: str, entity: str) -> None:
    assert FINDER.find(text)[0].entity == entity


@pytest.mark.parametrize(
    ("text", "entity"),
    [
        ("Who wrote The Loved One", "The Loved One"),  # "ones" is rare, and counts more
        ("Who led the Despair film", "Despair"),  # "led" is a word, which no name has
        ("Who lled the film?", "Fled"),
    ],
)
def test_what_stands_there_is_likelier_than_a_slip(text: str, entity: str) -> None:
    others = map("film {}".format, range(999))
    names = ("The Loved One", "The Loved Ones", "Despair", "Fled", *others)
    finder = MentionFinder({name: (name,) for name in names}, ["written by"])
    assert finder.find(text)[0].entity == entity


def test_likelier_slips_come_first() -> None:
    one, other, two = (slips(text, "levine", 1) for text in ("levien", "lebine", "levinne"))
    assert one == two == 1.0 < other  # another letter is one of 25
    assert slips("lxevine", "levine", 1) == other  # a letter of nowhere
    assert slips("elvien", "levine", 2) > other
    assert slips("levin", "levine", 1) == slips("levine ", "levine", 1) == 1.0
