"""Words run together, cut apart again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rulerag.kg.labels.nell_words import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stadiumoreventvenue", "stadium or event venue"),
        ("agentbelongstoorganization", "agent belongs to organization"),
        ("sportsgamesport", "sports game sport"),
        (
            "agriculturalproductcutintogeometricshape",
            "agricultural product cut into geometric shape",
        ),
        ("organization", "organization"),
        ("cityofxyzzy", "cityofxyzzy"),
        ("", ""),
    ],
)
def test_words_are_split(text: str, words: str) -> None:
    assert split_words(text) == words


def test_every_relation_of_nell_is_split(graph_folder: Callable[[str], Path]) -> None:
    lines = (graph_folder("nell995") / "relation2id.txt").read_text().splitlines()[1:]
    names = [line.split("\t")[0].removeprefix("concept:") for line in lines]
    assert len(names) == 200
    whole = [name for name in names if split_words(name) == name]
    assert whole == ["acquired"]
    assert all(split_words(name).replace(" ", "") == name for name in names)
