"""What is kept or removed as one: documents together, documents, sections, sentences, spans."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rulerag.composition import check_choice
from rulerag.errors import ConfigError
from rulerag.explanation.units.passages import Passage, origins_of
from rulerag.text import prose_spans, spans_between, word_spans

LEVELS = ("group", "document", "section", "sentence", "span", "word")
"""From coarse to fine."""

BY_RULE = "rule"
"""The level of groups by the mined rule that found the documents."""

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
            blocks of neighbours; ``rule`` (:data:`BY_RULE`) those that one mined rule found. A
            section is what stands under a heading, a page, a paragraph, or a block of sentences:
            the first of these that the document has. A span is a clause, or five words. Parts
            without a letter or a digit belong to no unit and always stay.

    Raises:
        ConfigError: there is no such level, or there are too many parts.
    """
    if level == BY_RULE:
        return _numbered(_groups(passages, [(*one.rules, _NO_RULE)[0] for one in passages]))
    check_choice("level", level, (*LEVELS, BY_RULE))
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
