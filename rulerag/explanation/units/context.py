"""What the answer function reads where some units are removed: less, or neutral text in place."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

from rulerag.composition import check_choice
from rulerag.errors import ConfigError
from rulerag.explanation.units.cutting import Unit, units_of
from rulerag.explanation.units.passages import Passage, passages_of, with_text

REMOVALS = ("delete", "replace")

NEUTRAL = "This part of the text is left blank."
"""Stands in place of what is removed: it has no name, number or denial, says nothing about any
question, and tells a reader that the gap is meant. Its words are common, so that as many characters
are about as many tokens."""


class Context:
    """Documents cut into units, and what is left of them when some units are kept.

    Args:
        documents: as the answer function takes them.
        level: what is kept or removed as one, one of :data:`rulerag.explanation.units.LEVELS`, or
            ``rule``.
        removal: ``delete``: what is removed is gone, a document without text with it. ``replace``:
            neutral text of about the same length stands in its place, so that the number of
            documents and their positions stay; a title is replaced, too.
        neutral: this text; repeated and cut at a word.

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
    ) -> None:
        check_choice("removal", removal, REMOVALS)
        if not isinstance(neutral, str) or not neutral.strip():
            raise ConfigError("expected a text with a word in it", key="neutral")
        self.documents, self.removal, self.neutral = list(documents), removal, neutral
        self.whole: tuple[Passage, ...] = tuple(passages_of(documents))
        self.cut(units_of(self.documents, self.whole, level))

    def cut(self, units: Sequence[Unit]) -> None:
        """Cut the documents into other units."""
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
        made = Context(self.documents, removal=self.removal, neutral=self.neutral)
        made.cut(units)
        return made

    def given(self, kept: Sequence[int]) -> list[Any]:
        """The documents that the answer function reads.

        Args:
            kept: indices of sources.
        """
        made, there = list[Any](), set(kept)
        for document, text in self.texts(kept):
            original = self.documents[document]
            if text is None:
                made.append(original)
                continue
            untitled = all(source not in there for _, _, source in self._of[document])
            made.append(with_text(original, text, untitled=untitled))
        return made

    def key(self, kept: Sequence[int]) -> Hashable:
        """What the answer function reads, as a key: equal where it reads the same.

        How parts are removed and what stands in their place is in it, since it is the texts read.
        """
        return tuple(
            document if text is None else (document, hashlib.sha256(text.encode()).digest())
            for document, text in self.texts(kept)
        )

    def texts(self, kept: Sequence[int]) -> list[tuple[int, str | None]]:
        """Each document that is left, with its text where that is not the whole one."""
        there, left = frozenset(kept), list[tuple[int, str | None]]()
        for document, held in enumerate(self._of):
            removed = [
                (start, end, self.instead(source, end - start, there))
                for start, end, source in held
                if source not in there
            ]
            if not removed:
                left.append((document, None))
            elif len(removed) < len(held) or any(text is not None for _, _, text in removed):
                left.append((document, _edited(self.whole[document].text, removed)))
        return left

    def instead(self, source: int, length: int, kept: frozenset[int]) -> str | None:
        """What stands in the place of a source that is removed; None where nothing does.

        Args:
            source: its index.
            length: of its text, in characters; of its text there, where it stands in several
                documents.
            kept: the sources that are kept.
        """
        return neutral_text(length, self.neutral) if self.removal == "replace" else None


def _edited(text: str, removed: Sequence[tuple[int, int, str | None]]) -> str:
    """A text with other text, or nothing, in the place of some spans.

    Of the white space around a span that is deleted the part with more lines stays.
    """
    parts, position, gap = [], 0, ""
    for start, end, instead in removed:
        before = text[position:start]
        position = end
        if instead is not None:
            parts += [gap, before, instead]
            gap = ""
            continue
        body = before.rstrip()
        parts += [gap, body] if body else []
        gap = before[len(body) :] if body else _wider(gap, before)
        while position < len(text) and text[position].isspace():
            position += 1
        gap = _wider(gap, text[end:position])
    edited = "".join([*parts, gap, text[position:]])
    return edited.strip() if any(instead is None for _, _, instead in removed) else edited


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
