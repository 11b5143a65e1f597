"""Words run together: NELL writes ``agentbelongstoorganization``; readers need the spaces back."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from rulerag.io import read_text


@cache
def _lexicon() -> frozenset[str]:
    """The words of NELL-995's 200 relations and 270 categories.

    A piece that cannot be cut into these words without a rest stays as it is, so a graph with
    other words loses nothing.
    """
    return frozenset(read_text(Path(__file__).with_name("nell_words.txt")).split())


@lru_cache(maxsize=4096)
def split_words(text: str) -> str:
    """Put spaces into lower-case words run together; the text itself when a rest would stay.

    Of all ways to cut, the one with the fewest words wins, then the one whose first word is
    longest: ``stadiumoreventvenue`` becomes ``stadium or event venue``.
    """
    lexicon = _lexicon()
    best: list[tuple[int, int] | None] = [None] * len(text) + [(0, 0)]
    for start in range(len(text) - 1, -1, -1):
        for end in range(len(text), start, -1):
            rest = best[end]
            if rest is None or text[start:end] not in lexicon:
                continue
            segment = best[start]
            if segment is None or rest[0] + 1 < segment[0]:
                best[start] = (rest[0] + 1, end)
    words, start = [], 0
    while start < len(text):
        cut = best[start]
        if cut is None:
            return text
        words.append(text[start : cut[1]])
        start = cut[1]
    return " ".join(words)
