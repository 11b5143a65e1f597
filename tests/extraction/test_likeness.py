"""Words that are like none of a pattern's, compared by a thesaurus and by definitions."""

from __future__ import annotations

import pytest

from rulerag.extraction import TripleExtractor
from rulerag.extraction.likeness import Likeness, tokens
from rulerag.types import Document, Fact

PATTERNS = ["married", "was born in", "acquired", "is the capital of"]


@pytest.mark.parametrize(
    ("said", "pattern"),
    [
        ("wed", "married"),
        ("is the wife of", "married"),
        ("bought", "acquired"),
    ],
)
def test_other_words_are_like_what_they_mean(said: str, pattern: str) -> None:
    alike = Likeness(PATTERNS).of(said)
    assert PATTERNS[int(alike.argmax())] == pattern
    assert alike.max() > 0.05


def test_words_that_share_nothing_are_not_alike() -> None:
    assert Likeness(PATTERNS).of("zxqwved").max() == 0
    assert Likeness([]).of("wed").shape == (0,)


def test_fixed_phrases_are_compared_as_one_word() -> None:
    assert "take over" in tokens("finally took over")


def test_new_words_are_read_without_a_model() -> None:
    people = [f"Ann{n} Bo{n}" for n in range(6)]
    towns = [f"Town{n}" for n in range(6)]
    seeds = [Fact(x, "born in", y) for x, y in zip(people, towns, strict=True)]
    seeds += [Fact(x, "married", y) for x, y in zip(people[:3], people[3:], strict=True)]
    texts = [f"{one.subject} was {one.relation} {one.object}." for one in seeds[:6]]
    texts += [f"{one.subject} married {one.object}." for one in seeds[6:]]
    texts += ["Cid Fo wed Dan Go.", "Cid Fo sneezed at Dan Go."]
    documents = [Document(f"d{n}", text) for n, text in enumerate(texts)]
    found = TripleExtractor(seeds).extract(documents)
    (new,) = [one for one in found.triples if one.fact not in seeds]
    assert new.fact == Fact("Cid Fo", "married", "Dan Go")
    assert new.by == "like: married"
