"""Documents cut into units, and what the answer function reads where some of them are removed.

What is kept or removed as one: documents together, documents, sections, sentences, spans, words.
What is removed is gone, or neutral text stands in its place.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from rulerag.composition import check_choice
from rulerag.errors import ConfigError
from rulerag.explanation.units.passages import Passage, origins_of, passages_of, with_text
from rulerag.text import prose_spans, spans_between, word_spans

LEVELS = ("group", "document", "section", "sentence", "span", "word")
"""From coarse to fine."""

MOST_UNITS = 20_000
"""A search over more parts than this takes longer than the calls it makes."""

_FEWEST_SENTENCES, _WORDS_A_SPAN, _FEWEST_WORDS = 10, 5, 3
_SECTIONS = (
    re.compile(r"^[ \t]*#{1,6}[ \t]+\S.*$", re.MULTILINE),  # headings
    re.compile("\f"),  # pages
    re.compile(r"\n[ \t]*\n\s*"),  # paragraphs
)
_CLAUSE = re.compile(r"(?<=[,;:])\s+|\s+(?=[–—(])|(?<=[–—)])\s+")
_LETTER = re.compile(r"\w")

_MOST_NAMED = 6
_NO_RULE = "the question alone"

Span = tuple[int, int]


@dataclass(frozen=True)
class Unit:
    """Something that is kept or removed as one.

    Args:
        passage: as it is cited; its index is the place among all units.
        spans: where it stands: places of documents from 0, the first character and the one behind
            the last; disjoint from those of every other unit.
        level: one of :data:`LEVELS`.
    """

    passage: Passage
    spans: tuple[tuple[int, int, int], ...]
    level: str


def units_of(documents: Sequence[Any], passages: Sequence[Passage], level: str) -> list[Unit]:
    """All documents cut to one level, in order.

    Args:
        documents: as the answer function takes them; their metadata says what belongs together.
        passages: the same as they are read.
        level: one of :data:`LEVELS`. ``group`` is the documents of one origin, by the metadata, or
            blocks of neighbours; ``rule`` those that one mined rule found. A
            section is what stands under a heading, a page, a paragraph, or a block of sentences:
            the first of these that the document has. A span is a clause, or five words. Parts
            without a letter or a digit belong to no unit and always stay.

    Raises:
        ConfigError: there is no such level, or there are too many parts.
    """
    if level == "rule":
        return _numbered(_groups(passages, [(*one.rules, _NO_RULE)[0] for one in passages]))
    check_choice("level", level, (*LEVELS, "rule"))
    if level == "group":
        return _numbered(_groups(passages, origins_of(documents)))
    return _numbered([part for one in passages for part in _down_to(_document(one), level)])


def opened(
    units: Sequence[Unit], places: Sequence[int], passages: Sequence[Passage], level: str | None
) -> list[Unit]:
    """The units with some of them cut finer, all others as they are.

    Args:
        units: what stands there.
        places: which of them are cut.
        passages: the whole documents.
        level: one of :data:`LEVELS`; for each the next that has two parts or more when None.

    Raises:
        ConfigError: there is no such level or place, none of them has parts there, or there are
            too many.
    """
    if level is not None:
        check_choice("level", level, LEVELS)
    wrong = [place for place in places if not 0 <= place < len(units)]
    if wrong:
        raise ConfigError(f"{wrong[0]} is not among {len(units)} documents", key="documents")
    chosen, made = set(places), list[Unit]()
    for place, unit in enumerate(units):
        made += _finer(unit, passages, level) if place in chosen else [unit]
    if len(made) == len(units):
        names = [units[place].passage.label for place in sorted(chosen)]
        named = ", ".join([*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])])
        at = f"at the level {level!r}" if level else "at a finer level"
        raise ConfigError(
            f"{named}: not two parts {at}" if names else "no document decides",
            key="level" if level else "documents",
            hint="documents=[…] opens others; the levels are " + ", ".join(LEVELS),
        )
    return _numbered(made)


def _document(passage: Passage) -> Unit:
    """A whole document as one unit."""
    return Unit(passage, ((passage.index, 0, len(passage.text)),), "document")


def _finer(unit: Unit, passages: Sequence[Passage], level: str | None) -> list[Unit]:
    finer = LEVELS[LEVELS.index(unit.level) + 1 :]
    if level is not None:
        return _opened(unit, passages, level) if level in finer else [unit]
    # Single words only where they are asked for.
    parts = (_opened(unit, passages, one) for one in finer if one != "word")
    return next((pieces for pieces in parts if len(pieces) > 1), [unit])


def _opened(unit: Unit, passages: Sequence[Passage], level: str) -> list[Unit]:
    if unit.level != "group":
        return _down_to(unit, level)
    whole = (_document(passages[place]) for place, _, _ in unit.spans)
    return [part for one in whole for part in _down_to(one, level)]


def _down_to(unit: Unit, level: str) -> list[Unit]:
    """A unit of one document cut level by level."""
    units = [unit]
    for step in LEVELS[LEVELS.index(unit.level) + 1 : LEVELS.index(level) + 1]:
        units = [part for one in units for part in _cut(one, step)]
    return units


def _cut(unit: Unit, level: str) -> list[Unit]:
    if not unit.passage.text.strip():
        return [unit]
    ((document, begin, _),) = unit.spans
    text = unit.passage.text
    spans = _with_letters(text, _SPANS[level](text))
    if len(spans) < 2:
        return [replace(unit, level=level, passage=replace(unit.passage, level=level))]
    number = unit.passage.part or str(unit.passage.index + 1)
    parts = []
    for place, (start, end) in enumerate(spans, start=1):
        where = (document, begin + start, begin + end)
        passage = replace(
            unit.passage,
            text=text[start:end],
            part=f"{number}.{place}",
            level=level,
            spans=(where,),
        )
        parts.append(Unit(passage, (where,), level))
    return parts


def _groups(passages: Sequence[Passage], origins: Sequence[str] | None) -> list[Unit]:
    """Documents of one origin, or blocks of neighbours about as long as there are blocks."""
    groups: dict[str, list[Passage]] = {}
    size = math.ceil(math.sqrt(max(1, len(passages))))
    for place, passage in enumerate(passages):
        groups.setdefault(origins[place] if origins else str(place // size), []).append(passage)
    units = []
    for name, members in groups.items():
        spans = tuple((one.index, 0, len(one.text)) for one in members)
        text = "\n\n".join(one.text for one in members)
        title = name if origins else ""
        part = _ranges([one.index + 1 for one in members])
        units.append(Unit(Passage(0, text, title, "", part, "group", spans), spans, "group"))
    return units


def _ranges(numbers: Sequence[int]) -> str:
    """``1-4, 9``: ascending numbers with neighbours drawn together, cut after three runs."""
    runs = [
        [number for _, number in run]
        for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:3]]
    return ", ".join([*shown, "…"] if len(runs) > 3 else shown)


def _numbered(units: Sequence[Unit]) -> list[Unit]:
    if len(units) > MOST_UNITS:
        raise ConfigError(
            f"there are {len(units):,} parts, {MOST_UNITS:,} at most can be looked at",
            key="level",
            hint="begin with a coarser level; why.finer() opens what decides",
        )
    made = []
    for place, unit in enumerate(units):
        passage = unit.passage
        # A whole document behind parts keeps the number that it has among the documents.
        part = passage.part or (None if place == passage.index else str(passage.index + 1))
        made.append(replace(unit, passage=replace(passage, index=place, part=part)))
    return made


# --- where a text is cut: trimmed character spans, in order ---------------------------------------


def section_spans(text: str) -> list[Span]:
    """What stands under each heading; else pages; else paragraphs; else blocks of sentences.

    A block has ten sentences, in a long text as many as there are blocks.
    """
    for edge in _SECTIONS:
        starts = [match.start() for match in edge.finditer(text)]
        sections = _with_letters(text, spans_between(text, starts))
        if len(sections) > 1:
            return sections
    sentences = _with_letters(text, prose_spans(text))
    return _blocks(sentences, max(_FEWEST_SENTENCES, math.ceil(math.sqrt(len(sentences)))))


def clause_spans(text: str) -> list[Span]:
    """The clauses of a sentence, of three words at least; five words each where it has none."""
    clauses: list[Span] = []
    pieces = spans_between(text, [match.end() for match in _CLAUSE.finditer(text)])
    for piece in _with_letters(text, pieces):
        near = [*clauses[-1:], piece]
        if len(near) > 1 and min(len(text[slice(*one)].split()) for one in near) < _FEWEST_WORDS:
            clauses[-1] = (near[0][0], piece[1])
        else:
            clauses.append(piece)
    return clauses if len(clauses) > 1 else _blocks(word_spans(text), _WORDS_A_SPAN)


def _with_letters(text: str, spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if _LETTER.search(text[slice(*span)])]


def _blocks(spans: Sequence[Span], size: int) -> list[Span]:
    """Spans drawn together, so many each."""
    blocks = [spans[n : n + size] for n in range(0, len(spans), size)]
    return [(block[0][0], block[-1][1]) for block in blocks]


_SPANS: dict[str, Callable[[str], list[Span]]] = {
    "section": section_spans,
    "sentence": prose_spans,
    "span": clause_spans,
    "word": word_spans,
}


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
        # The source of each document, -1 for none, where a document is left or gone as one.
        plain = self.removal == "delete" and type(self).instead is Context.instead
        single = plain and all(len(held) < 2 for held in self._of)
        self._whole_ones = [h[0][2] if h else -1 for h in self._of] if single else None
        self._are_sources = self._whole_ones == list(range(len(self.documents)))
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
        if self._are_sources:
            return [self.documents[source] for source in kept]
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
        if self._are_sources:
            return tuple(kept)
        return tuple(
            document if text is None else (document, hashlib.sha256(text.encode()).digest())
            for document, text in self.texts(kept)
        )

    def texts(self, kept: Sequence[int]) -> list[tuple[int, str | None]]:
        """Each document that is left, with its text where that is not the whole one."""
        there, left = frozenset(kept), list[tuple[int, str | None]]()
        if self._whole_ones is not None:
            return [(n, None) for n, one in enumerate(self._whole_ones) if one < 0 or one in there]
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
