"""An answer cut into claims: its sentences, and the items of its lists."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rulerag.errors import ConfigError
from rulerag.explanation.claims.refusals import is_chatter

_LINE = re.compile(r"[^\n]+")
_MARK = re.compile(r"\s*(?:[-*•–]\s+|\d{1,2}[.)]\s+|#{1,6}\s+)?")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Claim:
    """A part of an answer that is true or false by itself.

    Args:
        text: what it says.
        start: where it begins in the answer, in characters.
        end: where it ends.
    """

    text: str
    start: int
    end: int


def split_claims(answer: str) -> list[Claim]:
    """The sentences of an answer, in order; each item of a list is one of its own.

    Sentences are found by nupunkt (Bommarito, Katz and Bommarito 2025, arXiv:2504.04131), which
    knows abbreviations. Pieces without a letter or digit are left out, and so are mere politeness
    and sentences that only announce a list (they end in a colon and something follows).

    Args:
        answer: any text.
    """
    import nupunkt

    claims = []
    for line in _LINE.finditer(answer):
        mark = _MARK.match(line.group())
        begin = line.start() + (mark.end() if mark else 0)
        body = answer[begin : line.end()]
        follows = bool(answer[line.end() :].strip())
        for start, end in nupunkt.sent_spans(body) if body.strip() else ():
            claim = _trimmed(answer, begin + start, begin + end)
            announces = follows and claim.text.endswith(":")
            if _WORD.search(claim.text) and not announces and not is_chatter(claim.text):
                claims.append(claim)
    return claims


def claim_at(answer: str, start: int, end: int) -> Claim:
    """The claim that stands at some characters of an answer, widened to whole words.

    Args:
        answer: the answer.
        start: the first character.
        end: behind the last one.

    Raises:
        ConfigError: nothing is said there.
    """
    if not 0 <= start < end <= len(answer) or not _WORD.search(answer[start:end]):
        raise ConfigError(
            f"the characters {start} to {end} of the answer say nothing",
            key="start, end",
            hint=f"the answer has {len(answer)} characters",
        )
    while start and answer[start - 1].isalnum() and answer[start].isalnum():
        start -= 1
    while end < len(answer) and answer[end].isalnum() and answer[end - 1].isalnum():
        end += 1
    return _trimmed(answer, start, end)


def _trimmed(answer: str, start: int, end: int) -> Claim:
    piece = answer[start:end]
    left, text = len(piece) - len(piece.lstrip()), piece.strip()
    return Claim(text, start + left, start + left + len(text))
