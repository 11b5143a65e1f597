"""Which end of a relation a question asks for: what Anna works for, or who works for Anna."""

from __future__ import annotations

import re
from collections.abc import Sequence

INVERSE = "^"
"""Before a relation: the same relation read from its object, as in a SPARQL property path."""

_ASKING = r"(?:what|who|whom|which|whose|where)"
_SURE, _LIKELY = 0.95, 0.8


def asks_for_subject(before: str, between: str, after: str, *, mention_first: bool) -> float:
    """The probability that the subject is asked for, the mention being the object.

    In an active sentence the subject stands before the relation ("what does China consult ?"), in
    a passive one behind "by" ("who is consulted by China ?"), and before "of" stands the noun of
    what is asked ("the capital of China").

    Args:
        before: the words of the question before mention and relation.
        between: those between the two.
        after: those behind both.
        mention_first: whether the mention stands before the relation.
    """
    before, between, after = (
        " ".join(part.split()).casefold() for part in (before, between, after)
    )
    if mention_first:
        # "by whom is M consulted", "who is M consulted by", "M is consulted by whom"
        by = re.search(rf"\bby {_ASKING}\b", f"{before} {after}") or re.match(r"by\b", after)
        # "of whom is M the employer", "for which things is M the capital"
        whose = re.search(rf"\b(?:of|for) {_ASKING}\b", before) or re.match(
            rf"of(?: {_ASKING}\b|$)", after
        )
        if by or whose or re.search(r"\b(?:as|the|be)$", between):
            return _SURE if by or whose else _LIKELY
        return 1 - _SURE
    if re.search(r"\b(?:by|of|for|from)$", between):  # "consulted by M", "the capital of M"
        return 1 - _LIKELY
    return _SURE


def skeleton(
    text: str, mention: tuple[int, int], relation: Sequence[tuple[int, int]]
) -> tuple[str, str, str, bool] | None:
    """The words around a mention and a relation; None where the relation's words are not found.

    Args:
        text: the question.
        mention: where the mention stands, in characters.
        relation: where words of the relation stand.
    """
    spans = [one for one in relation if one[1] <= mention[0] or one[0] >= mention[1]]
    if not spans:
        return None
    behind = [one for one in spans if one[0] >= mention[1]]
    first = len(behind) * 2 >= len(spans)
    kept = behind if first else [one for one in spans if one[1] <= mention[0]]
    start, end = min(one[0] for one in kept), max(one[1] for one in kept)
    low, high = sorted((mention, (start, end)))
    return text[: low[0]], text[low[1] : high[0]], text[high[1] :], first
