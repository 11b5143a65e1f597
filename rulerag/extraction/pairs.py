"""Neighbouring names of a sentence, the words between them, and the date of the sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from rulerag.extraction.names import Named, NameReader
from rulerag.extraction.records import Span
from rulerag.extraction.words import is_denied, stems_of
from rulerag.kg import Calendar
from rulerag.linking import stated_times
from rulerag.text import sentence_spans
from rulerag.types import Document

_WORD = re.compile(r"[\w'\u2019-]+")
_BREAK = re.compile("[;:]")


class NamePair(NamedTuple):
    """Two neighbouring names and the words between them.

    Args:
        first: the name that stands first.
        second: the other.
        words: what stands between the two, as it is written.
        stems: the same, as patterns are compared; never empty.
        span: from the first name to the second or to the date, in characters of the document.
        sentence: the span of their sentence.
        time: the timestamp that the sentence states of them; None for none.
    """

    first: Named
    second: Named
    words: tuple[str, ...]
    stems: tuple[str, ...]
    span: Span
    sentence: Span
    time: int | None


def pairs_of(document: Document, reader: NameReader, calendar: Calendar) -> Iterator[NamePair]:
    """The neighbouring names of each sentence that words join, in the order of the text.

    What did not happen ("did not", "never", "would") is left out. A date belongs to the two names
    that it follows before the next name; one before the first name of a sentence belongs to all.

    Args:
        document: the text.
        reader: finds its names.
        calendar: of the dates.
    """
    text = document.text
    # A date may begin with a comma or a blank; that of a sentence begins with its first letter.
    dates = [
        (time, (end - len(text[start:end].lstrip(" ,(\n")), end))
        for time, (start, end) in stated_times(text, calendar)
    ]
    names = reader.read(text, [span for _, span in dates])
    for start, end in sentence_spans(text):
        here = [one for one in names if start <= one.start < end]
        stated = [one for one in dates if start <= one[1][0] < end]
        for number, (first, second) in enumerate(pairwise(here)):
            said = text[first.end : second.start]
            for _, (a, b) in stated:
                if first.end <= a < second.start:
                    said = said.replace(text[a:b], " ")
            words = tuple(_WORD.findall(said))
            stems = stems_of(words)
            before = _WORD.findall(text[start : first.start])
            if not stems or _BREAK.search(said) or is_denied(words, before):
                continue
            after = here[number + 2].start if number + 2 < len(here) else end
            behind = next((d for d in stated if first.end <= d[1][0] < after), None)
            leading = next((d for d in stated if d[1][0] < here[0].start), None)
            dated = behind or leading
            last = max(second.end, behind[1][1]) if behind else second.end
            time = None if dated is None else dated[0]
            span = first.start, last
            yield NamePair(first, second, words, stems, span, (start, end), time)
