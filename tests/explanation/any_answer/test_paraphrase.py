"""A system that words the same fact in twenty ways: claims find its sources, equal words do not."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

import rulerag
from rulerag.text import normalize_answer

FORMS = (
    "The {r} of {s} is {a}.", "{a} is the {r} of {s}, according to {n} sources.", "It is {a}.",
    "According to the documents, {a} is the {r} of {s}.", "{s} has {a} as its {r}.", "{a}",
    "The documents name {a}.", "As {r} of {s}, {n} texts give {a}.", "The answer is {a}.",
    "Based on what I read, the {r} of {s} would be {a}. I hope this helps!", "That is {a}.",
    "In {s} the post of {r} is held by {a}.", "Clearly {a}, see [{n}].", "{a} serves as {r}.",
    "I believe that {a} is the {r} of {s}.", "{s}'s {r}: {a}.", "The {r} in question is {a}.",
    "{n} documents agree: {a}.", "One reads that {a} holds the post.", "{a}, the {r} of {s}.",
)  # fmt: skip
PEOPLE = ("Ann Meyer", "Bo Li", "Carla Souza", "Dmitri Orlov", "Eve O'Hara", "Fatou Diallo")
PLACES = ("Oslo", "Graz", "Quito", "Perth")
FILLER = ("The weather was mild.", "A new bridge was opened.", "The museum has 300 pictures.")


def world(seed: int) -> tuple[str, list[str], set[int], str, str, str]:
    """A question, documents of which one or two state the answer, and the words of it."""
    rng = random.Random(seed)
    post, (place, other), (right, wrong) = (
        rng.choice(["mayor", "director"]),
        rng.sample(PLACES, 2),
        rng.sample(PEOPLE, 2),
    )
    texts = [f"{right} is the {post} of {place}."] * rng.choice([1, 1, 2])
    documents = [*texts, f"{wrong} is the {post} of {other}.", *FILLER, f"{place} is a city."]
    order = rng.sample(range(len(documents)), len(documents))
    true = {n for n, old in enumerate(order) if old < len(texts)}
    shuffled = [documents[old] for old in order]
    return f"Who is the {post} of {place}?", shuffled, true, right, post, place


def f1(found: set[int], true: set[int]) -> float:
    return 2 * len(found & true) / (len(found) + len(true)) if found or true else 1.0


def test_claims_find_the_true_sources_of_a_system_that_rewords() -> None:
    by_claims, by_words = [], []
    for seed in range(30):
        question, documents, true, right, post, place = world(seed)

        def answer(
            _: str, kept: Sequence[str], parts: tuple[str, ...] = (right, post, place)
        ) -> str:
            name, role, where = parts
            count = sum(text.startswith(name) for text in kept)
            if not count:
                return "I could not find that in the documents."
            form = FORMS[zlib.crc32("|".join(kept).encode()) % len(FORMS)]
            return form.format(a=name, r=role, s=where, n=count)

        why = rulerag.explain(answer, question, documents)
        assert len(why.claims) == 1 and why.explained.complete
        by_claims.append(f1(set(why.claims[0].sources), true))
        exact = normalize_answer(why.text)
        same = rulerag.explain(
            answer,
            question,
            documents,
            predicate=lambda text, exact=exact: normalize_answer(text) == exact,
        )
        by_words.append(f1(set(same.claims[0].sources), true))
    assert sum(by_claims) / 30 >= 0.95, by_claims
    assert sum(by_words) / 30 < 0.6, "equal words take every document for a source"
