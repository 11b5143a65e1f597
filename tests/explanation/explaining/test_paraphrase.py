"""A system that words the same fact in twenty ways: claims find its sources, equal words do not."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from benchmarks.models.rewording import asked, sources_found

FORMS = (
    "The {r} of {s} is {a}.", "{a} is the {r} of {s}, according to {n} sources.", "It is {a}.",
    "According to the documents, {a} is the {r} of {s}.", "{s} has {a} as its {r}.", "{a}",
    "The documents name {a}.", "As {r} of {s}, {n} texts give {a}.", "The answer is {a}.",
    "Based on what I read, the {r} of {s} would be {a}. I hope this helps!", "That is {a}.",
    "In {s} the post of {r} is held by {a}.", "Clearly {a}, see [{n}].", "{a} serves as {r}.",
    "I believe that {a} is the {r} of {s}.", "{s}'s {r}: {a}.", "The {r} in question is {a}.",
    "{n} documents agree: {a}.", "One reads that {a} holds the post.", "{a}, the {r} of {s}.",
)  # fmt: skip


def test_claims_find_the_true_sources_of_a_system_that_rewords() -> None:
    rows = []
    for seed in range(12):
        one = asked(seed)

        def answer(_: str, kept: Sequence[str], one: Any = one) -> str:
            count = sum(text.startswith(one.person) for text in kept)
            if not count:
                return "I could not find that in the documents."
            form = FORMS[zlib.crc32("|".join(kept).encode()) % len(FORMS)]
            return form.format(a=one.person, r=one.post, s=one.place, n=count)

        rows.append(sources_found(answer, one))
    assert all(row["names_the_person"] for row in rows)
    assert sum(row["f1_claims"] for row in rows) / len(rows) >= 0.95, rows
    assert sum(row["f1_removal"] for row in rows) / len(rows) >= 0.95, rows
    assert sum(row["f1_words"] for row in rows) / len(rows) < 0.6, (
        "equal words take all for sources"
    )
