"""Texts cut into sentences, and answers into claims: sentences, and the items of lists."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rulerag.errors import ConfigError
from rulerag.explanation.claims.refusals import is_chatter

# Scripts whose full stops nupunkt does not know: East Asian, Indic, Urdu, Arabic.
_STOPS = "\u3002\uff01\uff1f\u0964\u0965\u06d4\u061f"
_PIECE = re.compile(f"[^\n{_STOPS}]+[{_STOPS}]*[\u201d\u2019\u300d\u300f\u3011\uff09]*")
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


def split_sentences(text: str) -> list[Claim]:
    """The sentences of a text, in order; each item of a list is one of its own.

    Sentences are found by nupunkt (Bommarito, Katz and Bommarito 2025, arXiv:2504.04131), which
    knows abbreviations. Pieces without a letter or digit are left out.

    Args:
        text: any text.
    """
    import nupunkt

    sentences = []
    for piece in _PIECE.finditer(text):
        mark = _MARK.match(piece.group())
        begin = piece.start() + (mark.end() if mark else 0)
        body = text[begin : piece.end()]
        for start, end in nupunkt.sent_spans(body) if body.strip() else ():
            sentence = _trimmed(text, begin + start, begin + end)
            if _WORD.search(sentence.text):
                sentences.append(sentence)
    return sentences


def split_claims(answer: str) -> list[Claim]:
    """The sentences of an answer that claim something, in order.

    Left out are mere politeness and sentences that only announce a list (they end in a colon and
    something follows).

    Args:
        answer: any text.
    """
    return [
        sentence
        for sentence in split_sentences(answer)
        if not is_chatter(sentence.text)
        and not (sentence.text.endswith(":") and answer[sentence.end :].strip())
    ]


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
