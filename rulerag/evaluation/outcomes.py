"""How an answer ended: right, or wrong by the step that lost the accepted answer.

What is distinguished can be read off the texts: whether an accepted answer stands in a document
that was read, and whether the wrong one stands in another. Whether that other document caused the
wrong answer is for an explanation, which removes it and asks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rulerag.evaluation.metrics import AnswerMatcher
from rulerag.text import exact_match
from rulerag.types import Document

OUTCOMES: Mapping[str, str] = {
    "right": "the answer equals an accepted one (exact match)",
    "refused": "no answer is given: the question is not understood, or nothing is known of it",
    "misled": "a document that was read holds an accepted answer, and the answer given stands in "
    "one that does not",
    "ignored": "a document that was read holds an accepted answer, and the answer given stands in "
    "none of the others",
    "not retrieved": "no document that was read holds an accepted answer",
}
"""The ends of an answer with what each means, the good one first."""


@dataclass(frozen=True)
class Outcome:
    """How one answer ended.

    Args:
        name: a key of :data:`OUTCOMES`.
        holding: for each document that was read, whether it holds an accepted answer.
    """

    name: str
    holding: tuple[bool, ...]

    @property
    def retrieved(self) -> bool:
        """Whether a document that was read holds an accepted answer."""
        return any(self.holding)


def outcome_of(
    answer: str,
    accepted: Sequence[str],
    documents: Sequence[Document],
    matcher: AnswerMatcher,
    *,
    row: Mapping[str, Any] = MappingProxyType({}),
) -> Outcome:
    """How an answer ended, by the words of answers and documents alone.

    Args:
        answer: what was answered.
        accepted: the accepted answers; without one, an answer is "not retrieved".
        documents: what was read.
        matcher: one for a whole run, which makes it fast.
        row: the answer's line in ``predictions.jsonl``: whether it was refused, or lists several.
    """
    holding = tuple(matcher.first_rank([one], accepted) is not None for one in documents)
    if row.get("refused"):
        return Outcome("refused", holding)
    if exact_match(answer, accepted, row.get("values", ())):
        return Outcome("right", holding)
    if not any(holding):
        return Outcome("not retrieved", holding)
    others = [one for one, holds in zip(documents, holding, strict=True) if not holds]
    misled = matcher.first_rank(others, [answer]) is not None
    return Outcome("misled" if misled else "ignored", holding)
