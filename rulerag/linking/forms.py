"""What a question wants: entities, how many, yes or no, a time, the first or the last."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from rulerag.kg import Form
from rulerag.linking.words import words_of

Span = tuple[int, int]

_POLITE = re.compile(
    r"\W*(?:(?:please|hi|hello|hey|ok|so|and|now)\b[\s,]*"
    r"|(?:can|could|would|will) (?:you|anyone|somebody) (?:please )?"
    r"|do you (?:happen to )?know\b|any idea\b|i(?:'d| would) like to (?:know|see)\b"
    r"|i (?:want|need) to know\b|i wonder\b|i am looking for\b|i'm looking for\b"
    r"|tell me\b|let me know\b|remind me\b|find out\b|say\b"
    r"|(?:give|show|get|find|list|name|tell)(?: me| us| out)?\b(?: all\b| the names? of\b)*)\s*",
    re.IGNORECASE,
)
_WHETHER = re.compile(
    r"^\W*(?:whether|if)\b|\bis it (?:true|correct|the case)(?: that)?\b|\btrue or false\b|"
    r"\b(?:right|correct|true|isn't it)\?*$",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(
    r"^\W*(?:is|are|was|were|am|do|does|did|has|have|had|can|could|may|might|will|would)\b",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"\bhow many\b|\b(?:what is |what's |what was )?the (?:total )?(?:number|count) of\b|"
    r"^\W*(?:number of|count(?: of| all| the)?)\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(?:since |until |from )?when\b(?: exactly)?|"
    r"\b(?:in |on |at |since |until )?(?:what|which) (?:year|month|day|date|time)s?\b|"
    r"\b(?:what|which) (?:is|was) the (?:year|month|day|date)\b(?: (?:when|that|of|in which)\b)?",
    re.IGNORECASE,
)
_CURRENT = re.compile(r"\b(?:current|currently|nowadays|at present|at the moment)\b", re.IGNORECASE)
_LAST_TIME = re.compile(
    r"\bwhen was the (?:very )?(?:first|last|latest|most recent) time\b(?: that\b)?", re.IGNORECASE
)
_ORDER = {
    "first": re.compile(r"\b(?:the )?(?:very )?(?:first|earliest)\b", re.IGNORECASE),
    "last": re.compile(
        r"\b(?:the )?(?:very )?(?:last|latest|newest|most recent(?:ly)?)\b", re.IGNORECASE
    ),
}


@dataclass(frozen=True, slots=True)
class AskedForm:
    """What a question wants, and the words that say so.

    Args:
        form: of the query.
        spans: where these words stand, in characters.
        order: of a time, whether the first or the last is wanted; empty for all.
    """

    form: Form
    spans: tuple[Span, ...] = ()
    order: Literal["", "first", "last"] = ""


def asked_form(
    text: str,
    start: int = 0,
    *,
    dated: bool,
    names: Sequence[Span] = (),
    but: Collection[str] = (),
) -> AskedForm:
    """What a question wants, by the words that it is asked with.

    Args:
        text: the question.
        start: where it begins, in characters.
        dated: whether facts have times; there is no first or last of others.
        names: where names stand, whose words ask for nothing.
        but: words of relations, likewise where they ask for the first or the last.
    """
    spans: list[Span] = []
    begin = start
    while (polite := _POLITE.match(text, start)) and polite.end() > start:
        start = polite.end()
        if text[start - 1 : start].isalnum() and text[start : start + 1].isalnum():
            break
    spans += [(begin, start)] if start > begin else []

    def search(pattern: re.Pattern[str]) -> Span | None:
        for match in pattern.finditer(text, start):
            if not any(a < match.end() and match.start() < b for a, b in names):
                return match.span()
        return None

    if count := search(_COUNT):
        return AskedForm("count", (*spans, count))
    rest = text[start:]
    if (whether := search(_WHETHER)) is not None:
        return AskedForm("yes or no", (*spans, whether))
    time = search(_LAST_TIME) or search(_TIME)
    for form in ("first", "last") if dated else ():
        if (order := search(_ORDER[form])) and words_of(text[slice(*order)])[-1] not in but:
            which: Literal["first", "last"] = "first" if form == "first" else "last"
            if time:
                return AskedForm("time", (*spans, time, order), which)
            return AskedForm(which, (*spans, order))
    if time:
        return AskedForm("time", (*spans, time))
    if _YES_OR_NO.match(rest):
        return AskedForm("yes or no", tuple(spans))
    if dated and (current := search(_CURRENT)):
        return AskedForm("last", (*spans, current))
    return AskedForm("entities", tuple(spans))
