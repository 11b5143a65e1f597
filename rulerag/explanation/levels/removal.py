"""What the answer function reads where some units are removed: less, or neutral text in place."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

from rulerag.errors import ConfigError, did_you_mean
from rulerag.explanation.adapters import Changed
from rulerag.explanation.levels.passages import Passage, passages_of, with_text
from rulerag.explanation.levels.units import Unit, units_of

REMOVALS = ("delete", "replace")

NEUTRAL = "This part of the text is left blank."
"""Stands in place of what is removed: it has no name, number or denial, says nothing about any
question, and tells a reader that the gap is meant. Its words are common, so that as many characters
are about as many tokens."""


class Context:
    """Documents cut into units, and what is left of them when some units are kept.

    Args:
        documents: as the answer function takes them.
        level: what is kept or removed as one, one of :data:`rulerag.explanation.levels.LEVELS`.
        removal: ``delete``: what is removed is gone, a document without text with it. ``replace``:
            neutral text of about the same length stands in its place, so that the number of
            documents and their positions stay; a title is replaced, too.
        neutral: this text; repeated and cut at a word.
        by_identity: the answer function knows documents by their identity, so that changed ones
            are given with what they were made of.

    Attributes:
        whole: the documents as they are read.
        units: what is kept or removed as one, also what has no text.
        passages: the units as they are cited.
        places: which of them are sources: those with text.

    Raises:
        ConfigError: a document cannot be read or changed, or an argument is wrong.
    """

    def __init__(
        self,
        documents: Sequence[Any],
        *,
        level: str = "document",
        removal: str = "delete",
        neutral: str = NEUTRAL,
        by_identity: bool = False,
    ) -> None:
        if removal not in REMOVALS:
            raise ConfigError(
                f"unknown removal {removal!r}",
                key="removal",
                hint=did_you_mean(str(removal), REMOVALS),
            )
        if not isinstance(neutral, str) or not neutral.strip():
            raise ConfigError("expected a text with a word in it", key="neutral")
        self.documents, self.removal, self.neutral = list(documents), removal, neutral
        self.whole: tuple[Passage, ...] = tuple(passages_of(documents))
        self._by_identity = by_identity
        self._cut(units_of(self.documents, self.whole, level))

    def _cut(self, units: Sequence[Unit]) -> None:
        self.units = tuple(units)
        self.passages = tuple(unit.passage for unit in units)
        self.places = [n for n, unit in enumerate(units) if unit.passage.text.strip()]
        # What stands in each document, in order: from, to, source.
        self._of: list[list[tuple[int, int, int]]] = [[] for _ in self.documents]
        for source, place in enumerate(self.places):
            for document, start, end in self.units[place].spans:
                self._of[document].append((start, end, source))
        if self.removal == "replace" or any(len(held) > 1 for held in self._of):
            for document, held in zip(self.documents, self._of, strict=True):
                if held:  # found out before the first call
                    with_text(document, self.neutral)

    def finer(self, units: Sequence[Unit]) -> Context:
        """The same documents, cut into other units."""
        made = Context(
            self.documents,
            removal=self.removal,
            neutral=self.neutral,
            by_identity=self._by_identity,
        )
        made._cut(units)
        return made

    def given(self, kept: Sequence[int]) -> list[Any]:
        """The documents that the answer function reads.

        Args:
            kept: indices of sources.
        """
        made, there = list[Any](), set(kept)
        for document, text in self._texts(kept):
            original = self.documents[document]
            if text is None:
                made.append(original)
                continue
            untitled = all(source not in there for _, _, source in self._of[document])
            changed = with_text(original, text, untitled=untitled)
            made.append(Changed(original, changed) if self._by_identity else changed)
        return made

    def key(self, kept: Sequence[int]) -> Hashable:
        """What the answer function reads, as a key: equal where it reads the same.

        How parts are removed and what stands in their place is in it, since it is the texts read.
        """
        return tuple(
            document if text is None else (document, hashlib.sha256(text.encode()).digest())
            for document, text in self._texts(kept)
        )

    def _texts(self, kept: Sequence[int]) -> list[tuple[int, str | None]]:
        """Each document that is left, with its text where that is not the whole one."""
        there, found = set(kept), list[tuple[int, str | None]]()
        for document, held in enumerate(self._of):
            gone = [(start, end) for start, end, source in held if source not in there]
            if not gone:
                found.append((document, None))
            elif self.removal == "replace":
                found.append((document, self._replaced(self.whole[document].text, gone)))
            elif len(gone) < len(held):
                found.append((document, _without(self.whole[document].text, gone)))
        return found

    def _replaced(self, text: str, gone: Sequence[tuple[int, int]]) -> str:
        kept, position = [], 0
        for start, end in gone:
            kept += [text[position:start], neutral_text(end - start, self.neutral)]
            position = end
        return "".join([*kept, text[position:]])


def _without(text: str, gone: Sequence[tuple[int, int]]) -> str:
    """A text without some spans; of the white space around each the part with more lines stays."""
    kept, position, gap = [], 0, ""
    for start, end in gone:
        before = text[position:start]
        body = before.rstrip()
        kept += [gap, body] if body else []
        gap = before[len(body) :] if body else _wider(gap, before)
        position = end
        while position < len(text) and text[position].isspace():
            position += 1
        gap = _wider(gap, text[end:position])
    return "".join([*kept, gap, text[position:]]).strip()


def _wider(one: str, other: str) -> str:
    return other if other.count("\n") > one.count("\n") or not one else one


@lru_cache(maxsize=4096)
def neutral_text(length: int, neutral: str = NEUTRAL) -> str:
    """Neutral text of about so many characters, cut at a word; one word at least.

    Args:
        length: in characters.
        neutral: repeated as often as needed.
    """
    words, size = list[str](), -1
    for word in itertools.cycle(neutral.split()):
        if words and size + 1 + len(word) // 2 >= length:
            break
        words.append(word)
        size += 1 + len(word)
    text = " ".join(words)
    return text if text[-1] in ".!?" else f"{text.rstrip(',;:')}."
