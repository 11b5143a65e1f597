"""Texts cut into sentences, and answers into claims: sentences, and the items of lists."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rulerag.errors import ConfigError
from rulerag.explanation.claims.refusals import is_chatter
from rulerag.text import prose_spans, trimmed_span

_LINE = re.compile(r"[ \t]*(?:(?:[-*•–]|\d{1,2}[.)]|#{1,6})[ \t]+)?([^\n]+)")
"""A line without the mark of an item or a heading."""
_LETTER = re.compile(r"\w")


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
    """The sentences of a text, in order; each line, and so each item of a list, by itself.

    Pieces without a letter or digit are left out.

    Args:
        text: any text.
    """
    spans = [
        (line.start(1) + start, line.start(1) + end)
        for line in _LINE.finditer(text)
        for start, end in prose_spans(line[1])
    ]
    sentences = [Claim(text[start:end], start, end) for start, end in spans]
    return [sentence for sentence in sentences if _LETTER.search(sentence.text)]


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
    if not 0 <= start < end <= len(answer) or not _LETTER.search(answer[start:end]):
        raise ConfigError(
            f"the characters {start} to {end} of the answer say nothing",
            key="start, end",
            hint=f"the answer has {len(answer)} characters",
        )
    while start and answer[start - 1].isalnum() and answer[start].isalnum():
        start -= 1
    while end < len(answer) and answer[end].isalnum() and answer[end - 1].isalnum():
        end += 1
    start, end = trimmed_span(answer, start, end)
    return Claim(answer[start:end], start, end)
