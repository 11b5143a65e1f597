"""Paragraphs as documents; long ones become chunks of whole sentences that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rulerag.errors import ConfigError
from rulerag.text import sentence_spans, word_spans
from rulerag.texts.formats import TextBlock
from rulerag.types import Document


@dataclass(frozen=True)
class ChunkSettings:
    """How long documents may be.

    Args:
        words: of the longest document; a longer paragraph is cut between sentences, and a longer
            sentence between words.
        overlap: words at the end of a chunk that the next one begins with again, in whole
            sentences where they fit; below half of ``words``.

    Raises:
        ConfigError: a number out of range.
    """

    words: int = 200
    overlap: int = 40

    def __post_init__(self) -> None:
        if self.words < 10:
            raise ConfigError(f"{self.words} is below 10", key="words", hint="200")
        if not 0 <= 2 * self.overlap < self.words:
            raise ConfigError(
                f"{self.overlap} is not from 0 to {(self.words - 1) // 2}, below half of a chunk",
                key="overlap",
                hint=str(self.words // 5),
            )


def documents_of(
    name: str, blocks: Iterable[TextBlock], settings: ChunkSettings
) -> Iterator[Document]:
    """The documents of one file.

    A document's id is the file's name and the number of its paragraph, from 1, then that of the
    chunk where there are several: ``notes.md#3``, ``notes.md#4.2``. Its title is the file's name
    with the heading or page that the paragraph stands under. Headings count as paragraphs.

    Args:
        name: of the file, as ids and titles have it.
        blocks: its headings and paragraphs in order.
        settings: how long documents may be.
    """
    base, heading = "_".join(name.split()), ""
    for number, block in enumerate(blocks, start=1):
        if block.is_heading:
            heading = block.text
            continue
        place = ": ".join(filter(None, (name, block.page, heading)))
        chunks = list(chunks_of(block.text, settings))
        for part, text in enumerate(chunks, start=1):
            suffix = f".{part}" if len(chunks) > 1 else ""
            yield Document(f"{base}#{number}{suffix}", text, title=place)


def chunks_of(text: str, settings: ChunkSettings) -> Iterator[str]:
    """A text in chunks of whole sentences, each beginning with the end of the one before.

    Args:
        text: one paragraph.
        settings: how long a chunk may be.
    """
    if len(word_spans(text)) <= settings.words:
        yield text
        return
    pieces = [piece for span in sentence_spans(text) for piece in _pieces(text, span, settings)]
    lengths = [len(text[start:end].split()) for start, end in pieces]
    first = 0
    while first < len(pieces):
        last, size = first, lengths[first]
        while last + 1 < len(pieces) and size + lengths[last + 1] <= settings.words:
            last += 1
            size += lengths[last]
        yield text[pieces[first][0] : pieces[last][1]]
        if last + 1 == len(pieces):
            return
        again, size = last + 1, 0
        # Not so much again that nothing new would fit.
        room = min(settings.overlap, settings.words - lengths[last + 1])
        while again - 1 > first and size + lengths[again - 1] <= room:
            again -= 1
            size += lengths[again]
        first = again


def _pieces(text: str, span: tuple[int, int], settings: ChunkSettings) -> Iterator[tuple[int, int]]:
    """A sentence, cut between words where it is too long by itself; the cuts overlap."""
    words = [(span[0] + a, span[0] + b) for a, b in word_spans(text[slice(*span)])]
    if len(words) <= settings.words:
        yield span
        return
    step = settings.words - settings.overlap
    for start in range(0, max(1, len(words) - settings.overlap), step):
        part = words[start : start + settings.words]
        yield part[0][0], part[-1][1]
