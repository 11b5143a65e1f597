"""A system that words the same fact in twenty ways: claims find its sources, equal words do not."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from statistics import fmean

import rulerag

FORMS = (
    "The {r} of {s} is {a}.", "{a} is the {r} of {s}, according to {n} sources.", "It is {a}.",
    "According to the documents, {a} is the {r} of {s}.", "{s} has {a} as its {r}.", "{a}",
    "The documents name {a}.", "As {r} of {s}, {n} texts give {a}.", "The answer is {a}.",
    "Based on what I read, the {r} of {s} would be {a}. I hope this helps!", "That is {a}.",
    "In {s} the post of {r} is held by {a}.", "Clearly {a}, see [{n}].", "{a} serves as {r}.",
    "I believe that {a} is the {r} of {s}.", "{s}'s {r}: {a}.", "The {r} in question is {a}.",
    "{n} documents agree: {a}.", "One reads that {a} holds the post.", "{a}, the {r} of {s}.",
)  # fmt: skip


POSTS = ("mayor", "director")
PEOPLE = ("Ann Meyer", "Bo Li", "Carla Souza", "Dmitri Orlov", "Eve O'Hara", "Fatou Diallo")
PLACES = ("Oslo", "Graz", "Quito", "Perth")
FILLER = ("The weather was mild.", "A new bridge was opened.", "The museum has 300 pictures.")


def f1(found: frozenset[int], true: frozenset[int]) -> float:
    return 2 * len(found & true) / (len(found) + len(true)) if found or true else 1.0


def scores(seed: int) -> tuple[float, float, float]:
    """How well claims, their least removal and equal words find the documents of an answer.

    One or two documents state it, one names another person of another place.
    """
    rng = random.Random(seed)
    post, (place, other), (right, wrong) = (
        rng.choice(POSTS),
        rng.sample(PLACES, 2),
        rng.sample(PEOPLE, 2),
    )
    states = f"{right} is the {post} of {place}."
    documents = [states] * rng.choice([1, 1, 2]) + [f"{wrong} is the {post} of {other}.", *FILLER]
    rng.shuffle(documents)
    true = frozenset(n for n, text in enumerate(documents) if text == states)

    def answer(_: str, kept: Sequence[str]) -> str:
        count = sum(text.startswith(right) for text in kept)
        if not count:
            return "I could not find that in the documents."
        form = FORMS[zlib.crc32("|".join(kept).encode()) % len(FORMS)]
        return form.format(a=right, r=post, s=place, n=count)

    question = f"Who is the {post} of {place}?"
    why = rulerag.explain(answer, question, documents)
    named = [claim for claim in why.claims if right in claim.text]
    assert named
    same = rulerag.explain(answer, question, documents, predicate=lambda text: text == why.text)
    sources, words = (
        frozenset(index for claim in claims for index in claim.sources)
        for claims in (named, same.claims)
    )
    removal = min((one for claim in named for one in claim.omission), key=len, default=())
    return f1(sources, true), f1(frozenset(removal), true), f1(words, true)


def test_claims_find_the_true_sources_of_a_system_that_rewords() -> None:
    by_claims, by_removal, by_words = map(fmean, zip(*map(scores, range(12)), strict=True))
    assert by_claims >= 0.95 and by_removal >= 0.95
    assert by_words < 0.6, "equal words take all for sources"
