"""Tokens of lexical retrieval: lower-case words, with dates kept whole or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from rulerag.composition import Settings

# Lucene's list (EnglishAnalyzer), so that both BM25 back ends pass over the same words.
_LUCENE_STOPWORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
ENGLISH_STOPWORDS = frozenset(_LUCENE_STOPWORDS.split())
Dates = Literal["token", "split", "drop"]
"""What happens to the dates of a text, see :func:`rewrite_dates`."""
_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_WORD = re.compile(r"[^\W_]+")  # the underscores of raw graph names part words
# Chinese, Japanese and Korean letters: they stand without spaces, or with endings grown to them.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_HAS_CJK = re.compile(f"[{_CJK}]")
_CJK_RUN = re.compile(f"[{_CJK}]+|[^{_CJK}]+")


def rewrite_dates(text: str, dates: str) -> str:
    """Write the dates ``YYYY-MM-DD`` of a text so that word splitting treats them as wanted.

    Args:
        text: any text.
        dates: ``token`` makes one word of a date (``20140623``), ``split`` leaves year, month and
            day to fall apart, ``drop`` takes dates out.
    """
    if dates == "split":
        return text
    return _DATE.sub(r"\1\2\3" if dates == "token" else " ", text)


def _cjk_pairs(word: str) -> Iterator[str]:
    """Each two neighbours of Chinese, Japanese or Korean letters; other letters stay together."""
    for run in _CJK_RUN.findall(word):
        if len(run) == 1 or not _HAS_CJK.match(run):
            yield run
        else:
            yield from map("".join, pairwise(run))


class Tokenizer(Settings):
    """Splits texts into lower-case words.

    Chinese, Japanese and Korean words are not parted by spaces: every two neighbouring letters are
    a word, as Lucene's CJKAnalyzer has them.

    Args:
        dates: what happens to ``2014-06-23``: ``token`` keeps it as one word (``20140623``), so
            that a query matches documents of its very day; ``split`` makes year, month and day
            words of their own; ``drop`` leaves dates out.
        stopwords: ``en`` for Lucene's English list, ``none``, or the words to leave out.
        min_length: shortest word kept, in characters.

    Raises:
        ConfigError: an unknown option.
    """

    dates: Dates = "token"
    stopwords: Literal["en", "none"] | tuple[str, ...] = "en"
    min_length: int = Field(default=1, ge=1)

    @cached_property
    def _left_out(self) -> frozenset[str]:
        if isinstance(self.stopwords, str):
            return ENGLISH_STOPWORDS if self.stopwords == "en" else frozenset()
        return frozenset(word.lower() for word in self.stopwords)

    def __call__(self, text: str) -> list[str]:
        """The words of a text, in order, repeats kept."""
        words = _WORD.findall(rewrite_dates(text.lower(), self.dates))
        if _HAS_CJK.search(text):
            words = [part for word in words for part in _cjk_pairs(word)]
        left_out, least = self._left_out, self.min_length
        return [word for word in words if len(word) >= least and word not in left_out]

    def settings(self) -> dict[str, Any]:
        """The options as JSON values; ``Tokenizer(**settings)`` gives the same tokenizer."""
        return self.model_dump(mode="json")
